"""Scenes with devices, decided by kube-scheduler 1.36 and by Tandem, each on a cluster of its own.

Which node a pod gets, which devices its claims get, what is written into them and what is said of pods that wait must
be the same after each phase.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from e2e.builders import SCHEDULER
from e2e.client import Client
from e2e.controlplane import build
from e2e.controlplane.cluster import ControlPlane
from e2e.devices.claim_scenes import CLAIM_SCENES
from e2e.devices.extended_scenes import EXTENDED_SCENES
from e2e.devices.looks import look_at
from e2e.devices.scene import Scene
from e2e.groups.looks import Settling
from e2e.identities import REFERENCE_RULES, Identities, Rule, shipped_rules
from e2e.peer import KubeScheduler
from e2e.room import Room
from e2e.subject import Scheduler
from e2e.tandem import Tandem, profile

pytestmark = [pytest.mark.tandem_only, pytest.mark.long]

SCENES = {**CLAIM_SCENES, **EXTENDED_SCENES}
SETTLING = Settling(quiet_seconds=2.0, max_seconds=20)
FIELDS: dict[str, Any] = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}
OWN_CLAIMS: Rule = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["create", "delete"]}
BINDINGS: Rule = {
    "apiGroups": ["resource.k8s.io"],
    "resources": ["resourceclaims/binding"],
    "verbs": ["patch", "update"],
}


class Side:
    """A control plane with one scheduler."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def play(self, scene: Scene) -> list[frozenset[str]]:
        """What there was to see after each phase."""
        seen = []
        client = self.client
        with Room(client, scene.place) as room, client.watch("ResourceClaim", scene.place) as claims:
            client.patch("Namespace", scene.place, None, {"metadata": {"labels": scene.labels}})
            room.add_nodes(*scene.nodes)
            for phase in scene.phases:
                for thing in phase.create:
                    (client.create if "namespace" in thing["metadata"] else room.add_cluster_object)(thing)
                for kind, name, change, subresource in phase.change:
                    client.patch(kind, name, _home(kind, scene), change, subresource)
                for kind, name in phase.delete:
                    client.delete(kind, name, _home(kind, scene))
                quiet = SETTLING if phase.seconds is None else Settling(phase.seconds, phase.seconds + 15)
                seen.append(quiet.wait(lambda: look_at(room, claims.state)))
        return seen


def _home(kind: str, scene: Scene) -> str | None:
    return scene.place if kind in ("Pod", "ResourceClaim") else None


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    with ExitStack() as stack:
        made = {}
        for kind in ("kube-scheduler", "tandem"):
            try:
                controlplane = stack.enter_context(ControlPlane())
            except build.BuildError as missing:
                pytest.skip(f"no control plane: {missing}")
            client = stack.enter_context(Client(controlplane.kubeconfig()))
            folder = tmp_path_factory.mktemp(kind)
            identities = Identities(client, controlplane.kubeconfig(), folder)
            scheduler: Scheduler
            if kind == "tandem":
                kubeconfig = identities.kubeconfig(kind, shipped_rules())
                scheduler = Tandem(kubeconfig, folder, config={**profile(SCHEDULER), **FIELDS})
            else:
                kubeconfig = identities.kubeconfig(kind, (*REFERENCE_RULES, OWN_CLAIMS, BINDINGS))
                scheduler = KubeScheduler(kubeconfig, folder, SCHEDULER, programs=controlplane.programs, **FIELDS)
            stack.callback(scheduler.kill)
            stack.enter_context(scheduler)
            made[kind] = Side(client)
        yield made


@pytest.mark.parametrize("name", SCENES)
def test_pods_with_claims_fare_as_with_kube_scheduler(sides: dict[str, Side], name: str) -> None:
    scene = SCENES[name](name)
    with ThreadPoolExecutor(2) as pool:
        played = {kind: pool.submit(side.play, scene) for kind, side in sides.items()}
        ours, theirs = played["tandem"].result(), played["kube-scheduler"].result()
    for number, (our, their) in enumerate(zip(ours, theirs, strict=True), start=1):
        assert our == their, _shown(number, our, their)


def _shown(phase: int, ours: frozenset[str], theirs: frozenset[str]) -> str:
    lines = [f"after phase {phase}:"]
    lines += [f"  kube-scheduler: {text}" for text in sorted(theirs - ours)]
    lines += [f"  tandem:         {text}" for text in sorted(ours - theirs)]
    return "\n".join(lines)
