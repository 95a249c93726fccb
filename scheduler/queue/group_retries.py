"""When groups whose pods wait in the pool are tried again although no event has woken them.

kube-scheduler 1.36 keeps the rejected pods of a group in its back-off and pops them early, so that a group that does
not fit is tried without pause (docs/kube-scheduler/podgroups.md §4). Here they wait in the pool like other pods, are
woken by events, and are tried again when the first of their back-offs is over: by the urgency of a pod whose back-off
is over, since those that still back off are only taken with it.
"""

from __future__ import annotations

import heapq


class GroupRetries:
    """Times in queue time: when the back-offs end of the pods that were noted since their group was taken."""

    __slots__ = ("_heap", "_waiting")

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._waiting: dict[str, dict[int, list[str]]] = {}
        """Group → time → the pods (``namespace/name``) that wait until then."""

    def note(self, group: str, pod: str, time: int) -> None:
        """Note that a pod of the group waits in the pool; its own back-off ends at ``time``."""
        times = self._waiting.setdefault(group, {})
        if time not in times:
            times[time] = []
            heapq.heappush(self._heap, (time, group))
        times[time].append(pod)

    def drop(self, group: str) -> None:
        """Drop the group's times, since the group is tried now."""
        self._waiting.pop(group, None)

    def next(self) -> int | None:
        """The earliest time; None without a group."""
        heap = self._heap
        while heap:
            time, group = heap[0]
            if time in self._waiting.get(group, ()):
                return time
            heapq.heappop(heap)
        return None

    def of(self, group: str) -> int | None:
        """When the group is tried again; None where none of its pods was noted."""
        return min(self._waiting.get(group, ()), default=None)

    def take_due(self, time: int) -> list[tuple[str, ...]]:
        """Removes the times that have come; returns the pods of each, in the order in which they were noted."""
        due: list[tuple[str, ...]] = []
        while (first := self.next()) is not None and first <= time:
            _, group = heapq.heappop(self._heap)
            times = self._waiting[group]
            due.append(tuple(times.pop(first)))
            if not times:
                del self._waiting[group]
        return due
