"""The limits of writes that no configuration changes."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MAX_TRIES: Final = 4
MAX_PUT_OFF_TRIES: Final = 11
"""Where the server says when the next one may be: as many as client-go's."""
MAX_RETRY_AFTER_SECONDS: Final = 5.0
"""Maximum seconds of a wait before a further try, however long a server asks for."""


class WriterSettings(Struct, frozen=True):
    """Limits of writes, besides those of the configuration (``limits``). ``write/pacing.py`` decides their order."""

    bind_timeout_seconds: float = 15.0
    write_timeout_seconds: float = 10.0
    look_up_waits_seconds: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    """Before each further look at a claim whose last write has had no answer, while it can't be read either."""
    events_queued: int = 20_000
    """Maximum of queued events, for ``Scheduled`` and for others each; beyond it the oldest are dropped."""
    event_series_kept: int = 20_000
