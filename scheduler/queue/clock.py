"""The queue's time: nanoseconds that follow the monotonic clock and share whole seconds with the wall clock."""

from __future__ import annotations

from scheduler.messages.now import Now

SECOND = 1_000_000_000
"""Nanoseconds."""


class QueueClock:
    """Turns ``Now`` into queue time and back.

    Back-off ends on whole seconds of the wall clock (reference queue.md §11), yet a wall clock that is set must neither
    release nor hold pods. So queue time starts at the wall clock's fraction of a second and then only follows the
    monotonic clock. It stays small, so that seconds as floats still tell nanoseconds apart after months.
    """

    __slots__ = ("_monotonic_start", "_start", "_wall_base")

    def __init__(self, started: Now) -> None:
        self._start = started.wall % SECOND
        self._wall_base = started.wall - self._start
        self._monotonic_start = started.monotonic

    @property
    def start(self) -> int:
        """Queue time at which the queue began to run."""
        return self._start

    def read(self, now: Now) -> int:
        """Queue time, nanoseconds."""
        return self._start + round((now.monotonic - self._monotonic_start) * SECOND)

    def wall(self, time: int) -> int:
        """Nanoseconds since 1970, for people: off by as much as the wall clock has been set since the start."""
        return self._wall_base + time

    def monotonic(self, time: int) -> float:
        """Seconds of the monotonic clock, as in ``Now.monotonic``."""
        return self._monotonic_start + (time - self._start) / SECOND
