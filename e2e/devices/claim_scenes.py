"""Scenes whose pods have claims, by name.

Each has a driver, classes and nodes of its own, so that what one leaves behind concerns no other.
"""

from __future__ import annotations

from collections.abc import Callable

from e2e import builders
from e2e.builders import Object
from e2e.devices.objects import (
    alternative,
    claim,
    device_class,
    driver,
    exactly,
    from_template,
    gpu,
    gpus,
    pod,
    pool,
    template,
)
from e2e.devices.scene import Phase, Scene, on_one_node


def _taint(effect: str, key: str = "broken") -> Object:
    return {"key": key, "effect": effect, "value": "yes"}


def _all_devices_with_taints(place: str) -> Scene:
    a = f"{place}-a"
    tolerates = [{"key": "broken", "operator": "Exists"}]
    everything = {"allocationMode": "All"}
    devices = [gpu("gpu-0"), gpu("gpu-1", taints=[_taint("NoSchedule")]), gpu("gpu-2", taints=[_taint("None")])]
    return on_one_node(
        place,
        Phase([device_class(place), pool(place, a, *devices)]),
        Phase([claim(place, "strict", exactly(place, **everything)), pod(place, "strict", "strict")]),
        Phase([claim(place, "lenient", exactly(place, tolerations=tolerates, **everything))]),
        Phase([pod(place, "lenient", "lenient")]),
    )


def _taints_by_effect(place: str) -> Scene:
    a = f"{place}-a"
    only = [{"key": "broken", "operator": "Equal", "value": "yes", "effect": "NoExecute", "tolerationSeconds": 1}]
    devices = [gpu("gpu-0", taints=[_taint("NoSchedule")]), gpu("gpu-1", taints=[_taint("NoExecute")])]
    return on_one_node(
        place,
        Phase([device_class(place), pool(place, a, *devices)]),
        Phase([claim(place, "none"), pod(place, "none", "none")]),
        Phase([claim(place, "some", exactly(place, tolerations=only)), pod(place, "some", "some")]),
        Phase(change=[("ResourceSlice", f"{place}-{a}", {"spec": {"devices": gpus(2)}}, "")]),
    )


def _all_devices_beside_a_pool_under_update(place: str) -> Scene:
    a = f"{place}-a"
    other = pool(place, a, *gpus(1), name=f"{place}-other", driver=f"other.{driver(place)}", slices=2)
    return on_one_node(
        place,
        Phase([device_class(place), pool(place, a, *gpus(2)), other]),
        Phase([claim(place, "all", exactly(place, allocationMode="All")), pod(place, "all", "all")]),
        Phase([claim(place, "one"), pod(place, "one", "one")]),
        Phase(delete=[("ResourceSlice", f"{place}-other")], seconds=4),
    )


def _first_available_is_scored(place: str) -> Scene:
    def of(size: str) -> str:
        return f'device.attributes["{driver(place)}"].size == "{size}"'

    nodes = [builders.node(f"{place}-{name}") for name in "ab"]
    small = pool(place, f"{place}-a", gpu("gpu-0", attributes={"size": "small"}))
    large = pool(place, f"{place}-b", gpu("gpu-0", attributes={"size": "large"}))
    ranked = {
        "name": "r",
        "firstAvailable": [alternative(place, "large", of("large")), alternative(place, "small", of("small"))],
    }
    configs = [
        {"requests": [name], "opaque": {"driver": driver(place), "parameters": {"for": name}}}
        for name in ("r", "r/small")
    ]
    claims = [claim(place, f"c{number}", ranked, config=configs) for number in range(3)]
    return Scene(
        place,
        nodes,
        [
            Phase([device_class(place), small, large, *claims]),
            *(Phase([pod(place, f"p{number}", f"c{number}")]) for number in range(3)),
        ],
    )


def _parameters_are_kept_as_they_were_written(place: str) -> Scene:
    """With blanks, in no order, and with characters that Go writes otherwise in JSON."""
    config = [{"opaque": {"driver": driver(place), "parameters": {"b": "x < y & z", "a": [1, 2.5, None]}}}]
    return on_one_node(
        place,
        Phase(
            [device_class(place, config=config), pool(place, f"{place}-a", *gpus(1)), claim(place, "c", config=config)]
        ),
        Phase([pod(place, "p0", "c")]),
        Phase([pod(place, "p1", "c")]),
        Phase(delete=[("Pod", "p0")], seconds=4),
    )


def _a_class_of_an_alternative_is_missing(place: str) -> Scene:
    ranked = {"name": "r", "firstAvailable": [alternative(place, "x"), alternative(place, "y", suffix="-later")]}
    return on_one_node(
        place,
        Phase([device_class(place), pool(place, f"{place}-a", *gpus(1)), claim(place, "c", ranked)]),
        Phase([pod(place, "p", "c")]),
        Phase([device_class(place, "-later")]),
    )


def _administrators_get_devices_in_use(place: str) -> Scene:
    watching = exactly(place, "watching", adminAccess=True, allocationMode="All")
    return on_one_node(
        place,
        Phase(
            [device_class(place), pool(place, f"{place}-a", *gpus(2)), claim(place, "mine"), pod(place, "p", "mine")]
        ),
        Phase([claim(place, "admin", watching), pod(place, "watcher", "admin")]),
        Phase([claim(place, "other"), pod(place, "q", "other")]),
        Phase(
            [claim(place, "eye", exactly(place, adminAccess=True)), claim(place, "own"), pod(place, "x", "eye", "own")]
        ),
        labels={"resource.kubernetes.io/admin-access": "true"},
    )


def _a_claim_goes_and_comes_while_its_pod_waits(place: str) -> Scene:
    a = f"{place}-a"
    return on_one_node(
        place,
        Phase([device_class(place), claim(place, "c"), pod(place, "p", "c")]),
        Phase(delete=[("ResourceClaim", "c")]),
        Phase([pool(place, a, *gpus(1))]),
        Phase([claim(place, "c")]),
    )


def _devices_of_pods_that_go_serve_those_that_wait(place: str) -> Scene:
    a = f"{place}-a"
    return on_one_node(
        place,
        Phase([device_class(place), pool(place, a, *gpus(1)), template(place, "t"), claim(place, "named")]),
        Phase([from_template(place, "first", "t")]),
        Phase([pod(place, "second", "named")]),
        Phase([from_template(place, "third", "t")]),
        Phase(delete=[("Pod", "first")], seconds=4),
        Phase(delete=[("Pod", "second")], seconds=4),
    )


def _a_template_comes_later(place: str) -> Scene:
    return on_one_node(
        place,
        Phase([device_class(place), pool(place, f"{place}-a", *gpus(1)), from_template(place, "p", "t")]),
        Phase([template(place, "t")], seconds=8),
    )


def _shared_claims_keep_pods_together(place: str) -> Scene:
    nodes = [builders.node(f"{place}-{name}", labels={"rack": rack}) for name, rack in (("a", "x"), ("b", "y"))]
    terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["y"]}]}]
    fabric = pool(
        place, "fabric", *gpus(2), name=f"{place}-fabric", nodeSelector={"nodeSelectorTerms": terms}, pool="fabric"
    )
    everywhere = pool(place, "net", gpu("nic-0"), name=f"{place}-net", allNodes=True, pool="net")
    on_y, elsewhere = ({"nodeSelector": {"rack": rack}} for rack in "yx")
    return Scene(
        place,
        nodes,
        [
            Phase(
                [device_class(place), fabric, everywhere, claim(place, "shared"), pod(place, "p0", "shared", **on_y)]
            ),
            Phase([pod(place, "p1", "shared"), pod(place, "p2", "shared", **elsewhere)]),
            Phase([claim(place, "both", exactly(place, count=2)), pod(place, "p3", "both")]),
        ],
    )


def _counters_of_a_pool_that_nodes_share(place: str) -> Scene:
    nodes = [builders.node(f"{place}-{name}") for name in "ab"]
    counters = [{"name": "link", "counters": {"bandwidth": {"value": "10"}}}]

    def part(name: str, amount: int) -> Object:
        taken = [{"counterSet": "link", "counters": {"bandwidth": {"value": str(amount)}}}]
        return gpu(name, consumesCounters=taken)

    slices = [
        pool(place, "", name=f"{place}-0", pool="fabric", slices=3, nodeName=f"{place}-a", sharedCounters=counters),
        pool(place, f"{place}-a", part("a6", 6), part("a4", 4), name=f"{place}-1", pool="fabric", slices=3),
        pool(place, f"{place}-b", part("b4", 4), part("b6", 6), name=f"{place}-2", pool="fabric", slices=3),
    ]
    on = [{"nodeSelector": {"kubernetes.io/hostname": f"{place}-{name}"}} for name in "ab"]
    for node in nodes:
        node["metadata"]["labels"] = {"kubernetes.io/hostname": node["metadata"]["name"]}
    claims = [claim(place, f"c{number}") for number in range(3)]
    return Scene(
        place,
        nodes,
        [
            Phase([device_class(place), *slices, *claims, pod(place, "p0", "c0", **on[0])]),
            Phase([pod(place, "p1", "c1", **on[1])]),
            Phase([pod(place, "p2", "c2", **on[1])]),
        ],
    )


def _slices_of_pools_that_change(place: str) -> Scene:
    a = f"{place}-a"
    halves = [pool(place, a, gpu(f"gpu-{number}"), name=f"{place}-{number}", slices=3) for number in range(2)]
    newer = pool(place, a, gpu("gpu-9"), name=f"{place}-newer", generation=2)
    claims = [claim(place, f"c{number}") for number in range(3)]
    return on_one_node(
        place,
        Phase([device_class(place), *halves, *claims, pod(place, "p0", "c0")]),
        Phase([pool(place, a, gpu("gpu-2"), name=f"{place}-2", slices=3)]),
        Phase([newer, pod(place, "p1", "c1")]),
        Phase([pod(place, "p2", "c2")]),
    )


def _invalid_pools(place: str) -> Scene:
    a = f"{place}-a"
    doubled = [pool(place, a, gpu("gpu-0"), name=f"{place}-{number}", slices=2, pool="doubled") for number in range(2)]
    good = pool(place, a, gpu("gpu-0"), name=f"{place}-good", pool="good")
    claims = [claim(place, f"c{number}") for number in range(2)]
    return on_one_node(
        place,
        Phase([device_class(place), *doubled, good, *claims, pod(place, "p0", "c0")]),
        Phase([pod(place, "p1", "c1")]),
        Phase([claim(place, "all", exactly(place, allocationMode="All")), pod(place, "p2", "all")]),
    )


def _devices_that_choose_their_nodes(place: str) -> Scene:
    nodes = [builders.node(f"{place}-{name}", labels={"side": name}) for name in "ab"]
    terms = [{"matchExpressions": [{"key": "side", "operator": "In", "values": ["b"]}]}]
    devices = [
        gpu("gpu-0", nodeName=f"{place}-a"),
        gpu("gpu-1", nodeSelector={"nodeSelectorTerms": terms}),
        gpu("gpu-2", allNodes=True),
    ]
    mixed = pool(place, "m", *devices, name=f"{place}-mixed", perDeviceNodeSelection=True, pool="mixed")
    on = {name: {"nodeSelector": {"side": name}} for name in "ab"}
    three = claim(place, "three", exactly(place, count=3))
    return Scene(
        place,
        nodes,
        [
            Phase([device_class(place), mixed, claim(place, "b"), pod(place, "b", "b", **on["b"])]),
            Phase([claim(place, "b2"), pod(place, "b2", "b2", **on["b"])]),
            Phase([three, pod(place, "three", "three")]),
            Phase([claim(place, "a"), pod(place, "a", "a")]),
        ],
    )


def _conditions_before_the_bind(place: str) -> Scene:
    a = f"{place}-a"
    awaited = {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"], "bindsToNode": True}

    def reported(device: str, kind: str) -> Object:
        said = {"type": kind, "status": "True", "reason": "Fitted", "message": "", "lastTransitionTime": _TIME}
        return {"driver": driver(place), "pool": a, "device": device, "conditions": [said]}

    first, second = reported("gpu-0", "failed"), reported("gpu-1", "ready")
    taken = [{"key": "broken", "effect": "NoSchedule"}]
    devices = [gpu("gpu-0", **awaited, taints=taken), gpu("gpu-1", **awaited)]
    return on_one_node(
        place,
        Phase([device_class(place), pool(place, a, *gpus(2, **awaited)), claim(place, "c"), pod(place, "p", "c")]),
        Phase(
            change=[
                ("ResourceSlice", f"{place}-{a}", {"spec": {"devices": devices}}, ""),
                ("ResourceClaim", "c", {"status": {"devices": [first]}}, "status"),
            ],
            seconds=9,
        ),
        Phase(change=[("ResourceClaim", "c", {"status": {"devices": [second]}}, "status")], seconds=7),
    )


_TIME = "2026-01-01T00:00:00Z"


def _shares_of_devices(place: str) -> Scene:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi", "max": "8Gi"}}
    memory = {"memory": {"value": "10Gi", "requestPolicy": policy}}
    devices = [gpu("gpu-0", allowMultipleAllocations=True, capacity=memory)]

    def wanting(name: str, amount: str, **devices: object) -> Object:
        return claim(place, name, exactly(place, capacity={"requests": {"memory": amount}}), **devices)

    apart = claim(
        place,
        "apart",
        *(exactly(place, f"r{number}") for number in range(2)),
        constraints=[{"distinctAttribute": f"{driver(place)}/port"}],
    )
    ports = [gpu(f"port-{number}", attributes={"port": number // 2}) for number in range(3)]
    return on_one_node(
        place,
        Phase(
            [device_class(place), pool(place, f"{place}-a", *devices), wanting("c0", "1500Mi"), pod(place, "p0", "c0")]
        ),
        Phase([wanting("c1", "8Gi"), pod(place, "p1", "c1")]),
        Phase([wanting("c2", "9Gi"), pod(place, "p2", "c2"), claim(place, "c3"), pod(place, "p3", "c3")]),
        Phase(
            [pool(place, f"{place}-a", *ports, name=f"{place}-ports", pool="ports"), apart, pod(place, "p4", "apart")]
        ),
    )


def _requests_that_must_match(place: str) -> Scene:
    devices = [gpu(f"gpu-{number}", attributes={"numa": numa}) for number, numa in enumerate((0, 1, 1, 2))]
    two = [exactly(place, "x"), exactly(place, "y", f'device.attributes["{driver(place)}"].numa > 0')]
    same = [{"matchAttribute": f"{driver(place)}/numa"}]
    return on_one_node(
        place,
        Phase([device_class(place), pool(place, f"{place}-a", *devices)]),
        Phase([claim(place, "c0", *two, constraints=same), pod(place, "p0", "c0")]),
        Phase([claim(place, "c1", *two, constraints=same), pod(place, "p1", "c1")]),
        Phase([claim(place, "c2", exactly(place, allocationMode="All"), constraints=same), pod(place, "p2", "c2")]),
    )


def _selectors_that_fail(place: str) -> Scene:
    broken = f'device.attributes["{driver(place)}"].nothing == 1'
    devices = [gpu("gpu-0", attributes={"nothing": 1}), gpu("gpu-1")]
    return on_one_node(
        place,
        Phase(
            [device_class(place), pool(place, f"{place}-a", *devices), claim(place, "c0", exactly(place, "r", broken))]
        ),
        Phase([pod(place, "p0", "c0")]),
        Phase([claim(place, "c1", exactly(place, "r", broken)), pod(place, "p1", "c1")]),
        Phase([claim(place, "c2", exactly(place, count=33)), pod(place, "p2", "c2")]),
    )


def _allocations_that_are_in_the_way(place: str) -> Scene:
    """A claim that has devices of another node than its pod may go to gives them back, unless others use it."""
    nodes = [builders.node(f"{place}-{name}", labels={"side": name}) for name in "ab"]
    slices = [pool(place, node["metadata"]["name"], *gpus(1)) for node in nodes]
    on = {name: {"nodeSelector": {"side": name}} for name in "ab"}
    return Scene(
        place,
        nodes,
        [
            Phase([device_class(place), *slices, claim(place, "c"), pod(place, "p0", "c", **on["a"])]),
            Phase([pod(place, "p1", "c", **on["b"])]),
            Phase(delete=[("Pod", "p0")], seconds=4),
        ],
    )


CLAIM_SCENES: dict[str, Callable[[str], Scene]] = {
    "all-devices-with-taints": _all_devices_with_taints,
    "taints-by-effect": _taints_by_effect,
    "all-devices-beside-a-pool-under-update": _all_devices_beside_a_pool_under_update,
    "first-available-is-scored": _first_available_is_scored,
    "parameters-are-kept-as-they-were-written": _parameters_are_kept_as_they_were_written,
    "a-class-of-an-alternative-is-missing": _a_class_of_an_alternative_is_missing,
    "administrators-get-devices-in-use": _administrators_get_devices_in_use,
    "a-claim-goes-and-comes-while-its-pod-waits": _a_claim_goes_and_comes_while_its_pod_waits,
    "devices-of-pods-that-go-serve-those-that-wait": _devices_of_pods_that_go_serve_those_that_wait,
    "a-template-comes-later": _a_template_comes_later,
    "shared-claims-keep-pods-together": _shared_claims_keep_pods_together,
    "counters-of-a-pool-that-nodes-share": _counters_of_a_pool_that_nodes_share,
    "slices-of-pools-that-change": _slices_of_pools_that_change,
    "invalid-pools": _invalid_pools,
    "devices-that-choose-their-nodes": _devices_that_choose_their_nodes,
    "conditions-before-the-bind": _conditions_before_the_bind,
    "shares-of-devices": _shares_of_devices,
    "requests-that-must-match": _requests_that_must_match,
    "selectors-that-fail": _selectors_that_fail,
    "allocations-that-are-in-the-way": _allocations_that_are_in_the_way,
}
