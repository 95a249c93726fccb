"""What plugins ask about other pods: waiting ones are let in or sent back, others are tried at once."""

from __future__ import annotations

from typing import Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.plugin import PermitPlugin, Permitted, ReservePlugin, State, Wait
from scheduler.framework.plugin_requests import ActivatePods, AllowWaiting, PluginRequest, RejectWaiting
from scheduler.messages.commands import BindPod
from scheduler.messages.status import Refusal, unschedulable
from tests.engine.driver import Cluster


class Pair(PermitPlugin):
    """The first of two pods waits for the second, which lets it in."""

    name = "Pair"

    def permit(self, state: State | None, pod: PodInfo, view: View, node: str) -> Wait | Permitted | Refusal | None:
        if pod.name == "first":
            return Wait(60)
        if pod.name == "second":
            return Permitted((AllowWaiting("pod-first"),))
        return None


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
