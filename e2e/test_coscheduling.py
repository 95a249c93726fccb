"""Groups by the custom resource of scheduler-plugins, on a real control plane: pods as KubeRay makes them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e import builders, paths
from e2e.builders import Object
from e2e.client import Client
from e2e.controlplane import build
from e2e.controlplane.cluster import ControlPlane
from e2e.fixtures import rooms
from e2e.groups.mid_flight import check_all_or_none
from e2e.identities import Identities, shipped_rules
from e2e.room import Room, placements
from e2e.tandem import Tandem, profile

LABEL = "scheduling.x-k8s.io/pod-group"
RAY_SCHEDULER = "scheduler-plugins-scheduler"
GROUP = "scheduling.x-k8s.io"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SPEC = {
    "type": "object",
    "properties": {
        "minMember": {"type": "integer", "format": "int32", "minimum": 1},
        "minResources": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "scheduleTimeoutSeconds": {"type": "integer", "format": "int32"},
    },
}
COUNT = {"type": "integer", "format": "int32"}
STATUS = {
    "type": "object",
    "properties": {
        "phase": {"type": "string"},
        "occupiedBy": {"type": "string"},
        "running": COUNT,
        "succeeded": COUNT,
        "failed": COUNT,
        "scheduleStartTime": {"type": "string", "format": "date-time"},
    },
}
CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": f"podgroups.{GROUP}",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"},
    },
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup", "shortNames": ["pg", "pgs"]},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": SPEC,
                            "status": STATUS,
                        },
                    }
                },
            }
        ],
    },
}
CONFIGURATION: list[dict[str, Any]] = [
    {
        **profile("tandem-scheduler"),
        "profiles": [{"schedulerName": "tandem-scheduler"}, {"schedulerName": RAY_SCHEDULER}],
    },
    {
        "apiVersion": "tandem.scheduling/v1alpha1",
        "kind": "TandemConfiguration",
        "groups": {"coscheduling": {"enabled": True}},
    },
]


@pytest.fixture(scope="module")
def controlplane() -> Iterator[ControlPlane]:
    try:
        with ControlPlane() as made:
            yield made
    except build.BuildError as missing:
        pytest.skip(f"no control plane: {missing}")


@pytest.fixture(scope="module")
def client(controlplane: ControlPlane) -> Iterator[Client]:
    with Client(controlplane.kubeconfig()) as client:
        client.post(CRDS, CRD)
        yield client


room = rooms("ray")


@pytest.fixture
def scheduler(controlplane: ControlPlane, client: Client, tmp_path: Path) -> Iterator[Tandem]:
    identities = Identities(client, controlplane.kubeconfig(), tmp_path)
    subject = Tandem(identities.kubeconfig("tandem", shipped_rules()), tmp_path, config=CONFIGURATION)
    with subject:
        yield subject
    subject.kill()


def pod_group(room: Room, name: str, **spec: Any) -> Object:
    """Created as soon as the API server serves the custom resource."""
    thing = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
    deadline = time.monotonic() + 20
    while True:
        try:
            return room.client.post(paths.collection("CoschedulingPodGroup", room.name), thing)
        except Exception as error:
            if "404" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def wait_status(room: Room, name: str, phase: str) -> Object:
    """The group's status once it is in this phase: the kubelets' nodes run what is bound to them."""
    deadline = time.monotonic() + 20
    while True:
        status: Object = room.client.get("CoschedulingPodGroup", name, room.name).get("status", {})
        if status.get("phase") == phase:
            return status
        assert time.monotonic() < deadline, status
        time.sleep(0.1)


def ray_pod(room: Room, name: str, of: str, cpu: str = "1") -> Object:
    pod = builders.pod(name, room.name, cpu=cpu, scheduler=RAY_SCHEDULER)
    pod["metadata"].setdefault("labels", {})[LABEL] = of
    return pod


@pytest.mark.usefixtures("scheduler")
def test_a_ray_cluster_starts_when_its_head_and_all_workers_fit(room: Room) -> None:
    room.add_nodes(builders.node("ray-n1", cpu="2"))
    pod_group(room, "ray", minMember=3, minResources={"cpu": "3"})
    room.add_pods(ray_pod(room, "head", "ray"), *[ray_pod(room, f"worker{n}", "ray") for n in range(2)])
    room.wait_refused("head")
    room.add_pods(builders.pod("plain", room.name, cpu="2"))
    room.wait_bound(1)
    assert set(placements(room.pods.state)) == {"plain"}
    room.add_nodes(builders.node("ray-n2", cpu="4"))
    bound = room.wait_bound(4)
    assert {bound[name] for name in ("head", "worker0", "worker1")} == {"ray-n2"}
    kept = wait_status(room, "ray", "Running")
    assert kept["running"] == 3 and kept["scheduleStartTime"]
    assert not kept.keys() & {"failed", "succeeded", "occupiedBy"}


@pytest.mark.usefixtures("scheduler")
def test_pods_that_come_before_their_group_wait_for_it(room: Room) -> None:
    room.add_nodes(builders.node("ray-n1", cpu="4"))
    room.add_pods(ray_pod(room, "head", "ray"), ray_pod(room, "worker", "ray"))
    room.add_pods(builders.pod("plain", room.name))
    room.wait_bound(1)
    assert set(placements(room.pods.state)) == {"plain"}
    pod_group(room, "ray", minMember=2)
    room.wait_bound(3)


@pytest.mark.usefixtures("scheduler")
def test_a_group_that_waits_for_longer_than_its_time_out_holds_no_room_and_is_tried_again(room: Room) -> None:
    room.add_nodes(builders.node("ray-n1", cpu="3"))
    pod_group(room, "ray", minMember=4, scheduleTimeoutSeconds=1)
    names = ("head", "worker0", "worker1", "worker2")
    room.add_pods(*[ray_pod(room, name, "ray") for name in names])
    for name in names:
        assert room.wait_refused(name)["reason"] == "Unschedulable"
    room.add_pods(builders.pod("plain", room.name, cpu="3"))
    room.wait_bound(1)
    assert room.pods.holds_for(lambda state: set(placements(state)) == {"plain"}, 2)
    room.add_nodes(builders.node("ray-n2", cpu="4"))
    bound = room.wait_bound(5)
    assert {bound[name] for name in names} == {"ray-n2"}
    assert wait_status(room, "ray", "Running")["running"] == 4


@pytest.mark.usefixtures("scheduler")
def test_pods_whose_group_is_deleted_wait_for_the_next_of_its_name(room: Room) -> None:
    room.add_nodes(builders.node("ray-n1", cpu="1"))
    pod_group(room, "ray", minMember=2)
    room.add_pods(ray_pod(room, "head", "ray"), ray_pod(room, "worker", "ray"))
    room.wait_refused("head")
    room.client.delete("CoschedulingPodGroup", "ray", room.name)
    room.add_nodes(builders.node("ray-n2", cpu="4"))
    room.add_pods(builders.pod("plain", room.name))
    room.wait_bound(1)
    assert room.pods.holds_for(lambda state: set(placements(state)) == {"plain"}, 2)
    pod_group(room, "ray", minMember=2)
    room.wait_bound(3)
    assert wait_status(room, "ray", "Running")["running"] == 2


@pytest.mark.usefixtures("scheduler")
def test_of_a_group_that_is_deleted_in_mid_flight_all_pods_start_or_none(room: Room) -> None:
    check_all_or_none(
        room,
        lambda name, quorum: pod_group(room, name, minMember=quorum),
        lambda name, of: ray_pod(room, name, of),
        lambda name: room.client.delete("CoschedulingPodGroup", name, room.name),
    )
