"""The queue's time: nanoseconds of the monotonic clock, aligned with the wall clock's whole seconds."""

from __future__ import annotations

from scheduler.messages.now import Now

SECOND = 1_000_000_000
"""Nanoseconds."""


class QueueClock:
    """Converts ``Now`` to queue time and back.

    Back-off ends on whole seconds of the wall clock (docs/kube-scheduler/queue.md §11), but setting the wall clock must
    neither release nor hold pods. So queue time starts at the wall clock's fraction of a second and then follows the
    monotonic clock. It stays small, so that seconds as floats keep nanosecond precision for months.
    """

    __slots__ = ("_monotonic_start", "_start", "_wall_base")

    def __init__(self, started: Now) -> None:
        self._start = started.wall % SECOND
        self._wall_base = started.wall - self._start
        self._monotonic_start = started.monotonic

    @property
    def start(self) -> int:
        """The queue time at which the queue started."""
        return self._start

    def read(self, now: Now) -> int:
        """The queue time in nanoseconds."""
        return self._start + round((now.monotonic - self._monotonic_start) * SECOND)

    def wall(self, time: int) -> int:
        """Nanoseconds since 1970, for display: off by any adjustment of the wall clock since the start."""
        return self._wall_base + time

    def monotonic(self, time: int) -> float:
        """Seconds of the monotonic clock, as in ``Now.monotonic``."""
        return self._monotonic_start + (time - self._start) / SECOND
