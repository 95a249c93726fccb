"""What two schedulers made of one scene, in a form in which equal decisions are equal.

Members of a group that ask for the same are exchangeable: kube-scheduler tries them in random order. So they are
counted by what became of them, and their names do not matter.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

from e2e.builders import Object
from e2e.client import State, Watch
from e2e.groups.scenes import ZONE, Scene
from e2e.room import Room, refusal

Look = frozenset[tuple[str, int]]
"""Sentences, with how often each is true."""

UNDECIDED = {"first": "on the first set of nodes", "last": "in the last attempt, with its quorum or without"}

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
    undecided = {group["metadata"]["name"]: "first" for group in groups.state.values() if _fits_none_of_several(group)}
    undecided |= {
        group["metadata"]["name"]: "last" for group in groups.state.values() if _lacks_pods(group, room.pods.state)
    }
    said = Counter(f"{_about(pod)}: {_fate(room.pods.state, pod, undecided)}" for pod in created)
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


def _fits_none_of_several(group: Object) -> bool:
    """Whether the group was tried on several sets of nodes, and fits none."""
    said = [one.get("message", "") for one in group.get("status", {}).get("conditions", ())]
    return any(re.match(r"0/([2-9]|\d\d+) placements are available", message) for message in said)


def _lacks_pods(group: Object, state: State) -> bool:
    """Whether fewer pods of the group exist than must start together."""
    quorum: int = group["spec"]["schedulingPolicy"].get("gang", {}).get("minCount", 0)
    return len(_members(state, group)) < quorum


def _members(state: State, group: Object) -> list[Object]:
    name = group["metadata"]["name"]
    return [one for one in state.values() if one["spec"].get("schedulingGroup", {}).get("podGroupName") == name]


def _fate(state: State, pod: Object, undecided: Mapping[str, str]) -> str:
    """``undecided``: groups of whose pods different things can be said, and why; it does not matter which.

    - ``first``: the group fits none of several sets of nodes. What is said of its pods is about the first of them, and
      kube-scheduler's order is random: it tries again at once after some of these answers, and a second later after
      others, so that one is seen nearly always.
    - ``last``: the gang has lost its quorum. kube-scheduler tries pods that were in the back-off then once more.
    """
    now = state.get(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
    if now is None:
        return "gone"
    if now["spec"].get("nodeName"):
        return "on a node"
    said = refusal(now)
    if said is None:
        return "waits without a word"
    why = undecided.get(pod["spec"].get("schedulingGroup", {}).get("podGroupName", ""))
    if why and said["reason"] == "Unschedulable":
        return f"Unschedulable: as {UNDECIDED[why]}"
    return f"{said['reason']}: {said.get('message', '')}"


def _zones(state: State, group: Object, zone_of: dict[str, str]) -> int:
    return len({zone_of[one["spec"]["nodeName"]] for one in _members(state, group) if one["spec"].get("nodeName")})


def difference(theirs: Look, ours: Look) -> str:
    """What is said of one of them only."""
    lines = [f"  kube-scheduler: {count} x {text}" for text, count in sorted(theirs - ours)]
    lines += [f"  tandem:         {count} x {text}" for text, count in sorted(ours - theirs)]
    return "\n".join(lines)
