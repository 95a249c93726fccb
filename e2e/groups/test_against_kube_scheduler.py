"""Random scenes with groups, decided by kube-scheduler 1.36 and by Tandem, each on a cluster of its own.

What became of the pods, what was said of pods and groups, and who was removed must be the same after each phase. Where
kube-scheduler decides by chance, a scene is given to it again: what it made of it then is allowed, too.

`E2E_GROUP_SCENES` is how many scenes of each kind are played, `E2E_GROUP_SEED` the first.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from e2e import builders
from e2e.client import Client
from e2e.controlplane.cluster import ControlPlane
from e2e.groups.control import serving_groups, subject_with
from e2e.groups.looks import Look, Settling, difference, look_at
from e2e.groups.scenes import GATES, Scene, classes, scene_of
from e2e.room import Room

pytestmark = pytest.mark.tandem_only

SEED = int(os.environ.get("E2E_GROUP_SEED", "1"))
SCENES = int(os.environ.get("E2E_GROUP_SCENES", "40"))
SETTLING = Settling(quiet_seconds=float(os.environ.get("E2E_GROUP_QUIET_SECONDS", "3.5")), max_seconds=25)
REPEATS = 4
"""How often kube-scheduler gets a scene of which Tandem made something else."""
BACKOFF = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}


class Side:
    """A control plane with one scheduler."""

    def __init__(self, controlplane: ControlPlane, client: Client) -> None:
        self.controlplane = controlplane
        self.client = client
        self._rooms = itertools.count(1)

    def play(self, scene: Scene) -> list[Look]:
        """What there was to see after each phase."""
        looks: list[Look] = []
        with Room(self.client, scene.place) as room, self.client.watch("PodGroup", scene.place) as groups:
            room.add_nodes(*scene.nodes)
            pods: list[builders.Object] = []
            for phase in scene.phases:
                for thing in phase.create:
                    if thing["kind"] == "Node":
                        room.add_nodes(thing)
                    else:
                        self.client.create(thing)
                    if thing["kind"] == "Pod":
                        pods.append(thing)
                for name in phase.delete:
                    self.client.delete("Pod", name, scene.place)
                looks.append(SETTLING.wait(lambda: look_at(room, groups, scene, pods)))
        return looks


@pytest.fixture(scope="module")
def sides() -> Iterator[dict[str, Side]]:
    with ExitStack() as stack:
        made = {}
        for kind in ("kube-scheduler", "tandem"):
            controlplane = stack.enter_context(serving_groups())
            client = stack.enter_context(Client(controlplane.kubeconfig()))
            client.create_all(classes())
            made[kind] = Side(controlplane, client)
        yield made


@pytest.fixture(scope="module")
def playing(
    request: pytest.FixtureRequest, sides: dict[str, Side], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A scheduler on each side, with the gates of this kind of scenes."""
    kind: str = request.param
    with ExitStack() as stack:
        for name, side in sides.items():
            options: dict[str, Any] = {"kind": name, **BACKOFF}
            place = tmp_path_factory.mktemp(name)
            stack.enter_context(subject_with(GATES[kind], side.controlplane, side.client, place, **options))
        yield kind


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEED, SEED + SCENES))
@pytest.mark.parametrize("playing", GATES, indirect=True)
def test_groups_fare_as_with_kube_scheduler(sides: dict[str, Side], playing: str, seed: int) -> None:
    scene = scene_of(seed, playing)
    with ThreadPoolExecutor(2) as pool:
        played = {name: pool.submit(side.play, scene) for name, side in sides.items()}
        ours, theirs = played["tandem"].result(), [played["kube-scheduler"].result()]
    while ours not in theirs and len(theirs) <= REPEATS:
        theirs.append(sides["kube-scheduler"].play(scene_of(seed, playing, len(theirs))))
    assert ours in theirs, _shown(scene, seed, theirs, ours)


def _shown(scene: Scene, seed: int, theirs: list[list[Look]], ours: list[Look]) -> str:
    lines = [f"scene {seed} of {scene.kind!r}, {len({tuple(one) for one in theirs})} different by kube-scheduler:"]
    for number, (their, our) in enumerate(zip(theirs[0], ours, strict=True), start=1):
        if their != our:
            lines += [f" after phase {number}:", difference(their, our)]
    return "\n".join(lines)
