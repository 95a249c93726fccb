"""A group that is nominated to its room, and whose members concern each other there."""

from __future__ import annotations

from scheduler.messages.commands import PatchPodStatus
from scheduler.testing.fragments import spread_json
from tests.engine.gangs import GANGS, ZONE, Gangs


def run_on(cluster: Gangs) -> None:
    for _ in range(20):
        cluster.settle()
        cluster.advance(1)


def test_members_whose_nominations_are_in_each_other_s_way_take_the_room_that_was_made_for_them() -> None:
    """The last one fits beside those before it; an earlier one does not fit beside the last."""
    cluster = Gangs(f"{GANGS},WorkloadAwarePreemption=true")
    cluster.node("n", cpu="2", zone="a")
    cluster.node("full", cpu="1", zone="b")
    cluster.pod("victim", cpu="2", node="n")
    cluster.pod("stays", cpu="1", node="full")
    cluster.group(min_count=2, priority=5)
    gang = {"app": "gang"}
    cluster.member("plain", cpu="1", priority=5, labels=gang)
    # It completes the quorum, and so is the first to be tried.
    cluster.member("spread", cpu="1", priority=5, labels=gang, spread=[spread_json(ZONE, gang, max_skew=1)])
    cluster.lingering = {"victim"}
    run_on(cluster)
    cluster.delete("victim")
    run_on(cluster)
    assert (cluster.node_of("plain"), cluster.node_of("spread")) == ("n", "n")
    assert cluster.engine.cache.assumed_count == 0


def test_a_member_placed_elsewhere_leaves_the_room_of_a_nomination_that_was_never_written() -> None:
    """Nothing else wakes the lesser pod: by its hints the new node does not help it."""
    gpu = {"example.com/gpu": "1"}
    cluster = Gangs()
    cluster.node("n", cpu="4", allocatable=gpu)
    cluster.pod("victim", cpu="2", node="n")
    cluster.group(min_count=1)
    cluster.member("a", cpu="3", priority=10)
    cluster.schedule_all()
    assert cluster.nominated("a") == "n"
    cluster.pod("low", cpu="2", requests=gpu)
    cluster.schedule_all()
    assert cluster.place("low") == "unschedulable"
    cluster.unanswered.remove(cluster.write(PatchPodStatus, "a"))
    cluster.fail(cluster.write(PatchPodStatus, "victim"))
    cluster.node("m", cpu="4")
    cluster.schedule_all()
    cluster.advance(15)
    cluster.schedule_all()
    assert [cluster.node_of(name) for name in ("a", "low")] == ["m", "n"]
