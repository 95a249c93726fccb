"""Promise: what the scheduler places, a real kubelet admits; and what it refuses all the same is noticed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import builders
from e2e.client import Client, State
from e2e.controlplane import build
from e2e.controlplane.cluster import ControlPlane
from e2e.fixtures import administrator
from e2e.kubelet import NUMA_SOURCES, hollow_nodes, numa_node
from e2e.peer import KubeScheduler
from e2e.room import Room, refusal
from e2e.tandem import Tandem

pytestmark = [pytest.mark.tandem_only, pytest.mark.long]

NODES = ("hollow-a", "hollow-b", "hollow-c")
CPUS = 1000
Object = builders.Object


@pytest.fixture(scope="module")
def programs() -> Path:
    return build.programs(also=("kubemark",))


@pytest.fixture(scope="module")
def controlplane(programs: Path) -> Iterator[ControlPlane]:
    with ControlPlane(kwok=False) as controlplane:
        yield controlplane


admin = administrator("module")


@pytest.fixture
def nodes(programs: Path, controlplane: ControlPlane, admin: Client, tmp_path: Path) -> Iterator[None]:
    """Three nodes that are new for each test."""
    with hollow_nodes(programs, controlplane.kubeconfig(), tmp_path, admin, *NODES):
        yield


@pytest.fixture
def kubelet_room(nodes: None, admin: Client, request: pytest.FixtureRequest) -> Iterator[Room]:
    with Room(admin, _room_name(request)) as room:
        yield room


@pytest.fixture
def numa_room(
    controlplane: ControlPlane, admin: Client, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Room]:
    """A room whose only node has two NUMA nodes."""
    program = build.program_of(NUMA_SOURCES, modules="kubernetes")
    with (
        numa_node(program, controlplane.kubeconfig(), tmp_path, admin, "numa"),
        Room(admin, _room_name(request)) as room,
    ):
        yield room


def _room_name(request: pytest.FixtureRequest) -> str:
    return re.sub(r"\W|_", "-", request.node.name)[5:50].strip("-")


@pytest.fixture
def tandem(controlplane: ControlPlane, tmp_path: Path) -> Iterator[Tandem]:
    folder = tmp_path / "tandem"
    folder.mkdir()
    with Tandem(controlplane.kubeconfig(), folder) as tandem:
        yield tandem


def test_every_pod_that_is_placed_is_admitted_up_to_the_last_room(kubelet_room: Room, tandem: Tandem) -> None:
    room = kubelet_room
    room.add_pods(*(builders.pod(f"p{number:02}", room.name, cpu="100m") for number in range(35)))
    room.wait_running(30, 120)
    assert _failed(room.pods.state) == {}
    assert set(_used(room.pods.state).values()) == {CPUS}
    waiting = [key for key, pod in room.pods.state.items() if not pod["spec"].get("nodeName")]
    assert len(waiting) == 5


def test_host_ports_are_never_given_twice_on_a_node(kubelet_room: Room, tandem: Tandem) -> None:
    room = kubelet_room
    for number in range(4):
        pod = builders.pod(f"p{number}", room.name, cpu="10m")
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        room.add_pods(pod)
    placed = room.wait_running(3, 60)
    assert sorted(placed.values()) == sorted(NODES)
    (left,) = {f"p{number}" for number in range(4)} - placed.keys()
    assert "didn't have free ports" in room.wait_refused(left)["message"]
    assert _failed(room.pods.state) == {}


def test_room_that_is_made_is_room_for_the_kubelet_too(kubelet_room: Room, tandem: Tandem, admin: Client) -> None:
    room = kubelet_room
    room.add_cluster_object(builders.priority_class(f"{room.name}-high", 1000))
    room.add_pods(*(builders.pod(f"low{number}", room.name, cpu="900m") for number in range(3)))
    room.wait_running(3, 60)
    room.add_pods(builders.pod("urgent", room.name, cpu="900m", priorityClassName=f"{room.name}-high"))
    room.pods.wait_until(
        lambda state: state.get(f"{room.name}/urgent", {}).get("status", {}).get("phase") == "Running",
        90,
        "urgent runs",
    )
    assert "urgent" not in _failed(room.pods.state)


def test_two_schedulers_that_fill_the_same_nodes_lose_no_room(
    kubelet_room: Room, tandem: Tandem, controlplane: ControlPlane, programs: Path, tmp_path: Path
) -> None:
    """More pods than there is room for, of both at once: no node runs more than it has; a pod that a kubelet refused,
    since the other scheduler was first, is counted if it was ours; and in the end the room is full."""
    room = kubelet_room
    folder = tmp_path / "peer"
    folder.mkdir()
    with KubeScheduler(controlplane.kubeconfig(), folder, programs=programs):
        ours = [builders.pod(f"ours{number:02}", room.name, cpu="100m") for number in range(25)]
        theirs = [
            builders.pod(f"theirs{number:02}", room.name, cpu="100m", schedulerName="default-scheduler")
            for number in range(25)
        ]
        both = [pod for pair in zip(ours, theirs, strict=True) for pod in pair]
        room.add_pods(*both)
        room.pods.wait_until(lambda state: sum(_used(state).values()) == CPUS * len(NODES), 120, "full nodes")
        refused = _failed(room.pods.state)
        assert all(reason == "OutOfcpu" for reason in refused.values())
        assert all(used <= CPUS for used in _used(room.pods.state).values())
        of_ours = sum(name.startswith("ours") for name in refused)
        counted = re.findall(
            r'^tandem_kubelet_refusals_total{reason="OutOfcpu"} (\d+)', tandem.get("/metrics")[1], re.M
        )
        assert sum(map(int, counted)) == of_ours


def test_a_pod_that_a_node_refuses_for_its_topology_keeps_its_workload_away_and_no_other(
    numa_room: Room, tandem: Tandem, admin: Client
) -> None:
    """The node has seven free CPUs, but none of its NUMA nodes has five: a scheduler, which counts CPUs, places such a
    pod, and the kubelet refuses it. The next pod of its ReplicaSet waits; a pod of another workload runs there."""
    room = numa_room
    admin.create(_guaranteed("wide", room.name, cpu=5))
    said = room.pods.wait_until(
        lambda state: [condition["message"] for pod in state.values() if (condition := refusal(pod))],
        60,
        "a refusal, and the ReplicaSet's next pod",
    )
    assert said[0].startswith("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.")
    assert list(_failed(room.pods.state).values()) == ["TopologyAffinityError"]
    assert 'tandem_kubelet_refusals_total{reason="TopologyAffinityError"} 1.0' in tandem.get("/metrics")[1]
    admin.create(_guaranteed("narrow", room.name, cpu=3))
    room.wait_running(1, 60)
    (running,) = [key for key, pod in room.pods.state.items() if pod["status"].get("phase") == "Running"]
    assert running.startswith(f"{room.name}/narrow-")
    assert len(_failed(room.pods.state)) == 1


def _guaranteed(name: str, namespace: str, cpu: int) -> Object:
    """A ReplicaSet of one pod that gets whole CPUs."""
    document = builders.deployment(name, namespace, 1, cpu=str(cpu))
    (container,) = document["spec"]["template"]["spec"]["containers"]
    container["resources"]["limits"] = container["resources"]["requests"]
    return {**document, "kind": "ReplicaSet"}


def _failed(state: State) -> dict[str, str]:
    """Pod name -> the reason why its kubelet refused it."""
    return {
        pod["metadata"]["name"]: pod["status"].get("reason", "")
        for pod in state.values()
        if pod["status"].get("phase") == "Failed"
    }


def _used(state: State) -> dict[str, int]:
    """Node -> milli-CPUs of the pods that run there."""
    used: defaultdict[str, int] = defaultdict(int)
    for pod in state.values():
        if pod["status"].get("phase") == "Running":
            (container,) = pod["spec"]["containers"]
            used[pod["spec"]["nodeName"]] += int(container["resources"]["requests"]["cpu"].removesuffix("m"))
    return dict(used)
