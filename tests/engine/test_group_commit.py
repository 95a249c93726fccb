"""From a group's search to its members' bindings, a member a step: what happens in between is met."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from scheduler.messages.commands import BindPod, DeletePod, PatchPodStatus
from scheduler.messages.stimuli import ShutdownRequested
from scheduler.queue.story import Place
from tests.engine.gangs import Gangs
from tests.engine.scripted import calls_of, scripted


def gang(count: int = 4, nodes: int = 2, cpu: str = "2", min_count: int | None = None) -> Gangs:
    cluster = Gangs()
    cluster.nodes_like(nodes, cpu=cpu)
    cluster.group(min_count=min_count or count)
    cluster.members(count, cpu="1")
    return cluster


def run_until(cluster: Gangs, is_reached: Callable[[], bool]) -> None:
    for _ in range(100):
        if is_reached():
            return
        cluster.schedule()
    raise AssertionError("not reached")


def held(cluster: Gangs) -> int:
    """How many pods count on nodes without being bound."""
    return cluster.engine.cache.assumed_count


def test_no_step_takes_more_than_one_member_and_none_is_bound_before_all_have_their_place() -> None:
    cluster = gang(30, nodes=15)
    bound, steps = 0, 0
    while cluster.engine.queue.active_pods() or cluster.engine.group_cycles.is_under_way:
        before = held(cluster)
        cluster.schedule()
        steps += 1
        newly, bound = len(cluster.bound()) - bound, len(cluster.bound())
        assert newly <= 1
        assert abs(held(cluster) - before) <= 1
        assert not newly or held(cluster) == 30
    assert bound == 30
    assert steps >= 90


def test_pods_without_a_group_are_tried_while_a_gang_is_placed_and_handed_over() -> None:
    cluster = gang(4, nodes=3)
    run_until(cluster, lambda: held(cluster) == 2)
    cluster.pod("between", cpu="1")
    run_until(cluster, lambda: "between" in cluster.bound())
    assert len(cluster.bound()) == 1
    run_until(cluster, lambda: len(cluster.bound()) == 2)
    cluster.pod("later", cpu="1")
    run_until(cluster, lambda: "later" in cluster.bound())
    assert len(cluster.bound()) < 6
    cluster.schedule_all()
    assert len(cluster.bound()) == 6


def test_a_gang_whose_room_is_taken_while_it_is_placed_gives_back_all_of_it() -> None:
    cluster = gang()
    run_until(cluster, lambda: held(cluster) == 2)
    for node in ("n0", "n1"):
        cluster.pod(f"other-{node}", cpu="2", node=node)
    cluster.schedule_all()
    assert cluster.bound() == {}
    assert held(cluster) == 0
    assert cluster.conditions() == [("False", "Unschedulable", "pod group is unschedulable")]


def test_a_pod_that_was_refused_for_room_that_a_gang_gives_back_is_tried_again() -> None:
    cluster = gang(3, nodes=1, cpu="3")
    run_until(cluster, lambda: held(cluster) == 2)
    cluster.pod("small", cpu="2")
    cluster.schedule()
    assert cluster.place("small") == Place.UNSCHEDULABLE.value
    cluster.delete("g0")
    cluster.delete("g1")
    cluster.schedule_all()
    cluster.advance(5)
    cluster.schedule_all()
    assert cluster.bound() == {"small": "n0"}


@pytest.mark.parametrize("placed", [1, 3, 4])
def test_a_node_that_goes_while_its_gang_is_placed_keeps_the_gang_from_starting_in_part(placed: int) -> None:
    cluster = gang()
    run_until(cluster, lambda: held(cluster) == placed)
    cluster.remove_node("n0")
    cluster.schedule_all()
    assert cluster.bound() == {}
    assert held(cluster) == 0
    cluster.node("other", cpu="2")
    cluster.advance(30)
    cluster.schedule_all()
    assert sorted(cluster.bound().values()) == ["n1", "n1", "other", "other"]


@pytest.mark.parametrize("placed", [1, 3, 4])
def test_a_member_that_is_deleted_while_its_gang_is_placed_keeps_it_from_starting_below_its_quorum(placed: int) -> None:
    cluster = gang()
    run_until(cluster, lambda: held(cluster) == placed)
    cluster.delete(next(name for name in ("g0", "g1", "g2", "g3") if cluster.node_of(name)))
    cluster.schedule_all()
    assert (cluster.bound(), held(cluster)) == ({}, 0)


def test_a_member_that_is_deleted_after_it_was_placed_is_not_bound() -> None:
    plugin = scripted("Watching", reserve=lambda pod, node: None, unreserve=lambda pod, node: None)
    cluster = Gangs(plugins=(plugin,))
    cluster.node("n", cpu="4")
    cluster.group(min_count=3)
    cluster.members(4, cpu="1")
    run_until(cluster, lambda: len(cluster.bound()) == 1)
    last = next(name for name in ("g3", "g2", "g1", "g0") if name not in cluster.bound())
    cluster.delete(last)
    cluster.schedule_all()
    assert last not in cluster.bound()
    assert len(cluster.bound()) == 3
    assert f"unreserve {last} n" in calls_of(plugin)
    assert held(cluster) == 3


def test_nothing_is_said_of_a_gang_whose_pods_are_all_deleted_while_it_is_placed() -> None:
    cluster = gang(2)
    run_until(cluster, lambda: held(cluster) == 1)
    cluster.delete("g0")
    cluster.delete("g1")
    cluster.schedule_all()
    assert cluster.bound() == {}
    assert cluster.conditions() == []
    assert held(cluster) == 0


@pytest.mark.parametrize("placed", [1, 3])
def test_shutdown_releases_a_gang_that_is_being_placed(placed: int) -> None:
    cluster = gang()
    run_until(cluster, lambda: held(cluster) == placed)
    cluster.feed(ShutdownRequested())
    cluster.schedule_all()
    assert cluster.bound() == {}
    assert cluster.is_quiet()


def test_shutdown_while_a_gang_is_handed_over_keeps_what_was_sent_and_releases_the_rest() -> None:
    cluster = gang()
    run_until(cluster, lambda: len(cluster.bound()) == 2)
    cluster.feed(ShutdownRequested())
    cluster.schedule_all()
    assert len(cluster.bound()) == 2
    assert held(cluster) == 2
    for command in cluster.writes(BindPod):
        cluster.succeed(command)
    assert cluster.is_quiet()


def test_a_gang_that_lost_its_room_once_is_tried_again_without_other_pods_in_between() -> None:
    cluster = gang()
    run_until(cluster, lambda: held(cluster) == 3)
    cluster.remove_node("n0")
    cluster.node("other", cpu="2")
    run_until(cluster, lambda: held(cluster) == 0)
    cluster.pod("plain", cpu="1")
    run_until(cluster, lambda: len(cluster.bound()) == 4)
    assert "plain" not in cluster.bound()


def living(kind: str) -> int:
    """How many objects of the class of this name there are."""
    return sum(type(each).__name__ == kind for each in gc.get_objects())


def test_the_fork_of_a_search_is_gone_with_it_and_leaves_nothing_to_the_garbage_collector() -> None:
    cluster = gang()
    gc.collect()
    gc.disable()
    try:
        caches, groups = living("ClusterCache"), living("_UnderWay")
        for _ in range(4):
            cluster.schedule()
        assert (living("ClusterCache"), living("_UnderWay")) == (caches + 1, groups + 1)
        cluster.schedule()
        assert held(cluster) == 1
        assert living("ClusterCache") == caches
        cluster.schedule_all()
        assert living("_UnderWay") == groups
    finally:
        gc.enable()


def test_no_victim_dies_for_a_member_that_is_deleted_while_its_gang_is_handed_over() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="2")
    for name in ("low0", "low1"):
        cluster.pod(name, cpu="1", node="n", priority=1)
    cluster.group(min_count=2)
    cluster.members(2, cpu="1", priority=10)
    run_until(cluster, lambda: len(cluster.nominated("g0") + cluster.nominated("g1")) == 1)
    last = "g0" if cluster.nominated("g1") else "g1"
    doomed = set(victims(cluster))
    cluster.delete(last)
    cluster.schedule()
    cluster.schedule()
    assert set(victims(cluster)) == doomed
    assert len(doomed) == 1


def victims(cluster: Gangs) -> list[str]:
    return [
        write.pod.name
        for write in cluster.unanswered
        if isinstance(write, DeletePod | PatchPodStatus) and "low" in write.pod.name
    ]
