"""The search for devices: one regression a rule, and random cases with the answers of kube-scheduler's allocator.

``data/allocations.jsonl.gz`` holds random cases (firstAvailable with constraints, shared counters, consumable capacity
with policies, binding conditions, administration, tolerations, pools in every state, slices by name, selector and
device), one a line, with what the ``incubating`` allocator of k8s.io/dynamic-resource-allocation v0.36.3 answered.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from scheduler.cluster.devices.descriptions import attribute_of
from scheduler.plugins.devices.one_node import Found
from scheduler.plugins.devices.results import allocation_of
from scheduler.plugins.devices.search import Fault
from tests.device_documents import DRIVER, claim, device_class, exactly, gpu, resource_slice
from tests.plugins.devices.allocations import Document, answer_to, comparable, searched

with gzip.open(Path(__file__).parent / "data" / "allocations.jsonl.gz", "rt") as lines:
    CASES = [json.loads(line) for line in lines]
NODE = {"metadata": {"name": "n0", "uid": "n0", "labels": {}}, "status": {}}
ALL = {"allocationMode": "All"}


def case(
    *slices: Document, requests: list[Document], allocated: list[Document] | None = None, **devices: Any
) -> Document:
    return {
        "node": NODE,
        "classes": [device_class("gpus", "true")],
        "slices": list(slices),
        "claims": [claim("wanted", requests=requests, **devices)],
        "allocated": allocated or [],
    }


def request(name: str, *expressions: str, **fields: object) -> Document:
    return {"name": name, "exactly": exactly("gpus", *expressions) | fields}


def first_available(name: str, *alternatives: Document) -> Document:
    return {"name": name, "firstAvailable": [exactly("gpus") | one for one in alternatives]}


def held(device: str, **fields: object) -> Document:
    found = claim("held", "gpus")
    result = {"request": "r", "driver": DRIVER, "pool": "n0", "device": device, **fields}
    found["status"] = {"allocation": {"devices": {"results": [result]}}}
    return found


def devices(answer: Document) -> list[str]:
    return [result["device"] for one in answer["results"] for result in one["devices"]["results"]]


def shared(name: str, **fields: object) -> Document:
    return gpu(name, allowMultipleAllocations=True, **fields)


MEMORY = {"memory": {"value": "4", "requestPolicy": {"default": "1", "validRange": {"min": "1"}}}}


# --- random cases -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(0, len(CASES), 20))
def test_the_answers_are_those_of_kube_schedulers_allocator(number: int) -> None:
    for one in CASES[number : number + 20]:
        assert answer_to(one) == comparable(one["answer"]), one["seed"]


def test_in_all_answers_no_device_is_given_twice_constraints_hold_and_counters_suffice() -> None:
    """What any allocator must keep to, whatever its order: asked of the same cases."""
    allocated = 0
    for one in CASES:
        cache, found = searched(one)
        if not isinstance(found, Found):
            continue
        allocated += 1
        devices_by_id = {each.device.id: each for pool in cache.view.devices.pools(0) for each in pool.devices}
        whole = Counter(
            chosen.device.device.id
            for _, several in found.claims
            for chosen in several
            if chosen.consumed is None and not chosen.need.is_admin
        )
        assert not whole or max(whole.values()) == 1
        for needs, several in found.claims:
            assert all(chosen.device.device.id in devices_by_id for chosen in several)
            for constraint in needs.constraints:
                if constraint.match_attribute is None:
                    continue
                concerned = [
                    attribute_of(chosen.device.device.id[0], chosen.device.device.fields, constraint.match_attribute)
                    for chosen in several
                    if not constraint.requests or {chosen.need.parent, chosen.need.name} & set(constraint.requests)
                ]
                assert len(set(concerned)) <= 1
                assert None not in concerned
        used: Counter[tuple[tuple[str, str], str, str]] = Counter()
        for chosen in {one.device.device.id: one for _, several in found.claims for one in several}.values():
            for counter_set, counters in chosen.device.device.consumes.items():
                for counter, amount in counters.items():
                    used[chosen.pool, counter_set, counter] += amount
        # Counters go by the pool's name without its driver: of two pools of one name the second's are not looked at.
        by_name = Counter(pool.key[1] for pool in cache.view.devices.pools(0))
        for pool in cache.view.devices.pools(0):
            for counter_set, amounts in pool.counter_sets.items():
                for counter, amount in amounts.items():
                    assert by_name[pool.key[1]] > 1 or used[pool.key, counter_set, counter] <= amount
    assert allocated > 100


# --- one rule each ----------------------------------------------------------------------------------------------------


def test_an_incompletely_published_pool_with_binding_conditions_is_not_put_behind_the_others() -> None:
    """The order decides which pool an "all devices" request names in its error."""
    first = resource_slice("n0", gpu("a", bindingConditions=["Ready"]), pool="a")
    second = resource_slice("n0", gpu("b"), pool="b", name="second")
    for one in (first, second):
        one["spec"]["pool"]["resourceSliceCount"] = 2
    answer = answer_to(case(first, second, requests=[request("r", **ALL)]))
    assert answer["error"].endswith(f"resource pool {DRIVER}/a is currently being updated")


def test_all_devices_are_those_whose_shares_leave_room_for_the_request() -> None:
    full = held("a", shareID="s", consumedCapacity={"memory": "4"})
    pool = resource_slice("n0", shared("a", capacity=MEMORY), shared("b", capacity=MEMORY))
    assert devices(answer_to(case(pool, requests=[request("r", **ALL)], allocated=[full]))) == ["b"]


def test_shares_count_on_a_device_that_does_not_allow_several_allocations_any_more() -> None:
    full = held("a", shareID="s", consumedCapacity={"memory": "4"})
    pool = resource_slice("n0", gpu("a", capacity=MEMORY), gpu("b", capacity=MEMORY))
    assert devices(answer_to(case(pool, requests=[request("r")], allocated=[full]))) == ["b"]


def test_a_constraint_that_refuses_one_of_all_devices_is_an_error_even_if_its_capacity_is_used_up() -> None:
    pool = resource_slice(
        "n0", shared("a", capacity=MEMORY, attributes={"numa": 0}), shared("b", attributes={"numa": 1})
    )
    wanted = [
        request("some", capacity={"requests": {"memory": "4"}}),
        request("every", 'device.attributes["gpu.example.com"].numa == 0', **ALL),
    ]
    constraint = {"distinctAttribute": f"{DRIVER}/numa"}
    answer = answer_to(case(pool, requests=wanted, constraints=[constraint]))
    assert answer["error"].endswith("n0/a because a claim constraint would not be satisfied")


@pytest.mark.parametrize(
    ("policy", "requested", "consumed"),
    [
        (None, None, "10Gi"),
        (None, "1500Mi", "1500Mi"),
        ({"default": "1024Mi"}, None, "1024Mi"),
        ({"default": "1Gi", "validRange": {"min": "1G"}}, "5", "1G"),
        ({"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}, "1500Mi", "2Gi"),
        ({"default": "1Gi", "validRange": {"min": "1000", "step": "1000"}}, "1001", "2000"),
        ({"default": "1Gi", "validValues": ["4Gi", "2048Mi"]}, "1500Mi", "2048Mi"),
    ],
)
def test_what_a_share_consumes_is_written_as_kube_scheduler_writes_it(
    policy: Document | None, requested: str | None, consumed: str
) -> None:
    memory = {"value": "10Gi"} | ({"requestPolicy": policy} if policy is not None else {})
    asked = {"capacity": {"requests": {"memory": requested}}} if requested is not None else {}
    wanted = case(resource_slice("n0", shared("gpu-0", capacity={"memory": memory})), requests=[request("r", **asked)])
    _, found = searched(wanted)
    assert isinstance(found, Found)
    (needs, chosen) = found.claims[0]
    (result,) = allocation_of(needs, chosen, "n0", lambda _: "share").devices.results
    assert result.consumed_capacity == {"memory": consumed}


def test_a_device_without_capacities_takes_from_its_counters_once_however_often_a_claim_shares_it() -> None:
    consumed = [{"counterSet": "set", "counters": {"slots": {"value": "1"}}}]
    counters = resource_slice(
        "n0", name="counters", sharedCounters=[{"name": "set", "counters": {"slots": {"value": "1"}}}]
    )
    parts = resource_slice("n0", shared("a", consumesCounters=consumed))
    for one in (counters, parts):
        one["spec"]["pool"]["resourceSliceCount"] = 2
    assert devices(answer_to(case(parts, counters, requests=[request("r0"), request("r1")]))) == ["a", "a"]


def test_alternatives_of_which_only_the_last_is_too_large_let_an_earlier_request_try_other_devices() -> None:
    """The second request's first alternative needs the device that the first request takes first."""
    pool = resource_slice("n0", *[gpu(f"d{number:02}", attributes={"first": number == 0}) for number in range(33)])
    only = {"name": "only", "selectors": [{"cel": {"expression": 'device.attributes["gpu.example.com"].first'}}]}
    answer = answer_to(case(pool, requests=[request("r0"), first_available("r1", only, {"name": "many", "count": 32})]))
    assert devices(answer) == ["d01", "d00"]


def test_devices_that_are_only_looked_at_use_up_the_time_of_the_search_too() -> None:
    """Of 600 devices no two have one value: each first one is taken, and then all others are looked at in vain."""
    pool = resource_slice("n0", *[gpu(f"d{number}", attributes={"serial": number}) for number in range(600)])
    constraints = [{"matchAttribute": f"{DRIVER}/serial"}]
    wanted = case(pool, requests=[request("r", count=2)], constraints=constraints)
    assert searched(wanted)[1] is Fault.NONE_FITS
    assert searched(wanted, max_steps=5_000)[1] is Fault.OUT_OF_TIME


def test_an_expensive_selector_uses_up_the_time_of_the_search_with_each_device() -> None:
    expensive = "lists.range(500).map(i, i).size() > 0"
    different = [gpu(f"gpu-{number}", attributes={"number": number}) for number in range(8)]
    wanted = case(resource_slice("n0", *different), requests=[request("r", f"{expensive} && false")])
    assert searched(wanted, max_steps=1_000)[1] is Fault.OUT_OF_TIME
    assert searched(wanted, max_steps=5_000)[1] is Fault.NONE_FITS
    assert searched(wanted, max_steps=1_000)[1] is Fault.OUT_OF_TIME, "though the answers are known by now"


def test_a_value_that_is_a_list_is_an_error_for_selectors_that_do_not_look_at_it() -> None:
    listed = gpu("a", attributes={"numa": 0})
    listed["attributes"]["links"] = {"strings": ["x"]}
    look = 'device.attributes["gpu.example.com"].numa == 0'
    answer = answer_to(case(resource_slice("n0", listed), requests=[request("r", look)]))
    assert answer["error"] == "class gpus: selector #0: CEL runtime error: attribute links: unsupported attribute value"


def test_a_selector_that_does_not_compile_is_reported_with_its_place() -> None:
    pool = resource_slice("n0", gpu("a"))
    answer = answer_to(case(pool, requests=[request("r", "noSuchVariable")]))
    assert answer["error"] == (
        "claim default/wanted: selector #0: CEL compile error: compilation failed: ERROR: <input>:1:1: undeclared "
        "reference to 'noSuchVariable' (in container '')\n | noSuchVariable\n | ^"
    )


def test_an_allocation_mode_of_a_later_version_is_an_error() -> None:
    answer = answer_to(case(resource_slice("n0", gpu("a")), requests=[request("r", allocationMode="AtMost")]))
    assert answer["error"] == "claim default/wanted, request r: unsupported count mode AtMost"
