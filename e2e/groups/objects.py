"""The objects that tests of groups create, and what they wait for."""

from __future__ import annotations

from typing import Any

from e2e import builders
from e2e.builders import Object
from e2e.groups.control import API
from e2e.room import Room


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
