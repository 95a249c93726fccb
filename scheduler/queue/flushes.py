"""When pods that no event wakes leave the pool (docs/kube-scheduler/queue.md §11): a flush every 30 s."""

from __future__ import annotations

from scheduler.queue.clock import SECOND
from scheduler.queue.queued_pod import QueuedPod

POOL_FLUSH_PERIOD = 30 * SECOND


class Flushes:
    """Flushes are counted from ``start``, when the queue started. ``limit``: the time in the pool after which the next
    flush retries a pod. Queue time in nanoseconds."""

    __slots__ = ("_done_until", "_start", "limit")

    def __init__(self, start: int, limit: int) -> None:
        self._start = start
        self._done_until = start
        """Up to here all flushes have been done, or had nothing to do."""
        self.limit = limit

    def done(self, time: int) -> None:
        """Note that the pool has just been flushed, or is empty."""
        self._done_until = time - (time - self._start) % POOL_FLUSH_PERIOD

    @property
    def next(self) -> int:
        return self._done_until + POOL_FLUSH_PERIOD

    def is_overdue(self, record: QueuedPod, time: int) -> bool:
        """Whether a flush at this time retries the pod."""
        return time - record.timestamp > self.limit

    def of(self, record: QueuedPod) -> int:
        """The first flush at which this pod is overdue."""
        earliest = max(record.timestamp + self.limit + 1, self._done_until + 1)
        periods = -(-(earliest - self._start) // POOL_FLUSH_PERIOD)
        return self._start + periods * POOL_FLUSH_PERIOD
