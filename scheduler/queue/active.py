"""The active queue: pods that are ready to be tried, the most urgent first (docs/kube-scheduler/queue.md §1.2)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Protocol

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.sort_keys import SortKey
from scheduler.queue.clock import SECOND
from scheduler.queue.pod_heap import Order, PodHeap
from scheduler.queue.queued_pod import QueuedPod


class QueueSort(Protocol):
    """The part of the queue-sort plugin, shared by all profiles, that the active queue uses."""

    def sort_key(self, pod: PodInfo, timestamp: float) -> SortKey:
        """The sort key; smaller is popped first. ``timestamp``: seconds, see ``QueuedPod.timestamp``."""
        ...


class Urgency:
    """The plugin's sort key as a function of records. A class, since a checkpoint holds it and can't hold a closure."""

    __slots__ = ("_queue_sort",)

    def __init__(self, queue_sort: QueueSort) -> None:
        self._queue_sort = queue_sort

    def order(self, record: QueuedPod) -> SortKey:
        return self._queue_sort.sort_key(record.info, record.timestamp / SECOND)


def order_by(queue_sort: QueueSort) -> Order:
    """The plugin's sort key as a function of records."""
    return Urgency(queue_sort).order


class ActiveQueue:
    """Pods in the order of the queue-sort plugin; equal ones in order of arrival.

    Members of groups lie in a heap of their own, so that pods without a group can be taken past them while a group is
    being tried.
    """

    __slots__ = ("_grouped", "_order", "_plain")

    def __init__(self, queue_sort: QueueSort) -> None:
        self._order = order_by(queue_sort)
        self._plain = PodHeap(self._order)
        self._grouped = PodHeap(self._order)

    def put(self, record: QueuedPod) -> None:
        """Adds the pod, or moves it to where its present order puts it."""
        (self._grouped if record.group else self._plain).put(record)

    def take(self) -> QueuedPod | None:
        """Removes and returns the first pod; None without one."""
        if not self._grouped.live:
            return self._plain.take()
        plain, grouped = self._plain.head(), self._grouped.head()
        if plain is None or (grouped is not None and self._order(grouped) < self._order(plain)):
            return self._grouped.take()
        return self._plain.take()

    def take_plain(self, least_priority: int) -> QueuedPod | None:
        """Removes and returns the first pod without a group, if it has at least this priority."""
        head = self._plain.head()
        return self._plain.take() if head is not None and head.info.priority >= least_priority else None

    def remove(self, key: str) -> QueuedPod | None:
        return self._plain.remove(key) or self._grouped.remove(key)

    def get(self, key: str) -> QueuedPod | None:
        return self._plain.get(key) or self._grouped.get(key)

    @property
    def heaps(self) -> tuple[PodHeap, PodHeap]:
        """The heap of pods without a group, and that of members of groups. Read only."""
        return self._plain, self._grouped

    def in_order(self) -> tuple[QueuedPod, ...]:
        """All pods in order, the next one first."""
        return self._merged(self._plain.in_order(), self._grouped.in_order())

    def first_in_slices(self, limit: int, slice_size: int) -> Generator[None, None, tuple[QueuedPod, ...]]:
        """As ``PodHeap.first_in_slices``."""
        plain = yield from self._plain.first_in_slices(limit, slice_size)
        grouped = yield from self._grouped.first_in_slices(limit, slice_size)
        return self._merged(plain, grouped)[:limit]

    def _merged(self, plain: tuple[QueuedPod, ...], grouped: tuple[QueuedPod, ...]) -> tuple[QueuedPod, ...]:
        return tuple(sorted((*plain, *grouped), key=self._order)) if grouped else plain

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self._plain
        yield from self._grouped

    def __contains__(self, key: str) -> bool:
        return key in self._plain or key in self._grouped

    def __len__(self) -> int:
        return len(self._plain) + len(self._grouped)
