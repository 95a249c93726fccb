"""Random scenes with groups, decided by kube-scheduler 1.36 and by Tandem, each on a cluster of its own.

What became of the pods, what was said of pods and groups, and who was removed must be the same after each phase. Where
kube-scheduler decides by chance or by speed, a scene is given to it again: what it made of it then is allowed, too.

`E2E_GROUP_SCENES` is how many scenes of each kind are played, `E2E_GROUP_SEED` the first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from typing import Any

import pytest

from e2e import builders
from e2e.client import Client
from e2e.controlplane.cluster import ControlPlane
from e2e.groups.control import serving_groups, subject_with
from e2e.groups.looks import Look, Settling, difference, look_at
from e2e.groups.scenes import GATES, Phase, Scene, classes, scene_of
from e2e.room import Room
from e2e.subject import Scheduler

pytestmark = pytest.mark.tandem_only

SEED = int(os.environ.get("E2E_GROUP_SEED", "1"))
SCENES = int(os.environ.get("E2E_GROUP_SCENES", "40"))
SETTLING = Settling(quiet_seconds=float(os.environ.get("E2E_GROUP_QUIET_SECONDS", "3.5")), max_seconds=25)
REPEATS = 4
"""How often kube-scheduler gets a scene of which Tandem made something else. Every second time it stands still while a
phase is created, as on a busy machine: of groups that come one by one it starts the first before it knows the next, of
those that come at once the one whose pods have waited longest."""
BACKOFF = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}


class Side:
    """A control plane with one scheduler."""

    scheduler: Scheduler

    def __init__(self, controlplane: ControlPlane, client: Client) -> None:
        self.controlplane = controlplane
        self.client = client

    def play(self, scene: Scene, *, at_once: bool = False) -> list[Look]:
        """What there was to see after each phase. ``at_once``: the scheduler sees a phase when all of it is there."""
        looks: list[Look] = []
        with Room(self.client, scene.place) as room, self.client.watch("PodGroup", scene.place) as groups:
            room.add_nodes(*scene.nodes)
            pods: list[builders.Object] = []
            for phase in scene.phases:
                with self.scheduler.process.paused() if at_once else nullcontext():
                    self._begin(phase, room)
                pods.extend(thing for thing in phase.create if thing["kind"] == "Pod")
                looks.append(SETTLING.wait(lambda: look_at(room, groups, scene, pods)))
        return looks

    def _begin(self, phase: Phase, room: Room) -> None:
        for thing in phase.create:
            if thing["kind"] == "Node":
                room.add_nodes(thing)
            else:
                self.client.create(thing)
        for name in phase.delete:
            self.client.delete("Pod", name, room.name)


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
            subject = subject_with(GATES[kind], side.controlplane, side.client, place, **options)
            side.scheduler = stack.enter_context(subject)
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
        again = scene_of(seed, playing, len(theirs))
        theirs.append(sides["kube-scheduler"].play(again, at_once=len(theirs) % 2 == 1))
    assert ours in theirs, _shown(scene, seed, theirs, ours)


def _shown(scene: Scene, seed: int, theirs: list[list[Look]], ours: list[Look]) -> str:
    lines = [f"scene {seed} of {scene.kind!r}, {len({tuple(one) for one in theirs})} different by kube-scheduler:"]
    for number, (their, our) in enumerate(zip(theirs[0], ours, strict=True), start=1):
        if their != our:
            lines += [f" after phase {number}:", difference(their, our)]
    return "\n".join(lines)
