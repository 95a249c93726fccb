"""What plugins ask about other pods: waiting ones are let in or sent back, others are tried at once."""

from __future__ import annotations

from typing import Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.engine.permit_waits import PermitWaits
from scheduler.framework.plugin import PermitPlugin, Permitted, ReservePlugin, State, Wait
from scheduler.framework.plugin_requests import (
    ActivatePods,
    AllowWaiting,
    AllowWaitingGroup,
    PluginRequest,
    RejectWaiting,
)
from scheduler.messages.commands import BindPod, PatchPodStatus
from scheduler.messages.status import Refusal, unschedulable
from scheduler.plugins.groups.gang_scheduling import GangScheduling
from tests.engine.driver import Cluster
from tests.engine.gangs import Gangs


class Pair(PermitPlugin):
    """The first of two pods waits for the second, which lets it in."""

    name = "Pair"

    def permit(self, state: State | None, pod: PodInfo, view: View, node: str) -> Wait | Permitted | Refusal | None:
        if pod.name == "first":
            return Wait(60)
        if pod.name == "second":
            return Permitted((AllowWaiting("pod-first"),))
        return None


class LastOfGroup(PermitPlugin):
    """The pods of a group wait for the one whose name ends with ``last``."""

    name = "LastOfGroup"

    def permit(self, state: State | None, pod: PodInfo, view: View, node: str) -> Wait | Permitted | Refusal | None:
        if pod.name.endswith("last"):
            return Permitted((AllowWaitingGroup(view.groups.key_of(pod)),))
        return Wait(60)


class AllOrNone(PermitPlugin, ReservePlugin):
    """``first`` waits; where ``second`` is refused, ``first`` is sent back too, and ``other`` is tried."""

    name = "AllOrNone"

    def reserve(self, state: State | None, pod: PodInfo, view: View, node: str) -> tuple[PluginRequest, ...]:
        return (ActivatePods(("default/other",)),) if pod.name == "second" else ()

    def unreserve(self, state: State | None, pod: PodInfo, view: View, node: str) -> tuple[PluginRequest, ...]:
        return (RejectWaiting("pod-first", "the second has no place"),) if pod.name == "second" else ()

    def permit(self, state: State | None, pod: PodInfo, view: View, node: str) -> Wait | Permitted | Refusal | None:
        if pod.name == "first":
            return Wait(60)
        return unschedulable("no") if pod.name == "second" else None


def cluster_with(*plugins: Any) -> Cluster:
    cluster = Cluster(*plugins)
    cluster.node("n")
    return cluster


def test_a_permit_plugin_lets_the_pod_in_that_waits_for_it() -> None:
    cluster = cluster_with(Pair)
    cluster.pod("first")
    cluster.schedule()
    assert cluster.writes(BindPod) == []
    assert [one.pod.name for one in cluster.engine.waiting_pods("Pair")] == ["first"]
    cluster.pod("second")
    cluster.schedule()
    assert {bind.pod.name for bind in cluster.writes(BindPod)} == {"first", "second"}
    assert cluster.engine.waiting_pods("Pair") == []


def test_of_a_group_that_is_tried_as_one_a_pod_does_not_begin_to_wait_for_a_sibling_that_lets_it_in() -> None:
    """Its node would be written into its status for a wait of no time."""
    cluster = Gangs(plugins=[Pair])
    cluster.node("n")
    cluster.group(min_count=2)
    cluster.member("second")
    cluster.member("first")
    cluster.schedule_all()
    assert list(cluster.bound()) == ["first", "second"]
    assert cluster.writes(PatchPodStatus) == []


def test_a_permit_plugin_lets_all_pods_of_a_group_in_that_wait_by_then_with_one_request() -> None:
    """Of a group that is tried as one, ``g1`` and ``g2`` come after the first request and wait for the second."""
    cluster = Gangs(plugins=[LastOfGroup])
    cluster.node("n", cpu="8")
    cluster.group(min_count=None)
    for name in ("g0", "g-last", "g1", "g2"):
        cluster.member(name)
    cluster.schedule_all()
    assert set(cluster.bound()) == {"g0", "g-last"}
    assert [one.pod.name for one in cluster.engine.waiting_pods("LastOfGroup")] == ["g1", "g2"]
    cluster.delete("g2")
    cluster.member("again-last")
    cluster.schedule_all()
    assert set(cluster.bound()) == {"g0", "g-last", "g1", "again-last"}
    assert cluster.engine.waiting_pods("LastOfGroup") == []
    cluster.engine.check()


def test_of_groups_whose_pods_wait_no_longer_nothing_is_kept() -> None:
    waits = PermitWaits()
    for number in range(2):
        waits.add("default/g", f"pod-{number}")
    waits.drop("pod-0")
    assert waits.of("default/g") == ("pod-1",)
    waits.drop("pod-1")
    assert [getattr(waits, slot) for slot in waits.__slots__] == [{}, {}]


def test_the_pods_of_other_groups_go_on_waiting() -> None:
    cluster = Gangs(plugins=[LastOfGroup])
    cluster.node("n", cpu="8")
    for group in ("g", "other"):
        cluster.group(group, min_count=None)
        cluster.member(f"{group}-last", of=group)
        cluster.member(f"{group}0", of=group)
    cluster.schedule_all()
    assert [one.pod.name for one in cluster.engine.waiting_pods("LastOfGroup")] == ["g0", "other0"]
    cluster.member("again-last")
    cluster.schedule_all()
    assert [one.pod.name for one in cluster.engine.waiting_pods("LastOfGroup")] == ["other0"]


def test_a_member_of_a_gang_asks_for_all_its_siblings_at_once_however_many_they_are() -> None:
    """A request for each of them, from each member after the quorum, took 24 s for a gang of 1,500 pods."""
    cluster = Gangs()
    cluster.node("n", cpu="64")
    cluster.group(min_count=1)
    cluster.members(30)
    cluster.schedule_all()
    view, pod = cluster.engine.cache.view, next(iter(cluster.engine.cache.pods.values()))
    assert cluster.engine.cache.assumed_count == 30
    assert GangScheduling().permit(None, pod, view, "n") == Permitted((AllowWaitingGroup("default/g"),))


def test_a_request_about_a_pod_that_does_not_wait_for_the_plugin_does_nothing() -> None:
    cluster = cluster_with(Pair)
    cluster.pod("second")
    cluster.settle()
    assert cluster.node_of("second") == "n"


def test_unreserve_sends_back_the_pod_that_waits_and_reserve_has_another_one_tried() -> None:
    cluster = cluster_with(AllOrNone)
    cluster.pod("first")
    cluster.schedule()
    cluster.pod("other", cpu="999")
    cluster.schedule()
    assert cluster.place("other") == "unschedulable"
    cluster.pod("second", priority=5)
    cluster.schedule()
    assert "the second has no place" in cluster.attempt("first").message
    assert cluster.attempt("first").rejectors == ("AllOrNone",)
    assert cluster.node_of("first") == cluster.node_of("second") == ""
    assert cluster.place("other") == "active"
