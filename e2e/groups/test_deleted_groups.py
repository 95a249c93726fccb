"""A PodGroup that is deleted while its pods wait or are placed: `E2E_SUBJECT=kube-scheduler` shows what is fair."""

from __future__ import annotations

import pytest

from e2e import builders
from e2e.groups.mid_flight import check_all_or_none
from e2e.groups.objects import group, member, wait_condition
from e2e.room import Room, placements

GATES = ("GenericWorkload", "GangScheduling")


def remove(room: Room, name: str) -> None:
    """The group is gone at once, although pods name it: the finalizer that protects it is taken off."""
    room.client.delete("PodGroup", name, room.name)
    room.client.patch("PodGroup", name, room.name, {"metadata": {"finalizers": None}})


@pytest.mark.usefixtures("scheduler")
def test_a_group_that_is_being_deleted_starts_when_there_is_room(room: Room) -> None:
    room.add_nodes(builders.node("gone-n1", cpu="2"))
    room.client.create(group(room, "g", 3))
    room.add_pods(*[member(room, name, "g") for name in "abc"])
    wait_condition(room, "False", "Unschedulable", "pod group is unschedulable")
    room.client.delete("PodGroup", "g", room.name)
    assert room.client.get("PodGroup", "g", room.name)["metadata"]["deletionTimestamp"]
    room.add_nodes(builders.node("gone-n2", cpu="4"))
    assert set(room.wait_bound(3)) == {"a", "b", "c"}
    wait_condition(room, "True", "Scheduled")


@pytest.mark.usefixtures("scheduler")
def test_pods_whose_group_is_gone_wait_for_the_next_of_its_name(room: Room) -> None:
    room.add_nodes(builders.node("gone-n1", cpu="2"))
    room.client.create(group(room, "g", 3))
    room.add_pods(*[member(room, name, "g") for name in "abc"])
    for name in "abc":
        room.wait_refused(name)
    remove(room, "g")
    # A pod of no group shows that the scheduler goes on, and that the group holds no room.
    room.add_pods(builders.pod("plain", room.name, cpu="2"))
    room.wait_bound(1)
    room.add_nodes(builders.node("gone-n2", cpu="4"))
    room.add_pods(builders.pod("later", room.name))
    room.wait_bound(2)
    assert room.pods.holds_for(lambda state: set(placements(state)) == {"plain", "later"}, 3)
    room.client.create(group(room, "g", 2))
    assert set(room.wait_bound(5)) == {"a", "b", "c", "plain", "later"}
    wait_condition(room, "True", "Scheduled")


@pytest.mark.usefixtures("scheduler")
def test_of_a_group_that_goes_in_mid_flight_all_pods_start_or_none(room: Room) -> None:
    check_all_or_none(
        room,
        lambda name, quorum: room.client.create(group(room, name, quorum)),
        lambda name, of: member(room, name, of),
        lambda name: remove(room, name),
    )
