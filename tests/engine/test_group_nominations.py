"""A group that is nominated to its room, and whose members concern each other there."""

from __future__ import annotations

import pytest

from scheduler.engine.commands import RecordGroupAttempt
from scheduler.messages.commands import DeletePod, PatchPodStatus
from scheduler.testing.fragments import spread_json
from tests.engine.gangs import GANGS, ZONE, Gangs


def run_on(cluster: Gangs) -> None:
    for _ in range(20):
        cluster.settle()
        cluster.advance(1)


@pytest.mark.parametrize("gates", [GANGS, f"{GANGS},WorkloadAwarePreemption=true"])
def test_a_gang_takes_the_room_that_was_made_for_it_at_its_first_try(gates: str) -> None:
    """The first member fits, and would not beside the other one that is nominated there, too."""
    cluster = Gangs(gates)
    cluster.node("n", cpu="2", zone="a")
    cluster.node("full", cpu="1", zone="b")
    cluster.pod("victim", cpu="2", node="n")
    cluster.pod("stays", cpu="1", node="full", priority=10)
    cluster.group(min_count=2, priority=5)
    gang = {"app": "gang"}
    cluster.member("plain", cpu="1", priority=5, labels=gang)
    # It completes the quorum, and so is the first to be tried.
    cluster.member("spread", cpu="1", priority=5, labels=gang, spread=[spread_json(ZONE, gang, max_skew=1)])
    cluster.lingering = {"victim"}
    cluster.settle()
    assert (cluster.nominated("plain"), cluster.nominated("spread")) == ("n", "n")
    tries = len(cluster.attempts("spread"))
    cluster.delete("victim")
    cluster.advance(15)
    cluster.pod("low", cpu="2", priority=-1)
    cluster.settle()
    assert [cluster.node_of(name) for name in ("plain", "spread", "low")] == ["n", "n", ""]
    assert len(cluster.attempts("spread")) == tries + 1
    assert [one.attempt.repeats for one in cluster.sent if isinstance(one, RecordGroupAttempt)][-1] == 0


def test_the_members_of_a_gang_take_its_room_in_their_order_whichever_is_nominated_to_it() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="2")
    cluster.pod("victim", cpu="2", node="n")
    cluster.group(min_count=1)
    cluster.member("first", cpu="2", priority=5, preemption_policy="Never")
    cluster.member("second", cpu="2", priority=5)
    cluster.schedule_all()
    assert (cluster.nominated("first"), cluster.nominated("second")) == ("", "n")
    cluster.settle()
    cluster.advance(15)
    cluster.settle()
    assert (cluster.node_of("first"), cluster.node_of("second")) == ("n", "")


def test_less_important_pods_give_up_the_node_that_a_gang_makes_room_on() -> None:
    cluster = Gangs(f"{GANGS},WorkloadAwarePreemption=true")
    cluster.node("n", cpu="2")
    cluster.lingering = {"a", "b"}
    cluster.pod("a", cpu="1", node="n")
    cluster.pod("b", cpu="1", node="n", priority=1)
    cluster.pod("low", cpu="1", priority=2)
    cluster.settle()
    assert cluster.nominated("low") == "n"
    cluster.group(min_count=1, priority=5)
    cluster.member("high", cpu="2", priority=5)
    cluster.settle()
    assert (cluster.nominated("low"), cluster.nominated("high")) == ("", "n")


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


GPU = {"example.com/gpu": "1"}


def waited_for() -> Gangs:
    """Two members are nominated to ``n`` and one to ``o``, by nominations that were never written, and their victims
    are gone. Two other pods, each of which needs a device of one of these nodes, are tried while the gang searches, and
    wait since the nominations count for them."""
    gang = {"app": "gang"}
    cluster = Gangs(f"{GANGS},WorkloadAwarePreemption=true")
    cluster.node("n", cpu="5", zone="a", allocatable=GPU)
    cluster.node("o", cpu="3", allocatable={"example.com/fpga": "1"})
    cluster.node("full", cpu="1", zone="b")
    for name, node, cpu in (("victim", "n", "5"), ("other-victim", "o", "3"), ("stays", "full", "1")):
        cluster.pod(name, cpu=cpu, node=node)
    cluster.group(min_count=3, priority=5)
    for name in ("plain", "third"):
        cluster.member(name, cpu="2500m", priority=5, labels=gang)
    cluster.member("spread", cpu="2500m", priority=5, labels=gang, spread=[spread_json(ZONE, gang, max_skew=1)])
    cluster.schedule_all()
    assert nominated(cluster) == ["n", "n", "o"]
    for name in ("other-victim", "victim"):
        cluster.succeed(cluster.write(PatchPodStatus, name))
        cluster.succeed(cluster.write(DeletePod, name))
    cluster.node("elsewhere", cpu="50")
    while not cluster.engine.group_cycles.is_under_way:
        cluster.schedule()
    cluster.pod("equal", cpu="2", priority=5, requests=GPU)
    cluster.pod("another", cpu="1", priority=5, requests={"example.com/fpga": "1"})
    while any(cluster.place(name) != "unschedulable" for name in ("equal", "another")):
        cluster.schedule()
    assert cluster.engine.group_cycles.is_under_way and nominated(cluster) == ["n", "n", "o"]
    return cluster


def nominated(cluster: Gangs) -> list[str]:
    return sorted(cluster.nominated(name) for name in ("plain", "third", "spread"))


def test_a_gang_that_finds_no_place_after_all_leaves_the_room_of_nominations_that_were_never_shown() -> None:
    cluster = waited_for()
    cluster.remove_node("elsewhere")
    for node, cpu in (("n", "3"), ("o", "1")):
        cluster.pod(f"taken-{node}", cpu=cpu, node=node, priority=9)
    cluster.schedule_all()
    assert [cluster.node_of(name) for name in ("plain", "third", "spread")] == ["", "", ""]
    cluster.advance(15)
    cluster.schedule_all()
    assert [cluster.node_of(name) for name in ("equal", "another")] == ["n", "o"]
