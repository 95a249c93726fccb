"""Durations of removals, for kube-scheduler's ``preemption_goroutines`` metrics (docs/kube-scheduler/preemption.md §10)."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

SUCCESS: Final = "success"
ERROR: Final = "error"
REMOVAL_BUCKETS: Final = tuple(0.01 * 2**exponent for exponent in range(20))
"""Upper bounds in seconds."""


class RemovalTimes:
    """A histogram: ``buckets[i]`` removals took at most ``REMOVAL_BUCKETS[i]`` (and longer than the bound before)."""

    __slots__ = ("buckets", "count", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(REMOVAL_BUCKETS) + 1)

    def observe(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds
        self.buckets[bisect_left(REMOVAL_BUCKETS, seconds)] += 1
