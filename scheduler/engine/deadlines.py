"""All deadlines of the engine, in one heap. A deadline is a value that names its owner."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import msgspec

ANSWER_GRACE_SECONDS = 5.0
"""Seconds after an extender call's own time-out at which the call counts as failed."""


class PermitDeadline(msgspec.Struct, frozen=True):
    """A Permit plugin has not decided within the time that it asked for."""

    uid: str
    plugin: str


class PreBindPoll(msgspec.Struct, frozen=True):
    """PreBind plugins are asked whether their work is done."""

    uid: str


class BindAgain(msgspec.Struct, frozen=True):
    """A bind whose outcome is unknown is sent again."""

    uid: str


class ExtenderDeadline(msgspec.Struct, frozen=True):
    """An extender has not answered a call of the scheduling cycle."""

    ticket: int


class NominationDeadline(msgspec.Struct, frozen=True):
    """The victims on a pod's nominated node have not terminated in time."""

    uid: str


class SuspensionEnd(msgspec.Struct, frozen=True):
    """The pod may preempt on the node again."""

    uid: str
    node: str


class RoundEnd(msgspec.Struct, frozen=True):
    """A preemption no longer counts for the breaker."""

    serial: int


Deadline = PermitDeadline | PreBindPoll | BindAgain | ExtenderDeadline | NominationDeadline | SuspensionEnd | RoundEnd


class Deadlines:
    """Deadlines and the monotonic second at which each is due. Setting a deadline again moves it."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Deadline]] = []
        self.due: dict[Deadline, tuple[float, int]] = {}
        """When each is due, with the number of its setting; read only."""
        self._serial = 0

    def __len__(self) -> int:
        return len(self.due)

    @property
    def waiting(self) -> tuple[Deadline, ...]:
        """All pending deadlines, in no order."""
        return tuple(self.due)

    def set(self, key: Deadline, due: float) -> None:
        """Set a deadline to the monotonic second ``due``."""
        self._serial += 1
        self.due[key] = (due, self._serial)
        heapq.heappush(self._heap, (due, self._serial, key))
        if len(self._heap) > 64 + 4 * len(self.due):
            self._heap = [(due, serial, key) for key, (due, serial) in self.due.items()]
            heapq.heapify(self._heap)

    def drop(self, key: Deadline) -> None:
        """Drop a deadline; one that is not set changes nothing."""
        self.due.pop(key, None)

    def next(self) -> float | None:
        """The earliest monotonic second at which a deadline is due; None without one."""
        if not self._heap:
            return None
        self._discard_stale()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> Iterator[Deadline]:
        """Remove and yield the deadlines due by ``now``, earliest first. What is done about one may drop the next, and
        what it sets is left for the next call."""
        last = self._serial
        while True:
            self._discard_stale()
            if not self._heap or self._heap[0][0] > now or self._heap[0][1] > last:
                return
            _, _, key = heapq.heappop(self._heap)
            del self.due[key]
            yield key

    def _discard_stale(self) -> None:
        heap = self._heap
        while heap and self.due.get(heap[0][2]) != (heap[0][0], heap[0][1]):
            heapq.heappop(heap)
