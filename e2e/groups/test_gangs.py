"""Groups of pods on a control plane with the alpha API: `E2E_SUBJECT=kube-scheduler` shows that a promise is fair."""

from __future__ import annotations

import pytest

from e2e import builders
from e2e.groups.objects import group, member, wait_condition
from e2e.room import Room, placements

GATES = ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling")
ZONE = "topology.kubernetes.io/zone"


@pytest.mark.usefixtures("scheduler")
def test_a_gang_waits_for_its_pods_and_starts_at_once(room: Room) -> None:
    room.add_nodes(builders.node("gang-n1", cpu="4"))
    room.client.create(group(room, "g", 3))
    room.add_pods(member(room, "a", "g"), member(room, "b", "g"))
    room.add_pods(builders.pod("plain", room.name))
    room.wait_bound(1)
    assert set(placements(room.pods.state)) == {"plain"}
    room.add_pods(member(room, "c", "g"))
    assert set(room.wait_bound(4)) == {"a", "b", "c", "plain"}
    wait_condition(room, "True", "Scheduled")


@pytest.mark.usefixtures("scheduler")
def test_pods_that_come_before_their_group_wait_for_it(room: Room) -> None:
    room.add_nodes(builders.node("gang-n1", cpu="4"))
    room.add_pods(member(room, "a", "g"), member(room, "b", "g"))
    room.add_pods(builders.pod("plain", room.name))
    room.wait_bound(1)
    assert set(placements(room.pods.state)) == {"plain"}
    room.client.create(group(room, "g", 2))
    room.wait_bound(3)


@pytest.mark.usefixtures("scheduler")
def test_a_gang_that_does_not_fit_waits_for_room_and_holds_none(room: Room) -> None:
    room.add_nodes(builders.node("gang-n1", cpu="2"))
    room.client.create(group(room, "g", 3))
    room.add_pods(*[member(room, name, "g") for name in "abc"])
    wait_condition(room, "False", "Unschedulable", _unplaced("pod group is unschedulable"))
    for name in "abc":
        assert room.wait_refused(name)["reason"] == "Unschedulable"
    room.add_pods(builders.pod("plain", room.name, cpu="2"))
    room.wait_bound(1)
    room.add_nodes(builders.node("gang-n2", cpu="4"))
    assert set(room.wait_bound(4).values()) == {"gang-n1", "gang-n2"}
    wait_condition(room, "True", "Scheduled")


def _unplaced(message: str, placements: int = 1) -> str:
    """With TopologyAwareWorkloadScheduling all nodes are one placement."""
    return f"0/{placements} placements are available, first placement status: {message}"


@pytest.mark.usefixtures("scheduler")
def test_a_gang_gets_its_nodes_in_one_zone(room: Room) -> None:
    for zone, cpu in (("a", "1"), ("b", "2")):
        room.add_nodes(*[builders.node(f"gang-{zone}{n}", cpu=cpu, labels={ZONE: zone}) for n in range(2)])
    constraints = {"topology": [{"key": ZONE}]}
    room.client.create(group(room, "g", 3, schedulingConstraints=constraints))
    room.add_pods(*[member(room, name, "g") for name in "abc"])
    assert {node[:6] for node in room.wait_bound(3).values()} == {"gang-b"}
    room.add_pods(member(room, "late", "g"))
    assert room.wait_bound(4)["late"].startswith("gang-b")


@pytest.mark.usefixtures("scheduler")
def test_a_gang_that_fits_no_zone_says_so(room: Room) -> None:
    for zone in "ab":
        room.add_nodes(*[builders.node(f"gang-{zone}{n}", cpu="1", labels={ZONE: zone}) for n in range(2)])
    constraints = {"topology": [{"key": ZONE}]}
    room.client.create(group(room, "g", 3, schedulingConstraints=constraints))
    room.add_pods(*[member(room, name, "g") for name in "abc"])
    wait_condition(room, "False", "Unschedulable", _unplaced("pod group is unschedulable", 2))
    refusals = sorted(str(room.wait_refused(name)["message"]) for name in "abc")
    assert refusals[0].startswith("0/2 nodes are available: 2 Insufficient cpu. ")
    assert refusals[0].endswith("preemption: not eligible due to placement-based pod group scheduling limitation")


@pytest.mark.usefixtures("scheduler")
def test_two_gangs_never_hold_half_each(room: Room) -> None:
    room.add_nodes(*[builders.node(f"gang-n{n}", cpu="1") for n in range(4)])
    for name in "xy":
        room.client.create(group(room, name, 4))
    room.add_pods(*[member(room, f"{name}{n}", name) for n in range(4) for name in "xy"])
    started = {name[0] for name in room.wait_bound(4)}
    assert len(started) == 1
    for name in [name for name in placements(room.pods.state) if name[0] in started]:
        room.client.delete("Pod", name, room.name)
    room.pods.wait_until(lambda state: {name[0] for name in placements(state)} == {"x", "y"} - started, 30, "the other")


@pytest.mark.usefixtures("scheduler")
def test_a_gang_makes_room_for_all_of_itself(room: Room) -> None:
    room.add_cluster_object(builders.priority_class(f"{room.name}-high", 1000))
    room.add_nodes(builders.node("gang-n1", cpu="2"))
    room.add_pods(*[builders.pod(f"low{n}", room.name, cpu="1") for n in range(2)])
    room.wait_bound(2)
    room.client.create(group(room, "g", 2))
    room.add_pods(*[member(room, name, "g", priorityClassName=f"{room.name}-high") for name in "ab"])
    room.pods.wait_until(lambda state: {"a", "b"} <= set(placements(state)), 60, "the gang on its node")
