"""Everything that waits, in one heap."""

from __future__ import annotations

import heapq
from collections.abc import Hashable


class Deadlines:
    """Keys with the monotonic second at which they are due. Setting a key again moves it; a key may be dropped."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Hashable]] = []
        self._due: dict[Hashable, tuple[float, int]] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: Hashable, due: float) -> None:
        self._serial += 1
        self._due[key] = (due, self._serial)
        heapq.heappush(self._heap, (due, self._serial, key))
        if len(self._heap) > 64 + 4 * len(self._due):
            self._heap = [(due, serial, key) for key, (due, serial) in self._due.items()]
            heapq.heapify(self._heap)

    def drop(self, key: Hashable) -> None:
        self._due.pop(key, None)

    def next(self) -> float | None:
        """The earliest second at which something is due; None when nothing waits."""
        self._discard_stale()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> list[Hashable]:
        """The keys that are due by ``now``, earliest first, no longer waiting."""
        due: list[Hashable] = []
        while True:
            self._discard_stale()
            if not self._heap or self._heap[0][0] > now:
                return due
            _, _, key = heapq.heappop(self._heap)
            del self._due[key]
            due.append(key)

    def _discard_stale(self) -> None:
        heap = self._heap
        while heap and self._due.get(heap[0][2]) != (heap[0][0], heap[0][1]):
            heapq.heappop(heap)
