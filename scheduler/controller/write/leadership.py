"""The permission to write, which every write checks right before it is sent and which ends with the lease."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from scheduler.errors import SchedulerError


class LeadershipLost(SchedulerError):
    """A write was stopped because leadership is not held."""


class Leadership(Protocol):
    def is_held(self) -> bool: ...


class AlwaysHeld:
    """The token without leader election: there is one replica only."""

    def is_held(self) -> bool:
        return True


class LeaseToken:
    """Held until a deadline that each renewal extends. Shared between the elector's thread and the writers.

    The deadline counts from *before* the renewal was sent, so a process that was suspended past it finds its token
    expired before it can write anything (trap 62).
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until = 0.0
        self._is_revoked = False

    def is_held(self) -> bool:
        return not self._is_revoked and self._clock() < self._until

    @property
    def overdue_seconds(self) -> float:
        """Seconds since it expired; 0.0 if it is held or never was."""
        return max(self._clock() - self._until, 0.0) if self._until else 0.0

    def extend(self, until: float) -> None:
        with self._lock:
            self._until = until

    def revoke(self) -> None:
        """Revokes it permanently: this process never leads again."""
        with self._lock:
            self._is_revoked = True
