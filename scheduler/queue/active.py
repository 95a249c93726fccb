"""The active queue: pods that are ready to be tried, the most urgent first (reference queue.md §1.2)."""

from __future__ import annotations

from typing import Any, Protocol

from scheduler.cluster.pod_info import PodInfo
from scheduler.queue.clock import SECOND
from scheduler.queue.pod_heap import Order, PodHeap
from scheduler.queue.queued_pod import QueuedPod


class QueueSort(Protocol):
    """What is needed of the one queue-sort plugin that all profiles share."""

    def sort_key(self, pod: PodInfo, timestamp: float) -> tuple[Any, ...]:
        """Smaller goes first. ``timestamp``: seconds, see ``QueuedPod.timestamp``."""
        ...


def order_by(queue_sort: QueueSort) -> Order:
    """The plugin's order as an order of records."""

    def order(record: QueuedPod) -> tuple[Any, ...]:
        return queue_sort.sort_key(record.info, record.timestamp / SECOND)

    return order


class ActiveQueue(PodHeap):
    """Pods in the order of the queue-sort plugin; equals in the order in which they came."""

    __slots__ = ()

    def __init__(self, queue_sort: QueueSort) -> None:
        super().__init__(order_by(queue_sort))
