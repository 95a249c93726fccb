"""Promise: the image and the manifests, as they are shipped, make a scheduler that works, takes over and is renewed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e import builders, kind
from e2e.client import Client
from e2e.provider import Cluster
from e2e.room import Room, nodes_of_each_pod

pytestmark = pytest.mark.tandem_only

OVERLAY = Path(__file__).parent.parent / "manifests" / "overlays" / "kind"
HOME, NAME = "tandem-system", "tandem-scheduler"

Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def kubectl(cluster: Cluster) -> Iterator[Kubectl]:
    """kubectl as the admin of a cluster on which the kind overlay is installed and ready."""
    if cluster.provider != "kind":
        pytest.skip(f"an image needs a node to run on, and so kind: {kind.missing() or 'E2E_CLUSTER names another'}")

    def call(*arguments: str) -> str:
        command = [str(cluster.programs / "kubectl"), f"--kubeconfig={cluster.kubeconfig}", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout

    call("apply", "-k", str(OVERLAY))
    _wait_until_ready(call)
    yield call
    call("delete", "-k", str(OVERLAY), "--wait=true")


def test_the_image_runs_as_any_user_on_a_file_system_that_is_read_only(kubectl: Kubectl) -> None:
    assert "decides as kube-scheduler" in kind.run_image("--version")


def test_the_installed_scheduler_places_pods_and_does_not_restart(room: Room, kubectl: Kubectl, client: Client) -> None:
    room.add_nodes(builders.node("a"), builders.node("b"))
    room.add_pods(*(builders.pod(f"p{number}", room.name) for number in range(10)))
    room.wait_bound(10, 60)
    statuses = [status for pod in client.list("Pod", HOME) for status in pod["status"]["containerStatuses"]]
    assert [status["restartCount"] for status in statuses] == [0, 0]


def test_when_the_working_copy_is_killed_another_takes_over(room: Room, kubectl: Kubectl, client: Client) -> None:
    leader = _leader(client)
    kubectl("delete", "pod", leader, f"--namespace={HOME}", "--force", "--grace-period=0")
    room.add_nodes(builders.node("a"))
    room.add_pods(builders.pod("after", room.name))
    room.wait_bound(1, 60)
    assert _leader(client) != leader
    _wait_until_ready(kubectl)


def test_while_it_is_renewed_no_pod_is_lost_or_bound_twice(room: Room, kubectl: Kubectl) -> None:
    room.add_nodes(*(builders.node(f"n{number}") for number in range(5)))
    creation = room.add_pods_meanwhile(*(builders.pod(f"p{number}", room.name) for number in range(200)))
    kubectl("rollout", "restart", f"deployment/{NAME}", f"--namespace={HOME}")
    creation.result(60)
    room.wait_bound(200, 120)
    _wait_until_ready(kubectl)
    assert all(len(nodes) == 1 for nodes in nodes_of_each_pod(room.pods.history).values())


def _wait_until_ready(kubectl: Kubectl) -> None:
    kubectl("rollout", "status", f"deployment/{NAME}", f"--namespace={HOME}", "--timeout=240s")


def _leader(client: Client) -> str:
    """The name of the pod that holds the Lease."""
    holder: str = client.get("Lease", NAME, HOME)["spec"]["holderIdentity"]
    return holder.rpartition("_")[0]
