"""What happens between the tries of a gang, and of its members."""

from __future__ import annotations

from scheduler.messages.stimuli import ObjectDeleted
from scheduler.objects.kinds import Kind
from tests.engine.gangs import Gangs, group


def being_tried(members: int, *, nodes: int = 1, cpu: str, min_count: int = 0, priority: int = 0) -> Gangs:
    """The first member of a gang has been tried, the others come next. Each requests one CPU; ``min_count`` 0: all."""
    cluster = Gangs()
    cluster.nodes_like(nodes, cpu=cpu)
    cluster.group(min_count=min_count or members)
    cluster.members(members, cpu="1", priority=priority)
    cluster.schedule()
    return cluster


def test_pods_without_a_group_are_tried_between_the_members() -> None:
    cluster = being_tried(30, nodes=4, cpu="16")
    for name in ("x", "y"):
        cluster.pod(name, cpu="1")
    for _ in range(4):
        cluster.schedule()
    assert sorted(cluster.bound()) == ["x", "y"]
    cluster.schedule_all()
    assert len(cluster.bound()) == 32


def test_pods_of_lower_priority_do_not_take_the_room_of_a_gang_that_is_being_tried() -> None:
    cluster = being_tried(4, cpu="4", priority=10)
    cluster.pod("less", cpu="1", priority=9)
    cluster.pod("as-much", cpu="0", priority=10)
    cluster.schedule_all()
    assert sorted(cluster.bound()) == ["as-much", "g0", "g1", "g2", "g3"]


def test_room_that_is_lost_while_the_gang_is_tried_is_noticed_at_the_commit() -> None:
    cluster = being_tried(4, nodes=2, cpu="2")
    cluster.pod("first", cpu="1", node="n0")
    cluster.schedule_all()
    assert cluster.bound() == {}
    assert cluster.engine.cache.assumed_count == 0
    assert cluster.conditions() == [("False", "Unschedulable", "pod group is unschedulable")]


def test_room_that_moves_while_the_gang_is_tried_is_found_again() -> None:
    cluster = being_tried(4, nodes=2, cpu="2")
    cluster.remove_node("n0")
    cluster.node("other", cpu="2")
    cluster.schedule_all()
    assert sorted(cluster.bound().values()) == ["n1", "n1", "other", "other"]


def test_a_member_that_is_deleted_while_its_gang_is_tried_is_left_out() -> None:
    cluster = being_tried(3, min_count=2, cpu="4")
    cluster.delete("g2")
    cluster.schedule_all()
    assert sorted(cluster.bound()) == ["g0", "g1"]
    assert cluster.place("g2") == ""


def test_a_gang_whose_quorum_is_deleted_meanwhile_does_not_start() -> None:
    cluster = being_tried(3, cpu="4")
    cluster.delete("g2")
    cluster.schedule_all()
    assert cluster.bound() == {}
    assert cluster.engine.cache.assumed_count == 0


def test_a_gang_that_lost_its_quorum_while_it_waits_is_not_tried_and_keeps_what_was_said() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="1")
    cluster.group(min_count=2)
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    _, said = cluster.reason_of("g0")
    cluster.delete("g1")
    cluster.sent.clear()
    cluster.advance(30)
    cluster.schedule_all()
    assert cluster.place("g0") == "gated"
    assert said.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert cluster.sent == []


def test_a_gang_that_is_deleted_leaves_nothing_behind() -> None:
    cluster = being_tried(3, cpu="4")
    for name in ("g0", "g1", "g2"):
        cluster.delete(name)
    cluster.feed(ObjectDeleted(Kind.POD_GROUP, group()))
    cluster.schedule_all()
    assert cluster.bound() == {}
    assert cluster.is_quiet()
    assert list(cluster.engine.cache.groups.keys) == []
