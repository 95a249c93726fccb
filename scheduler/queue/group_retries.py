"""When groups whose pods wait in the pool are tried again although no event has woken them.

kube-scheduler 1.36 keeps the rejected pods of a group in its back-off and pops them early, so that a group that does
not fit is tried without pause (docs/kube-scheduler/podgroups.md §4). Here they wait in the pool like other pods, are
woken by events, and are tried again when the first of their back-offs is over.
"""

from __future__ import annotations

import heapq


class GroupRetries:
    """Times in queue time, one a group: the earliest that was noted since the group was taken."""

    __slots__ = ("_heap", "_waiting")

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._waiting: dict[str, tuple[int, dict[str, None]]] = {}
        """Group → time, and the pods (``namespace/name``) that wait."""

    def note(self, group: str, pod: str, time: int) -> None:
        """Note that a pod of the group waits in the pool; its own back-off ends at ``time``."""
        known = self._waiting.get(group)
        pods = {} if known is None else known[1]
        pods[pod] = None
        if known is None or time < known[0]:
            self._waiting[group] = (time, pods)
            heapq.heappush(self._heap, (time, group))

    def drop(self, group: str) -> None:
        """Drop the group's time, since the group is tried now."""
        self._waiting.pop(group, None)

    def next(self) -> int | None:
        """The earliest time; None without a group."""
        heap = self._heap
        while heap:
            time, group = heap[0]
            known = self._waiting.get(group)
            if known is not None and known[0] == time:
                return time
            heapq.heappop(heap)
        return None

    def of(self, group: str) -> int | None:
        known = self._waiting.get(group)
        return None if known is None else known[0]

    def take_due(self, time: int) -> list[tuple[str, ...]]:
        """Removes the groups whose time has come; returns the pods of each that waited when they were noted."""
        due: list[tuple[str, ...]] = []
        while (first := self.next()) is not None and first <= time:
            _, group = heapq.heappop(self._heap)
            due.append(tuple(self._waiting.pop(group)[1]))
        return due
