"""A scene: what is there, and what happens phase after phase."""

from __future__ import annotations

from dataclasses import dataclass, field

from e2e import builders
from e2e.builders import Object


@dataclass(frozen=True)
class Phase:
    """What happens at once: objects are created, changed (kind, name, patch, subresource) and deleted (kind, name).
    ``seconds``: for how long nothing may change until the phase is over; None: as usual."""

    create: list[Object] = field(default_factory=list)
    change: list[tuple[str, str, Object, str]] = field(default_factory=list)
    delete: list[tuple[str, str]] = field(default_factory=list)
    seconds: float | None = None


@dataclass(frozen=True)
class Scene:
    """``labels``: of its namespace, whose name is ``place``."""

    place: str
    nodes: list[Object]
    phases: list[Phase]
    labels: dict[str, str] = field(default_factory=dict)


def on_one_node(place: str, *phases: Phase, labels: dict[str, str] | None = None) -> Scene:
    return Scene(place, [builders.node(f"{place}-a")], list(phases), labels or {})
