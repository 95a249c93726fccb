"""A heap of pods, keyed by name, from which any pod can be removed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from heapq import heapify, heappop, heappush

from scheduler.framework.sort_keys import SortKey
from scheduler.queue.queued_pod import QueuedPod

Order = Callable[[QueuedPod], SortKey]
"""The sort key of a record; smaller is popped first."""

_SLACK = 64


class Entry:
    """A pod's place in the heap. ``record`` is None once it has left."""

    __slots__ = ("number", "order", "record", "serial")

    def __init__(self, order: SortKey, number: int, serial: int, record: QueuedPod) -> None:
        self.order = order
        self.number = number
        self.serial = serial
        self.record: QueuedPod | None = record

    @property
    def ranked(self) -> Ranked:
        return self.order, self.number, self.serial, self


Ranked = tuple[SortKey, int, int, Entry]
"""The heap's items. Tuples compare without a call into Python; serials are unique, so entries are never compared."""


class PodHeap:
    """Keyed by ``namespace/name``. Pods of equal order are popped in order of insertion.

    Removing marks the entry dead and leaves it in the heap; the heap is rebuilt when most entries are dead.
    """

    __slots__ = ("_count", "_entries", "_order", "live")

    def __init__(self, order: Order) -> None:
        self._order = order
        self._entries: list[Ranked] = []
        self.live: dict[str, Entry] = {}
        """The entries by key; read only. Always the same dict, and most often an empty one."""
        self._count = 0

    def put(self, record: QueuedPod) -> Entry:
        """Adds the pod, or moves it to where its present order puts it. Returns its new entry."""
        key, serial, order = record.key, self._count + 1, self._order(record)
        self._count = number = serial
        known = self.live.get(key)
        if known is not None:
            known.record = None
            number = known.number
        entry = self.live[key] = Entry(order, number, serial, record)
        heappush(self._entries, (order, number, serial, entry))
        if len(self._entries) > 2 * len(self.live) + _SLACK:
            self._entries = [entry.ranked for entry in self.live.values()]
            heapify(self._entries)
        return entry

    def head(self) -> QueuedPod | None:
        """The first pod, without removing it; None if there is none."""
        entries = self._entries
        while entries:
            record = entries[0][3].record
            if record is not None:
                return record
            heappop(entries)
        return None

    def take(self) -> QueuedPod | None:
        """Removes and returns the first pod; None if there is none."""
        entries = self._entries
        while entries:
            entry = heappop(entries)[3]
            record = entry.record
            if record is not None:
                entry.record = None
                del self.live[record.key]
                return record
        return None

    def remove(self, key: str) -> QueuedPod | None:
        entry = self.live.pop(key, None)
        if entry is None:
            return None
        record, entry.record = entry.record, None
        return record

    def get(self, key: str) -> QueuedPod | None:
        entry = self.live.get(key)
        return entry.record if entry is not None else None

    def in_order(self) -> tuple[QueuedPod, ...]:
        """All pods in order, the next one first."""
        ranked = sorted(entry.ranked for entry in self.live.values())
        return tuple(entry.record for *_order, entry in ranked if entry.record is not None)

    def first_in_slices(self, limit: int, slice_size: int) -> Generator[None, None, tuple[QueuedPod, ...]]:
        """The first ``limit`` pods as of the start, the next one first, without those removed meanwhile. Yields after
        each ``slice_size`` pods, so that a long queue does not block the event loop."""
        entries = list(self.live.values())
        first: list[Ranked] = []
        for start in range(0, len(entries), slice_size):
            ranked = [entry.ranked for entry in entries[start : start + slice_size]]
            first = sorted([*first, *ranked])[:limit]
            yield
        return tuple(entry.record for *_order, entry in first if entry.record is not None)

    def __iter__(self) -> Iterator[QueuedPod]:
        """Iterates in order of insertion, not of urgency."""
        return (entry.record for entry in self.live.values() if entry.record is not None)

    def __contains__(self, key: str) -> bool:
        return key in self.live

    def __len__(self) -> int:
        return len(self.live)
