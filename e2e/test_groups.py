"""Groups of pods on a control plane with the alpha API: `E2E_SUBJECT=kube-scheduler` shows that a promise is fair."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e import builders
from e2e.builders import SCHEDULER, Object
from e2e.client import Client
from e2e.conftest import SUBJECT
from e2e.controlplane import build
from e2e.controlplane.cluster import ControlPlane
from e2e.identities import REFERENCE_RULES, Identities, shipped_rules
from e2e.peer import KubeScheduler
from e2e.room import Room, placements
from e2e.subject import Scheduler
from e2e.tandem import Tandem

GATES = ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling")
OPTION = f"--feature-gates={','.join(f'{name}=true' for name in GATES)}"
API = "scheduling.k8s.io/v1alpha2"
ZONE = "topology.kubernetes.io/zone"
_GROUP_RULES = (
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups/status"], "verbs": ["patch", "update"]},
)
_rooms = itertools.count(1)


@pytest.fixture(scope="module")
def controlplane() -> Iterator[ControlPlane]:
    try:
        with ControlPlane(features=GATES, apis=[API], controllers=_controllers()) as made:
            yield made
    except build.BuildError as missing:
        pytest.skip(f"no control plane: {missing}")


def _controllers() -> tuple[str, ...]:
    from e2e.controlplane.cluster import CONTROLLERS

    return (*CONTROLLERS, "podgroup-protection-controller")


@pytest.fixture(scope="module")
def client(controlplane: ControlPlane) -> Iterator[Client]:
    with Client(controlplane.kubeconfig()) as client:
        yield client


@pytest.fixture
def room(client: Client) -> Iterator[Room]:
    with Room(client, f"gangs-{next(_rooms)}") as room:
        yield room


@pytest.fixture
def scheduler(controlplane: ControlPlane, client: Client, tmp_path: Path) -> Iterator[Scheduler]:
    identities = Identities(client, controlplane.kubeconfig(), tmp_path)
    subject: Scheduler
    if SUBJECT == "kube-scheduler":
        kubeconfig = identities.kubeconfig("peer", (*REFERENCE_RULES, *_GROUP_RULES))
        subject = KubeScheduler(kubeconfig, tmp_path, SCHEDULER, programs=controlplane.programs, options=[OPTION])
    else:
        subject = Tandem(identities.kubeconfig("tandem", shipped_rules()), tmp_path, options=[OPTION])
    with subject:
        yield subject
    subject.kill()


def group(room: Room, name: str, min_count: int, **spec: Any) -> Object:
    return {
        "kind": "PodGroup",
        "apiVersion": API,
        "metadata": {"name": name, "namespace": room.name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, **spec},
    }


def member(room: Room, name: str, of: str, cpu: str = "1", **spec: Any) -> Object:
    return builders.pod(name, room.name, cpu=cpu, schedulingGroup={"podGroupName": of}, **spec)


def wait_condition(room: Room, status: str, reason: str, message: str = "", seconds: float = 20.0) -> None:
    """Until the one group of the room says this of itself."""

    def is_said(state: dict[str, Object]) -> bool:
        conditions = [one for thing in state.values() for one in thing.get("status", {}).get("conditions", ())]
        said = [(one["status"], one["reason"], one.get("message", "")) for one in conditions]
        return said == [(status, reason, message)]

    with room.client.watch("PodGroup", room.name) as watch:
        watch.wait_until(is_said, seconds, f"PodGroupScheduled={status} {reason} {message!r}")


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
