"""The time, as a value that enters with each stimulus: the core has no clock."""

from __future__ import annotations

import msgspec


class Now(msgspec.Struct, frozen=True):
    """``monotonic``: seconds, only ever compared with itself. ``wall``: nanoseconds since 1970."""

    monotonic: float
    wall: int
