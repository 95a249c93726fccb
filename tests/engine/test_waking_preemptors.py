"""What wakes a preemptor: a budget that allows more, and room of its own that the watch has not shown yet."""

from __future__ import annotations

import pytest

from scheduler.engine.making_room.policies import Suspension
from scheduler.framework.plugin import Wait
from scheduler.messages.commands import EvictPod, PatchPodStatus
from scheduler.messages.stimuli import ObjectDeleted
from scheduler.objects.kinds import Kind
from tests.builders import budget
from tests.engine.driver import Cluster
from tests.engine.scripted import scripted

STRICT = {"preemption": {"pdbPolicy": "strict"}}


def kept_by_a_budget() -> Cluster:
    """Two preemptors, which only a strict budget keeps from the pods on two nodes."""
    cluster = Cluster(tandem=STRICT)
    cluster.show(budget("guard", {"app": "low"}, allowed=0))
    for number in (1, 2):
        cluster.node(f"n{number}", cpu="1")
        cluster.pod(f"low-{number}", cpu="1", node=f"n{number}", labels={"app": "low"})
        cluster.pod(f"high-{number}", cpu="1", priority=100)
    cluster.settle()
    assert [cluster.place(f"high-{number}") for number in (1, 2)] == ["unschedulable"] * 2
    return cluster


def test_a_preemptor_that_only_a_budget_keeps_from_its_victims_is_tried_when_it_allows_one() -> None:
    cluster = kept_by_a_budget()
    cluster.advance(20)
    cluster.show(budget("guard", {"app": "low"}, allowed=1))
    cluster.schedule_all()
    assert len(cluster.writes(EvictPod)) == 1


def test_a_preemptor_that_only_a_budget_keeps_from_its_victims_is_tried_when_the_budget_is_deleted() -> None:
    cluster = kept_by_a_budget()
    cluster.advance(20)
    gone = budget("guard", {"app": "low"}, allowed=0)
    cluster.feed(ObjectDeleted(Kind.POD_DISRUPTION_BUDGET, gone))
    cluster.schedule_all()
    assert len(cluster.writes(EvictPod)) == 2


def test_a_preemptor_is_tried_when_a_budget_counts_a_victim_as_disrupted_already() -> None:
    """Another program has evicted it, and as long as the budget says so its end is no disruption more."""
    cluster = kept_by_a_budget()
    cluster.advance(20)
    cluster.show(budget("guard", {"app": "low"}, allowed=0, disrupted={"low-1": "2026-01-01T00:00:00Z"}))
    cluster.schedule_all()
    assert [write.pod.name for write in cluster.writes(EvictPod)] == ["low-1"]


def test_a_change_of_a_budget_that_allows_no_more_wakes_no_preemptor() -> None:
    cluster = kept_by_a_budget()
    cluster.advance(20)
    cluster.show(budget("guard", {"app": "low"}, allowed=0))
    assert [cluster.place(f"high-{number}") for number in (1, 2)] == ["unschedulable"] * 2


def test_a_preemptor_whose_room_is_free_before_the_watch_shows_its_nomination_is_not_passed_over() -> None:
    """Its fellow finds no node beside that nomination."""
    cluster = Cluster(scripted("Holds", permit=lambda pod, _: Wait(600) if pod == "low" else None))
    cluster.node("n", cpu="2")
    cluster.pod("low", cpu="2")
    cluster.schedule()
    for name in ("first", "second"):
        cluster.pod(name, cpu="2", priority=100)
        cluster.schedule()
    assert cluster.pods["default/first"].status.nominated_node_name == ""
    cluster.schedule_all()
    assert cluster.node_of("first") == "n"


@pytest.mark.parametrize("is_shown", [True, False])
def test_a_nomination_times_out_though_its_write_has_failed(is_shown: bool) -> None:
    cluster = Cluster(tandem={"preemption": {"nominationTimeout": "30s"}})
    cluster.node("n", cpu="2")
    cluster.node("small", cpu="1")
    cluster.pod("low", cpu="2", node="n")
    cluster.pod("beside", cpu="1", node="small", priority=1000)
    cluster.lingering.add("low")
    cluster.pod("high", cpu="2", priority=100)
    cluster.schedule()
    for write in cluster.writes(PatchPodStatus, "high"):
        if is_shown:
            cluster.succeed(write)
        else:
            cluster.fail(write, 500)
    cluster.settle()
    cluster.advance(10)
    cluster.delete("beside")
    cluster.schedule_all()
    assert "a terminating pod on the nominated node" in cluster.attempt("high").message
    cluster.advance(20)
    assert cluster.engine.room.suspensions == {Suspension.VICTIMS_REMAINED.value: 1}
