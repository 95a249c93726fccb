"""The time, as a value that enters with each stimulus: the core has no clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Now:
    """``monotonic``: seconds, only ever compared with itself. ``wall``: nanoseconds since 1970."""

    monotonic: float
    wall: int
