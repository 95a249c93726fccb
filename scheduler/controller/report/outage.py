"""One report of what every request meets: no API server, wrong credentials, missing rights.

Eighteen reflectors and the leader election meet the same trouble at the same time. The first one's error is logged at
once, and while it lasts there is one line a minute that names the kinds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import structlog

from scheduler.errors import ApiError

REPEAT_SECONDS: Final = 60.0

log = structlog.get_logger()


class Outage:
    """Shared by the reflectors of one scheduler and its election; used on the event loop only."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._kinds: dict[int, dict[str, None]] = {}
        """Status (0: no answer) → the kinds that met it and have not been listed since, nor watched until an end in
        order, nor found not to be served."""
        self._reported_at: dict[int, float] = {}

    @property
    def is_reported(self) -> bool:
        """Whether a trouble lasts that is logged, once a minute."""
        return bool(self._kinds)

    @staticmethod
    def concerns(error: ApiError, *, is_watch: bool) -> bool:
        """Whether others will meet the same error. A watch on which nothing is heard is its kind's trouble alone."""
        is_silence = error.reason == "Timeout" and is_watch
        return error.status in (401, 403) or (error.status == 0 and not is_silence)

    def report(self, text: str, kind: str, error: ApiError) -> None:
        """Log an error that ``concerns`` all, unless its cause was logged less than a minute ago."""
        kinds = self._kinds.setdefault(error.status, {})
        kinds[kind] = None
        now = self._monotonic()
        last = self._reported_at.get(error.status)
        if last is not None and now - last < REPEAT_SECONDS:
            return
        self._reported_at[error.status] = now
        also = {"kinds": list(kinds)} if len(kinds) > 1 else {}
        log.error(text, kind=kind, error=str(error), status=error.status, **also)

    def recovered(self, kind: str) -> None:
        """A kind is listed or watched again, or is not served: when it was the last one, that is logged."""
        for status, kinds in list(self._kinds.items()):
            kinds.pop(kind, None)
            if not kinds:
                del self._kinds[status]
                del self._reported_at[status]
                log.info("API server answers again")
