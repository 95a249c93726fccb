"""How many placed pods have each priority: whether a preemptor outranks any of them."""

from __future__ import annotations

from heapq import heapify, heappop, heappush


class PriorityCounts:
    """Counts by priority; the lowest is at hand, in amortized O(log n) for n distinct priorities."""

    __slots__ = ("_counts", "_heap")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._heap: list[int] = []
        """Every priority of ``_counts`` once, and some that have gone since."""

    def add(self, priority: int) -> None:
        count = self._counts.get(priority, 0)
        self._counts[priority] = count + 1
        if not count:
            heappush(self._heap, priority)

    def remove(self, priority: int) -> None:
        """Count a pod of this priority no longer. Raises KeyError if no pod has it."""
        count = self._counts[priority] - 1
        if count:
            self._counts[priority] = count
            return
        del self._counts[priority]
        if len(self._heap) > 2 * len(self._counts) + 16:
            self._heap = list(self._counts)
            heapify(self._heap)

    @property
    def lowest(self) -> int | None:
        """The lowest priority of a placed pod; None if there is no pod."""
        while self._heap and self._heap[0] not in self._counts:
            heappop(self._heap)
        return self._heap[0] if self._heap else None

    @property
    def counts(self) -> dict[int, int]:
        """A copy."""
        return dict(self._counts)

    def fork(self) -> PriorityCounts:
        other = PriorityCounts()
        other._counts, other._heap = dict(self._counts), self._heap[:]
        return other
