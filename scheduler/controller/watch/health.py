"""The health states of a reflector, and the kinds that have been silent for too long."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, Protocol

from scheduler.objects.kinds import Kind

MAX_SILENCE_SECONDS: Final = 120.0
"""Maximum normal silence: kube-apiserver sends a bookmark every 60 to 75 s, and one when a watch ends."""
MAX_TROUBLE_CHARACTERS: Final = 200


class Health(Enum):
    """A reflector's state; the value is the text for users."""

    LISTING = "listing"
    WATCHING = "watching"
    FORBIDDEN = "missing right"
    UNAUTHENTICATED = "not authenticated"
    MISSING_KIND = "kind not served"
    UNREACHABLE = "unreachable"


class Watched(Protocol):
    """The part of a reflector that the health check reads."""

    kind: Kind
    health: Health
    trouble: str

    @property
    def silence_seconds(self) -> float: ...


def silent_kinds(reflectors: Iterable[Watched]) -> str:
    """The problem for ``/readyz``: the kinds that have been silent for too long, and why; "" if there are none."""
    return "; ".join(
        f"{one.kind.value}: nothing heard for {one.silence_seconds:.0f} s, {one.health.value}"
        + (f": {one.trouble[:MAX_TROUBLE_CHARACTERS]}" if one.trouble else "")
        for one in reflectors
        if one.silence_seconds > MAX_SILENCE_SECONDS
    )
