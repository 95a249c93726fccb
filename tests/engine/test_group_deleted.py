"""A PodGroup that is deleted while its pods are tried: before the commit none of them starts, after it all of them.

kube-scheduler 1.36 asks for the PodGroup where a pod is about to be queued and in Permit (docs/kube-scheduler/
podgroups.md §4, §6.1). Each test is about both APIs.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler.cluster.devices.allocated import Holdings
from scheduler.framework.plugin import Wait
from scheduler.messages.commands import BindPod, CallExtender, DeletePod, PatchGroupStatus
from scheduler.messages.stimuli import ObjectDeleted, PermitDecided
from scheduler.objects.kinds import Kind
from tests.engine.gangs import TOPOLOGY, Gangs, group, topology, zones
from tests.engine.scripted import scripted
from tests.engine.test_coscheduling import Coscheduling, pod_group
from tests.engine.test_group_claims import GROUP_CLAIMS, claimants, show_claim, with_devices
from tests.engine.test_group_commit import held, run_until
from tests.engine.test_group_preemption import WHOLE, placed, run_on

NOT_THERE = 'waiting for pods\'s pod group "g" to appear in scheduling queue'


class V1alpha2(Gangs):
    def describe(self, min_count: int) -> None:
        self.group(min_count=min_count)

    def forget(self) -> None:
        self.feed(ObjectDeleted(Kind.POD_GROUP, group()))

    def join(self, count: int) -> None:
        self.members(count, cpu="1")


class SchedulerPlugins(Coscheduling):
    def describe(self, min_count: int) -> None:
        self.crd(minMember=min_count)

    def forget(self) -> None:
        self.feed(ObjectDeleted(Kind.COSCHEDULING_POD_GROUP, pod_group()))

    def join(self, count: int) -> None:
        self.labelled(*[f"g{number}" for number in range(count)], cpu="1")


Api = type[V1alpha2] | type[SchedulerPlugins]
both_apis = pytest.mark.parametrize("api", [V1alpha2, SchedulerPlugins])


def names(cluster: Gangs) -> list[str]:
    return sorted(cluster.bound())


def assert_held_back(cluster: Gangs, count: int) -> None:
    """Each pod waits for the group's object, as one that came before it; no room is held, and nothing is tried."""
    cluster.schedule_all()
    cluster.advance(30)
    cluster.schedule_all()
    assert held(cluster) == 0
    for number in range(count):
        record = cluster.engine.queue.find(f"default/g{number}")
        assert record is not None
        assert cluster.place(f"g{number}") == "gated"
        assert record.gating_reasons == (NOT_THERE,)
    cluster.engine.check()


@both_apis
def test_pods_in_back_off_wait_for_the_object_and_start_with_the_next_of_that_name(api: Api) -> None:
    cluster = api()
    cluster.node("n", cpu="2")
    cluster.describe(3)
    cluster.join(3)
    cluster.schedule_all()
    cluster.forget()
    assert_held_back(cluster, 3)
    cluster.describe(2)
    cluster.schedule_all()
    assert len(cluster.bound()) == 2


@both_apis
@pytest.mark.parametrize("steps", range(1, 4))
def test_a_search_that_is_under_way_starts_no_pod(api: Api, steps: int) -> None:
    cluster = api()
    cluster.node("n", cpu="4")
    cluster.describe(3)
    cluster.join(3)
    for _ in range(steps):
        cluster.schedule()
    assert cluster.engine.group_cycles.is_under_way
    cluster.forget()
    cluster.schedule_all()
    assert cluster.bound() == {}
    assert_held_back(cluster, 3)
    cluster.describe(3)
    cluster.schedule_all()
    assert names(cluster) == ["g0", "g1", "g2"]


@both_apis
def test_what_its_pods_hold_before_the_last_is_placed_is_given_back(api: Api) -> None:
    cluster = api()
    cluster.node("n", cpu="4")
    cluster.describe(3)
    cluster.join(3)
    run_until(cluster, lambda: held(cluster) == 2)
    cluster.forget()
    cluster.schedule_all()
    assert cluster.bound() == {}
    message = cluster.reason_of("g0")[1]
    assert "failed to get podGroup default/g" in message
    assert_held_back(cluster, 3)


@both_apis
@pytest.mark.parametrize("bound", range(3))
def test_a_group_that_is_placed_whole_is_bound_whole(api: Api, bound: int) -> None:
    cluster = api()
    cluster.node("n", cpu="4")
    cluster.describe(3)
    cluster.join(3)
    run_until(cluster, lambda: held(cluster) == 3 and len(cluster.bound()) == bound)
    cluster.forget()
    cluster.schedule_all()
    assert names(cluster) == ["g0", "g1", "g2"]
    assert [one for one in cluster.sent if isinstance(one, PatchGroupStatus)] == []
    for name in names(cluster):
        cluster.succeed(cluster.write(BindPod, name))
    cluster.engine.check()


@both_apis
def test_a_pod_whose_binding_fails_then_waits_for_the_object(api: Api) -> None:
    cluster = api()
    cluster.node("n", cpu="4")
    cluster.describe(2)
    cluster.join(2)
    cluster.schedule_all()
    cluster.forget()
    cluster.succeed(cluster.write(BindPod, "g0"))
    cluster.fail(cluster.write(BindPod, "g1"), 422, "no")
    cluster.advance(30)
    cluster.schedule_all()
    assert cluster.bound() == {}
    assert cluster.place("g1") == "gated"
    cluster.describe(2)
    cluster.schedule_all()
    assert names(cluster) == ["g1"]


@both_apis
def test_pods_that_another_permit_plugin_lets_wait_are_bound_when_it_may(api: Api) -> None:
    cluster = api(plugins=(scripted("Slow", permit=lambda pod, node: Wait(60) if pod == "g1" else None),))
    cluster.node("n", cpu="4")
    cluster.describe(2)
    cluster.join(2)
    cluster.schedule_all()
    assert names(cluster) == ["g0"]
    assert cluster.engine.bindings.waits_in_permit(cluster.uid("g1"))
    cluster.forget()
    cluster.feed(PermitDecided(cluster.uid("g1"), "Slow", True))
    assert names(cluster) == ["g0", "g1"]


@both_apis
def test_a_search_that_waits_for_an_extender_starts_no_pod(api: Api) -> None:
    extender = {"urlPrefix": "http://e1.test", "nodeCacheCapable": True, "filterVerb": "filter"}
    cluster = api(configuration={"extenders": [extender]})
    cluster.node("n", cpu="4")
    cluster.describe(2)
    cluster.join(2)
    cluster.schedule()
    cluster.forget()
    while cluster.writes(CallExtender):
        cluster.answer(cluster.write(CallExtender), {"NodeNames": ["n"]})
        cluster.schedule_all()
    assert cluster.bound() == {}
    assert_held_back(cluster, 2)


def _before_full_nodes(api: Api) -> V1alpha2 | SchedulerPlugins:
    """A gang of two that needs the room of two pods of lower priority, and makes room as one."""
    cluster = api(gates=WHOLE if api is V1alpha2 else "")
    cluster.node("n", cpu="2")
    for name in ("v0", "v1"):
        cluster.pod(name, cpu="1", node="n", priority=0)
    if isinstance(cluster, V1alpha2):
        cluster.group(min_count=2, priority=10)
        cluster.members(2, cpu="1", priority=10)
    else:
        cluster.crd(minMember=2)
        cluster.labelled("g0", "g1", cpu="1", priority=10)
    return cluster


def victims(cluster: Gangs) -> list[DeletePod]:
    return [one for one in cluster.sent if isinstance(one, DeletePod)]


@both_apis
def test_no_pod_is_removed_for_it_in_whichever_step_it_goes(api: Api) -> None:
    for steps in range(1, 100):
        cluster = _before_full_nodes(api)
        for _ in range(steps):
            cluster.schedule()
        if not cluster.engine.group_cycles.is_under_way:
            break
        cluster.forget()
        cluster.settle()
        assert victims(cluster) == []
        assert_held_back(cluster, 2)
    assert steps > 5


def test_a_search_for_one_domain_starts_no_pod() -> None:
    for steps in range(1, 100):
        cluster = V1alpha2(TOPOLOGY)
        zones(cluster, a="1", b="2")
        cluster.group(min_count=3, **topology())
        cluster.members(3, cpu="1")
        for _ in range(steps):
            cluster.schedule()
        if cluster.bound():
            break
        is_placed = held(cluster) == 3
        cluster.forget()
        cluster.schedule_all()
        assert len(cluster.bound()) == (3 if is_placed else 0)
        if not is_placed:
            assert_held_back(cluster, 3)
    assert steps > 5


def test_devices_that_are_held_for_it_are_given_back() -> None:
    for steps in range(1, 100):
        cluster = with_devices(GROUP_CLAIMS)
        show_claim(cluster)
        cluster.group(min_count=2, resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}])
        claimants(cluster, 2, {"resourceClaimName": "shared"})
        for _ in range(steps):
            cluster.schedule()
        if held(cluster) == 2:
            break
        cluster.feed(ObjectDeleted(Kind.POD_GROUP, group()))
        cluster.schedule_all()
        assert cluster.engine.cache.devices.in_flight == Holdings()
        assert_held_back(cluster, 2)
    assert steps > 3


def _quorum_lost(cluster: Gangs) -> None:
    cluster.delete("g1")


def _object_gone(cluster: Gangs) -> None:
    cluster.feed(ObjectDeleted(Kind.POD_GROUP, group()))


@pytest.mark.parametrize("happens", [_quorum_lost, _object_gone])
def test_the_room_that_was_made_for_a_gang_is_free_for_others_once_it_cannot_start(
    happens: Callable[[Gangs], None],
) -> None:
    cluster = _before_full_nodes(V1alpha2)
    cluster.lingering |= {"v0", "v1"}
    cluster.settle()
    assert len(victims(cluster)) == 2
    assert cluster.nominated("g0") == "n"
    happens(cluster)
    cluster.pod("plain", cpu="2", priority=0)
    for name in ("v0", "v1"):
        cluster.delete(name)
    run_on(cluster)
    assert cluster.place("g0") == "gated"
    assert cluster.nominated("g0") == ""
    assert placed(cluster, "plain") == {"plain": "n"}
    cluster.engine.check()
