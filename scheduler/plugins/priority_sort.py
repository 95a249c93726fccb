"""PrioritySort: sorts pods by descending ``spec.priority``; among equals, those that have waited longer come first.

A pod without a priority counts as 0. Every profile must have the same one queue-sort plugin. No arguments.
"""

from __future__ import annotations

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import EventRegistration
from scheduler.framework.plugin import QueueSortPlugin, Reads


class PrioritySort(QueueSortPlugin):
    """See docs/kube-scheduler/plugins.md §3.2."""

    name = "PrioritySort"
    reads = Reads.NOTHING

    def sort_key(self, pod: PodInfo, timestamp: float) -> tuple[int, float]:
        return -pod.priority, timestamp

    def events(self) -> tuple[EventRegistration, ...]:
        return ()
