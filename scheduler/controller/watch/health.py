"""What a reflector says of itself, and which kinds have been silent for too long."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, Protocol

from scheduler.objects.kinds import Kind

MAX_SILENCE_SECONDS: Final = 120.0
"""kube-apiserver sends a bookmark every 60 to 75 s, and one when a watch ends: longer than this is no quiet kind."""
MAX_TROUBLE_CHARACTERS: Final = 200


class Health(Enum):
    """The value is the text for users."""

    LISTING = "listing"
    WATCHING = "watching"
    FORBIDDEN = "missing right"
    MISSING_KIND = "kind not served"
    UNREACHABLE = "unreachable"


class Watched(Protocol):
    """The part of a reflector that is looked at."""

    kind: Kind
    health: Health
    trouble: str

    @property
    def silence_seconds(self) -> float: ...


def silent_kinds(reflectors: Iterable[Watched]) -> str:
    """For ``/readyz``: the kinds of which nothing has been heard for too long, and why; "" where there are none."""
    return "; ".join(
        f"{one.kind.value}: nothing heard for {one.silence_seconds:.0f} s, {one.health.value}"
        + (f": {one.trouble[:MAX_TROUBLE_CHARACTERS]}" if one.trouble else "")
        for one in reflectors
        if one.silence_seconds > MAX_SILENCE_SECONDS
    )
