"""The active queue: pods that are ready to be tried, the most urgent first (docs/kube-scheduler/queue.md §1.2)."""

from __future__ import annotations

from typing import Any, Protocol

from scheduler.cluster.pod_info import PodInfo
from scheduler.queue.clock import SECOND
from scheduler.queue.pod_heap import Order, PodHeap
from scheduler.queue.queued_pod import QueuedPod


class QueueSort(Protocol):
    """The part of the queue-sort plugin, shared by all profiles, that the active queue uses."""

    def sort_key(self, pod: PodInfo, timestamp: float) -> tuple[Any, ...]:
        """The sort key; smaller is popped first. ``timestamp``: seconds, see ``QueuedPod.timestamp``."""
        ...


class Urgency:
    """The plugin's sort key as a function of records. A class, since a checkpoint holds it and can't hold a closure."""

    __slots__ = ("_queue_sort",)

    def __init__(self, queue_sort: QueueSort) -> None:
        self._queue_sort = queue_sort

    def order(self, record: QueuedPod) -> tuple[Any, ...]:
        return self._queue_sort.sort_key(record.info, record.timestamp / SECOND)


def order_by(queue_sort: QueueSort) -> Order:
    """The plugin's sort key as a function of records."""
    return Urgency(queue_sort).order


class ActiveQueue(PodHeap):
    """Pods in the order of the queue-sort plugin; equal ones in order of arrival."""

    __slots__ = ()

    def __init__(self, queue_sort: QueueSort) -> None:
        super().__init__(order_by(queue_sort))
