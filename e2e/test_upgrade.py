"""Promise: the present manifests are applied over the first edition's; the scheduler goes on where the old one was."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from e2e import builders
from e2e.client import Client
from e2e.controlplane.cluster import ControlPlane
from e2e.fixtures import administrator
from e2e.identities import service_account_kubeconfig
from e2e.peer import KubeScheduler
from e2e.room import Room, nodes_of_each_pod
from e2e.tandem import Tandem

pytestmark = pytest.mark.tandem_only

ROOT = Path(__file__).parent.parent
FIRST_EDITION = Path(__file__).parent / "data" / "first-edition.yaml"
HOME, NAME = "tandem-system", "tandem-scheduler"


@pytest.fixture(scope="module")
def controlplane() -> Iterator[ControlPlane]:
    """One of its own: the shipped names are cluster-wide."""
    with ControlPlane() as controlplane:
        yield controlplane


admin = administrator("module")


@pytest.fixture
def as_deployed(controlplane: ControlPlane, admin: Client, tmp_path: Path) -> Callable[[str], Tandem]:
    """Makes a copy of the scheduler with the configuration and the rights that the cluster has for it just then."""

    def make(identity: str) -> Tandem:
        folder = tmp_path / identity
        folder.mkdir()
        config = folder / "scheduler.yaml"
        config.write_text(admin.get("ConfigMap", NAME, HOME)["data"]["scheduler.yaml"])
        kubeconfig = service_account_kubeconfig(admin, controlplane.kubeconfig(), NAME, HOME, folder)
        tandem = Tandem(
            kubeconfig, folder, options=(f"--config={config}", "--leader-elect=true", "--serving-http=false")
        )
        tandem.scheme = "https"
        return tandem

    return make


def test_the_present_manifests_take_the_place_of_the_first_editions_while_pods_are_placed(
    controlplane: ControlPlane, admin: Client, as_deployed: Callable[[str], Tandem], tmp_path: Path
) -> None:
    """A copy of the present version that comes before its roles says which rights it lacks, and goes on when they come.

    kube-scheduler places the Deployment's pods, pretended to run; the copies of the scheduler itself run here.
    """
    controlplane.kubectl("apply", "-f", str(FIRST_EDITION))
    before = admin.get("Deployment", NAME, HOME)
    peer_folder = tmp_path / "peer"
    peer_folder.mkdir()
    peer = KubeScheduler(controlplane.kubeconfig(), peer_folder, programs=controlplane.programs)
    with peer, Room(admin, "upgrade") as room:
        room.add_nodes(builders.node("a"), builders.node("b"))
        controlplane.kubectl("-n", HOME, "rollout", "status", f"deployment/{NAME}", "--timeout=50s")
        early = as_deployed("with-old-settings-and-rights").start()
        early.process.wait_until(lambda: "Missing rights; what they are for will not work" in early.log(), 30)
        granted = "the first edition granted nothing about devices"
        assert '"list resourceclaims.resource.k8s.io"' in early.log(), granted
        assert '"event":"missing right: list resource' in early.log(), granted
        room.add_pods(builders.pod("early", room.name))
        controlplane.kubectl("apply", "-k", str(ROOT / "manifests" / "base"))
        controlplane.kubectl("-n", HOME, "rollout", "status", f"deployment/{NAME}", "--timeout=50s")
        early.wait_ready(90)
        room.wait_bound(1)
        with as_deployed("with-present-settings"):
            room.add_pods(builders.pod("meanwhile", room.name))
            room.wait_bound(2)
            early.stop()
            room.add_pods(builders.pod("after", room.name))
            room.wait_bound(3, 60)
        assert all(len(nodes) == 1 for nodes in nodes_of_each_pod(room.pods.history).values())
    after = admin.get("Deployment", NAME, HOME)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["selector"] == before["spec"]["selector"]
    assert admin.get("Role", "tandem-user", HOME), "what is new is there"


def test_the_first_editions_settings_are_accepted(tmp_path: Path) -> None:
    (config,) = (
        thing["data"]["scheduler.yaml"]
        for thing in yaml.safe_load_all(FIRST_EDITION.read_text())
        if thing["kind"] == "ConfigMap"
    )
    file = tmp_path / "scheduler.yaml"
    file.write_text(config)
    command = [sys.executable, "-m", "scheduler", "check-config", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
