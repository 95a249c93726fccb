"""The limits of writes."""

from __future__ import annotations

from msgspec import Struct


class WriterSettings(Struct, frozen=True):
    """Limits of writes. Their order is decided by ``write/pacing.py``."""

    requests_in_flight: int = 128
    """Maximum of writes sent and not answered: bindings, conditions, deletions, events."""
    binds_queued: int = 256
    """Maximum of queued bindings; at the limit no further pod is popped. None is ever dropped."""
    bind_timeout_seconds: float = 15.0
    write_timeout_seconds: float = 10.0
    events_queued: int = 20_000
    """Maximum of queued events, for ``Scheduled`` and for others each; beyond it the oldest are dropped."""
    event_series_kept: int = 20_000
