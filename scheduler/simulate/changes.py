"""Changes: what users, machines and the network do to a simulated cluster, as values that can be written to a file.

A run is a seed and a script, which is a sequence of steps. A step that no longer applies, since an earlier one was left
out, does nothing: that is what makes every part of a script a script.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.objects.kinds import Kind
from scheduler.simulate.world import World
from scheduler.simulate.world_facts import Document, Refused


class Create(msgspec.Struct, frozen=True, tag="create"):
    """A user creates an object."""

    kind: Kind
    document: Document


class Merge(msgspec.Struct, frozen=True, tag="merge"):
    """A user, or a kubelet, changes an object; ``changes`` is a JSON merge patch."""

    kind: Kind
    key: str
    changes: Document


class Delete(msgspec.Struct, frozen=True, tag="delete"):
    """A user deletes an object."""

    kind: Kind
    key: str


class BreakWatch(msgspec.Struct, frozen=True, tag="break-watch"):
    """A watch loses the events under way, and begins again with a list."""

    kind: Kind


class Restart(msgspec.Struct, frozen=True, tag="restart"):
    """The scheduler is killed and starts again."""


class Reload(msgspec.Struct, frozen=True, tag="reload"):
    """The scheduler is given another configuration, by its place in the run's list."""

    configuration: int


Change = Create | Merge | Delete | BreakWatch | Restart | Reload


class Step(msgspec.Struct, frozen=True):
    """A change, and the virtual seconds that pass after it."""

    change: Change
    seconds: float


def carry_out(change: Change, world: World) -> None:
    """Apply a change; one that no longer applies does nothing."""
    try:
        match change:
            case Create(kind, document):
                world.create(kind, document)
            case Merge(kind, key, changes):
                if world.facts.get(kind, key) is not None:
                    world.facts.merge(kind, key, changes)
            case Delete(kind, key):
                if world.facts.get(kind, key) is not None:
                    world.delete(kind, key)
            case BreakWatch(kind):
                world.break_watch(kind)
            case Restart():
                world.restart()
            case Reload(configuration):
                world.reload(configuration)
    except Refused:
        return


def written(steps: Iterable[Step]) -> bytes:
    """JSON lines, one a step."""
    return b"".join(msgspec.json.encode(step) + b"\n" for step in steps)


def read(script: bytes) -> list[Step]:
    """The steps of JSON lines. Raises msgspec.ValidationError or msgspec.DecodeError."""
    decoder = msgspec.json.Decoder(Step)
    return [decoder.decode(line) for line in script.splitlines() if line]
