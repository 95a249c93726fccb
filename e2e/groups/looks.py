"""What two schedulers made of one scene, in a form in which equal decisions are equal.

Members of a group that ask for the same are exchangeable: kube-scheduler tries them in random order. So they are
counted by what became of them, and their names do not matter.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import TypeVar

from e2e.builders import Object
from e2e.client import State, Watch
from e2e.groups.scenes import ZONE, Scene
from e2e.room import Room, refusal

Look = frozenset[tuple[str, int]]
"""Sentences, with how often each is true."""

Seen = TypeVar("Seen")


class Settling:
    """Waits until what is seen has not changed for ``quiet_seconds``, at most ``max_seconds``."""

    def __init__(self, quiet_seconds: float, max_seconds: float) -> None:
        self._quiet_seconds = quiet_seconds
        self._max_seconds = max_seconds

    def wait(self, look: Callable[[], Seen]) -> Seen:
        begun = since = time.monotonic()
        seen = look()
        while time.monotonic() - since < self._quiet_seconds and time.monotonic() - begun < self._max_seconds:
            time.sleep(0.1)
            now = look()
            if now != seen:
                seen, since = now, time.monotonic()
        return seen


def look_at(room: Room, groups: Watch, scene: Scene, created: list[Object]) -> Look:
    """``created``: all pods of the scene so far."""
    zone_of = {
        node["metadata"]["name"]: node["metadata"]["labels"].get(ZONE, "no zone")
        for node in [*scene.nodes, *[one for phase in scene.phases for one in phase.create if one["kind"] == "Node"]]
    }
    constrained = {
        group["metadata"]["name"] for group in groups.state.values() if group["spec"].get("schedulingConstraints")
    }
    said = Counter(f"{_about(pod)}: {_fate(room.pods.state, pod, constrained)}" for pod in created)
    for group in groups.state.values():
        for one in group.get("status", {}).get("conditions", ()):
            name = group["metadata"]["name"]
            said[f"group {name}: {one['type']}={one['status']} {one['reason']} {one.get('message', '')!r}"] += 1
        if group["spec"].get("schedulingConstraints"):
            said[f"group {group['metadata']['name']} is in {_zones(room.pods.state, group, zone_of)} zones"] += 1
    return frozenset(said.items())


def _about(pod: Object) -> str:
    spec = pod["spec"]
    group = spec.get("schedulingGroup", {}).get("podGroupName", "no group")
    asked = spec["containers"][0]["resources"]["requests"]["cpu"]
    kind = "running" if "nodeName" in spec else "waiting"
    gates = " gated" if spec.get("schedulingGates") else ""
    return f"{kind}{gates} pod of {group}, {asked} cpu, {spec.get('priorityClassName', 'no priority')}"


def _fate(state: State, pod: Object, constrained: Collection[str]) -> str:
    """``constrained``: groups that are tried on several sets of nodes, in random order; what is said is about the
    first of them, so its numbers do not matter."""
    now = state.get(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
    if now is None:
        return "gone"
    if now["spec"].get("nodeName"):
        return "on a node"
    said = refusal(now)
    if said is None:
        return "waits without a word"
    message = str(said.get("message", ""))
    if pod["spec"].get("schedulingGroup", {}).get("podGroupName") in constrained:
        message = re.sub(r"\d+", "N", message)
    return f"{said['reason']}: {message}"


def _zones(state: State, group: Object, zone_of: dict[str, str]) -> int:
    name = group["metadata"]["name"]
    members = [one for one in state.values() if one["spec"].get("schedulingGroup", {}).get("podGroupName") == name]
    return len({zone_of[one["spec"]["nodeName"]] for one in members if one["spec"].get("nodeName")})


def difference(theirs: Look, ours: Look) -> str:
    """What is said of one of them only."""
    lines = [f"  kube-scheduler: {count} x {text}" for text, count in sorted(theirs - ours)]
    lines += [f"  tandem:         {count} x {text}" for text, count in sorted(ours - theirs)]
    return "\n".join(lines)
