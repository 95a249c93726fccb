from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.devices.reserved import SetAside
from scheduler.cluster.groups.facts import Groups
from scheduler.cluster.pod_info import PodInfo
from scheduler.config.args import decode_args
from scheduler.config.durations import MILLISECOND, Duration
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.events import Resource
from scheduler.framework.plugin import FilterPlugin, State
from scheduler.framework.post_filter import KEEP_NOMINATION, PostFilterContext
from scheduler.messages.claim_commands import CreateClaim, ReserveClaim, UnreserveClaim
from scheduler.messages.status import SKIP, Code, Refusal, Skip
from scheduler.objects.kinds import Kind, decode
from scheduler.objects.meta import ApiObject
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.plugins.devices.dynamic_resources import DynamicResources, DynamicResourcesArgs
from scheduler.testing.objects import node
from tests.device_documents import claim, device_class, exactly, gpu, resource_slice
from tests.plugins.clusters import cluster, info, refusals

GPU = "example.com/gpu"
GPUS = device_class("gpus", 'device.driver == "gpu.example.com"', extendedResourceName=GPU)


class NoFilters:
    filter_plugins: tuple[FilterPlugin, ...] = ()


class Facts:
    """What PreEnqueue may ask, of these claims alone."""

    def __init__(self, *claims: ResourceClaim) -> None:
        self._claims = {one.key: one for one in claims}
        self._groups = Groups()

    @property
    def groups(self) -> Groups:
        return self._groups

    def is_removing_victims_for(self, uid: str) -> bool:
        return False

    def preemptors_held_back(self) -> tuple[str, ...]:
        return ()

    def lookup(self, kind: Any, key: str) -> Any:
        return self._claims.get(key) if kind is Kind.RESOURCE_CLAIM else None


def parsed(document: dict[str, Any]) -> Any:
    return decode(kind_of(document), msgspec.json.encode(document))


def devices(nodes: int, *documents: dict[str, Any], gpus: int = 2) -> ClusterCache:
    """Nodes n0, n1, ... with GPUs each, and the class ``gpus``."""
    cache = ClusterCache()
    for number in range(nodes):
        cache.observe_node(node(f"n{number}"))
        slices = resource_slice(
            f"n{number}", *[gpu(f"gpu-{place}", attributes={"place": place}) for place in range(gpus)]
        )
        cache.observe_object(Kind.RESOURCE_SLICE, parsed(slices))
    for document in (GPUS, *documents):
        made: ApiObject = parsed(document)
        cache.observe_object(kind_of(document), made)
    return cache


def kind_of(document: dict[str, Any]) -> Kind:
    return next(kind for kind in Kind if kind.entry.name == document["kind"])


def claiming(*claims: str, name: str = "pending") -> PodInfo:
    entries = [{"name": f"c{place}", "resourceClaimName": one} for place, one in enumerate(claims)]
    return info(name, spec={"resourceClaims": entries})


def placed(cache: ClusterCache, pod: PodInfo, on: str) -> SetAside:
    """Assume the pod and set aside what its claims get."""
    plugin = DynamicResources()
    state = plugin.pre_filter(pod, cache.view)
    assert isinstance(state, State)
    cache.assume(pod.on_node(on))
    effects = plugin.reserve(state, pod, cache.view, on)
    assert isinstance(effects, tuple)
    for effect in effects:
        cache.apply(effect)
    (aside,) = effects
    assert isinstance(aside, SetAside)
    return aside


def names(aside: SetAside) -> list[str]:
    return [result.device for one in aside.claims for result in one.allocation.devices.results]


# --- before the queue -------------------------------------------------------------------------------------------------


def test_a_pod_waits_until_its_claims_exist() -> None:
    plugin = DynamicResources()
    by_template = info(spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]})
    refusal = plugin.pre_enqueue(by_template, Facts())
    assert refusal == Refusal(Code.UNRESOLVABLE, ('pod "default/pending": ResourceClaim not created yet',))
    missing = plugin.pre_enqueue(claiming("wanted"), Facts())
    assert missing == Refusal(Code.UNRESOLVABLE, ('could not find ResourceClaim "default/wanted"',))
    assert plugin.pre_enqueue(claiming("wanted"), Facts(parsed(claim("wanted", "gpus")))) is None
    assert plugin.pre_enqueue(info(), Facts()) is None


def test_a_claim_made_for_another_pod_is_not_used() -> None:
    foreign = claim("made", "gpus")
    foreign["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "pending", "uid": "another", "controller": True}]
    pod = info(
        spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]},
        status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}]},
    )
    refusal = DynamicResources().pre_enqueue(pod, Facts(parsed(foreign)))
    assert refusal is not None
    assert refusal.reasons == ("ResourceClaim default/made was not created for Pod default/pending (Pod is not owner)",)


def test_a_pod_without_claims_is_not_the_plugins_business() -> None:
    cache = devices(1)
    assert not DynamicResources().concerns(info(cpu="1"))
    assert DynamicResources().pre_filter(info(requests={"example.com/other": "1"}), cache.view) is SKIP
    assert DynamicResources().pre_filter(info(requests={GPU: "1"}), cluster([node("a")])) is SKIP


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_a_slice_whose_node_selector_can_not_be_read_offers_its_devices_nowhere_and_ends_no_attempt() -> None:
    elsewhere = resource_slice("n1", gpu("gpu-8"), gpu("gpu-9"), pool="odd", name="odd")
    del elsewhere["spec"]["nodeName"]
    term = {"matchExpressions": [{"key": "rack", "operator": "Gt", "values": ["second"]}]}
    elsewhere["spec"]["nodeSelector"] = {"nodeSelectorTerms": [term]}
    three = [{"name": "r", "exactly": exactly("gpus", count=3)}]
    cache = devices(2, elsewhere, claim("one", "gpus"), claim("three", requests=three))
    assert refusals(DynamicResources(), claiming("one"), cache.view) == {}
    assert set(refusals(DynamicResources(), claiming("three"), cache.view)) == {"n0", "n1"}


def test_a_pod_fits_where_devices_are_free() -> None:
    cache = devices(
        2, claim("one", requests=[{"name": "r", "exactly": exactly("gpus", count=2)}]), claim("two", "gpus")
    )
    aside = placed(cache, claiming("one", name="first"), "n0")
    assert names(aside) == ["gpu-0", "gpu-1"]
    assert refusals(DynamicResources(), claiming("two"), cache.view) == {
        "n0": Refusal(Code.UNRESOLVABLE, ("cannot allocate all claims",))
    }
    cache.check()


def test_what_was_set_aside_is_free_again_when_the_pod_is_forgotten() -> None:
    cache = devices(1, claim("one", "gpus"), claim("two", "gpus"), gpus=1)
    first = claiming("one", name="first")
    placed(cache, first, "n0")
    assert refusals(DynamicResources(), claiming("two"), cache.view)
    cache.forget(first.uid)
    assert not refusals(DynamicResources(), claiming("two"), cache.view)
    cache.check()


def test_a_claim_in_flight_for_another_pod_is_waited_for() -> None:
    cache = devices(1, claim("shared", "gpus"))
    placed(cache, claiming("shared", name="first"), "n0")
    answer = DynamicResources().pre_filter(claiming("shared"), cache.view)
    assert answer == Refusal(Code.UNRESOLVABLE, ("resource claim default/shared is in the process of being allocated",))


def test_a_pod_that_names_a_claim_twice_gets_its_devices_once() -> None:
    cache = devices(1, claim("one", "gpus"))
    assert names(placed(cache, claiming("one", "one"), "n0")) == ["gpu-0"]


def test_a_later_claim_changes_what_an_earlier_one_gets() -> None:
    strict = exactly("gpus", 'device.attributes["gpu.example.com"].place == 0')
    cache = devices(1, claim("loose", "gpus"), claim("strict", requests=[{"name": "r", "exactly": strict}]))
    aside = placed(cache, claiming("loose", "strict"), "n0")
    assert names(aside) == ["gpu-1", "gpu-0"]


def test_nodes_whose_devices_look_alike_are_searched_once() -> None:
    cache = devices(300, claim("one", "gpus"), claim("two", "gpus"), gpus=8)
    placed(cache, claiming("one", name="first"), "n7")
    plugin, pod = DynamicResources(), claiming("two")
    assert not refusals(plugin, pod, cache.view)
    assert [len(answers.of_signature) for answers in cache.devices.answers] == [2], "untouched nodes, and n7"


def test_nodes_that_lack_the_devices_asked_for_are_refused_alike_whatever_is_held_of_the_others() -> None:
    few = exactly("gpus", 'device.attributes["gpu.example.com"].place > 7')
    rare, held = claim("rare", requests=[{"name": "r", "exactly": few}]), [claim(f"c{n}", "gpus") for n in range(10)]
    cache = devices(20, rare, *held)
    for number in range(10):
        placed(cache, claiming(f"c{number}", name=f"p{number}"), f"n{number % 5}")
    assert len(refusals(DynamicResources(), claiming("rare"), cache.view)) == 20
    (answers,) = cache.devices.answers
    assert (len(answers.of_signature), len(answers.of_bare)) == (2, 1), "nodes with all of their devices, and with none"


def test_a_search_that_is_too_long_is_an_error() -> None:
    many = claim("many", requests=[{"name": f"r{place}", "exactly": exactly("gpus")} for place in range(9)])
    cache = devices(1, many, gpus=8)
    plugin = DynamicResources(DynamicResourcesArgs(filter_timeout=Duration(50 * MILLISECOND)))
    found = refusals(plugin, claiming("many"), cache.view)
    assert found["n0"] == Refusal(Code.ERROR, ("node n0: timed out trying to allocate devices",))


# --- writes -----------------------------------------------------------------------------------------------------------


def test_each_claim_is_reserved_and_new_devices_are_written() -> None:
    cache = devices(1, claim("new", "gpus"))
    pod = claiming("new")
    placed(cache, pod, "n0")
    flight = DynamicResources().pre_bind_pre_flight(None, pod, cache.view, "n0")
    assert not isinstance(flight, Skip | Refusal)
    (write,) = flight.writes
    assert isinstance(write, ReserveClaim)
    assert write.claim.key == "default/new"
    assert write.allocation is not None
    assert write.consumer.uid == pod.uid
    assert DynamicResources().pre_bind_progress(None, pod, cache.view, "n0") is True


def test_extended_resources_get_a_claim_of_the_schedulers_own() -> None:
    cache = devices(1)
    pod = info(requests={GPU: "2"})
    placed(cache, pod, "n0")
    flight = DynamicResources().pre_bind_pre_flight(None, pod, cache.view, "n0")
    assert not isinstance(flight, Skip | Refusal)
    (write,) = flight.writes
    assert isinstance(write, CreateClaim)
    assert [(one.name, one.exactly.count if one.exactly else 0) for one in write.requests] == [
        ("container-0-request-0", 2)
    ]


def test_a_resource_of_the_nodes_own_beside_a_claim_makes_no_claim_and_keeps_no_pod_from_its_node() -> None:
    cache = devices(1, claim("one", "gpus"))
    cache.observe_node(node("n0", allocatable={GPU: "4"}))
    entries = [{"name": "c", "resourceClaimName": "one"}]
    pod = info(requests={GPU: "2"}, spec={"resourceClaims": entries})
    assert names(placed(cache, pod, "n0")) == ["gpu-0"]
    flight = DynamicResources().pre_bind_pre_flight(None, pod, cache.view, "n0")
    assert not isinstance(flight, Skip | Refusal)
    (write,) = flight.writes
    assert isinstance(write, ReserveClaim), "no claim without requests, whose mappings the API server would refuse"


def test_after_a_failed_bind_the_allocation_stays_and_the_reservation_goes() -> None:
    cache = devices(1, claim("one", "gpus"), claim("other", "gpus"))
    pod = claiming("one", "other")
    aside = placed(cache, pod, "n0")
    written = claim("one", "gpus")
    written["status"] = {
        "allocation": msgspec.to_builtins(aside.claims[0].allocation),
        "reservedFor": [{"resource": "pods", "name": pod.name, "uid": pod.uid}],
    }
    cache.observe_object(Kind.RESOURCE_CLAIM, parsed(written))
    state = DynamicResources().pre_filter(pod, cache.view)
    assert isinstance(state, State)
    (write,) = DynamicResources().release_writes(state, pod, cache.view)
    assert isinstance(write, UnreserveClaim)
    cache.remove_object(Kind.RESOURCE_CLAIM, "default/other")
    (write,) = DynamicResources().release_writes(state, pod, cache.view)
    assert write.claim.name == "one", "whatever became of the pod's other claims"
    cache.forget(pod.uid)
    cache.check()
    assert cache.devices.stored.taken_in(("gpu.example.com", "n0")) == {"gpu-0": "default/one"}


# --- post-filter ------------------------------------------------------------------------------------------------------


def context(states: Mapping[str, State | Skip]) -> PostFilterContext:
    return PostFilterContext(
        pod=info(),
        view=cluster([node("a")]),
        diagnosis=Diagnosis(np.zeros(1, np.int32)),
        states=states,
        profile=NoFilters(),
        rng=random.Random(1),
        now_nanoseconds=0,
        nominated_pods=lambda name: (),
    )


def test_post_filter_has_nothing_to_give_back() -> None:
    answer = DynamicResources().post_filter(context({"DynamicResources": SKIP}))
    assert answer.status == Refusal(Code.UNSCHEDULABLE, ("no new claims to deallocate",))
    assert answer.nomination is KEEP_NOMINATION


def test_post_filter_fails_where_an_earlier_plugin_refused_the_pod_as_a_whole() -> None:
    answer = DynamicResources().post_filter(context({"NodeAffinity": SKIP}))
    assert answer.status == Refusal(Code.ERROR, ("not found",))


# --- arguments --------------------------------------------------------------------------------------------------------


def test_time_outs_are_checked() -> None:
    args, faults = decode_args(
        DynamicResourcesArgs, {"filterTimeout": "-1s", "bindingTimeout": "500ms"}, "args", "DynamicResources"
    )
    assert not faults
    assert args is not None
    assert DynamicResources.validate_args(args, "args") == (
        ("args.filterTimeout", "Invalid value: -1s: must be zero or positive"),
        ("args.bindingTimeout", "Invalid value: 500ms: must be at least 1 second"),
    )
    assert DynamicResources.validate_args(DynamicResourcesArgs(), "args") == ()


# --- why --------------------------------------------------------------------------------------------------------------


def test_why_says_which_request_could_not_be_had_and_what_became_of_the_devices() -> None:
    strict = exactly("gpus", 'device.attributes["gpu.example.com"].place < 2', count=2)
    cache = devices(3, claim("one", "gpus"), claim("two", requests=[{"name": "r", "exactly": strict}]), gpus=4)
    placed(cache, claiming("one", name="first"), "n1")
    (finding,) = DynamicResources().findings(claiming("two"), cache.view)
    assert (finding.count, finding.nodes) == (1, ("n1",))
    assert finding.lines == (
        "claim default/two, request r: 2 devices of class gpus; 4 on the node, "
        '2 fail the request\'s device.attributes["gpu.example.com"].place < 2, 1 taken (by default/one), 1 free',
        "preemption makes no room here: devices stay with their claims until the pods that use them are gone",
    )


def test_why_names_the_pods_whose_claims_hold_the_devices_and_puts_nodes_without_devices_last() -> None:
    held = claim("one", "gpus")
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n0", "device": "gpu-0"}
    consumers = [{"resource": "pods", "name": name, "uid": name} for name in ("web-1", "web-2")]
    held["status"] = {"allocation": {"devices": {"results": [result]}}, "reservedFor": consumers}
    cache = devices(1, held, claim("two", "gpus"), gpus=1)
    for name in ("bare-1", "bare-2"):
        cache.observe_node(node(name))
    found = DynamicResources().findings(claiming("two"), cache.view)
    assert [one.nodes for one in found] == [("n0",), ("bare-1", "bare-2")]
    assert "1 taken (by default/one for web-1 and web-2), 0 free" in found[0].lines[0]


def test_nodes_that_have_the_resource_themselves_and_nodes_with_devices_are_distinguished() -> None:
    cache = devices(4, gpus=1)
    for name in ("own-1", "own-2"):
        cache.observe_node(node(name, allocatable={GPU: "1"}))
    asking = info("pending", requests={GPU: "2"})
    found = refusals(DynamicResources(), asking, cache.view)
    assert found.keys() == {"n0", "n1", "n2", "n3"}, "a node with the resource is left to NodeResourcesFit"


def test_why_names_the_condition_of_a_selector_that_is_false() -> None:
    place = 'device.attributes["gpu.example.com"].place'
    asked = exactly("gpus", f'device.driver == "gpu.example.com" && {place} == 1 && {place} < 9', count=2)
    cache = devices(1, claim("two", requests=[{"name": "r", "exactly": asked}]), gpus=3)
    (finding,) = DynamicResources().findings(claiming("two"), cache.view)
    assert f"2 fail the request's {place} == 1" in finding.lines[0]
    assert f"{place} < 9" not in finding.lines[0]


def test_why_names_the_constraint_that_no_choice_keeps_to() -> None:
    together = claim(
        "two",
        requests=[{"name": "r", "exactly": exactly("gpus", count=2)}],
        constraints=[{"matchAttribute": "gpu.example.com/place"}],
    )
    cache = devices(1, together)
    (finding,) = DynamicResources().findings(claiming("two"), cache.view)
    assert finding.lines[-1] == "no choice of devices keeps to matchAttribute gpu.example.com/place"


def test_why_says_which_devices_a_placed_pod_got() -> None:
    held = claim("one", "gpus")
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n0", "device": "gpu-1"}
    held["status"] = {"allocation": {"devices": {"results": [result]}}}
    cache = devices(1, held)
    (finding,) = DynamicResources().findings(claiming("one").on_node("n0"), cache.view)
    assert finding.lines == ("claim default/one, request r: gpu.example.com/n0/gpu-1",)


def test_a_pod_without_its_claims_hears_of_claims_and_pods_alone() -> None:
    plugin = DynamicResources()
    released = {one.event.resource for one in plugin.events() if plugin.may_release(one.event)}
    assert released == {Resource.RESOURCE_CLAIM, Resource.POD}
