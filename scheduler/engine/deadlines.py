"""Everything that waits, in one heap. What is due is a value that names its owner."""

from __future__ import annotations

import heapq

import msgspec

ANSWER_GRACE_SECONDS = 5.0
"""An extender call counts as failed this long after its own time-out, whatever became of it."""


class PermitDeadline(msgspec.Struct, frozen=True):
    """A Permit plugin has not decided in the time that it asked for."""

    uid: str
    plugin: str


class PreBindPoll(msgspec.Struct, frozen=True):
    """PreBind plugins are asked whether what they set going is done."""

    uid: str


class BindAgain(msgspec.Struct, frozen=True):
    """A bind whose outcome is unknown is sent again."""

    uid: str


class ExtenderDeadline(msgspec.Struct, frozen=True):
    """An extender has not answered a call of the scheduling cycle or of a binding."""

    ticket: int


class NominationDeadline(msgspec.Struct, frozen=True):
    """The victims on a pod's nominated node have not ended in time."""

    uid: str


class SuspensionEnd(msgspec.Struct, frozen=True):
    """The pod may preempt on the node again."""

    uid: str
    node: str


class RoundEnd(msgspec.Struct, frozen=True):
    """A preemption is so old that it counts no more."""

    serial: int


Deadline = PermitDeadline | PreBindPoll | BindAgain | ExtenderDeadline | NominationDeadline | SuspensionEnd | RoundEnd


class Deadlines:
    """Deadlines with the monotonic second at which they are due. Setting one again moves it; one may be dropped."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Deadline]] = []
        self._due: dict[Deadline, tuple[float, int]] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._due)

    @property
    def waiting(self) -> tuple[Deadline, ...]:
        """In no order."""
        return tuple(self._due)

    def set(self, key: Deadline, due: float) -> None:
        self._serial += 1
        self._due[key] = (due, self._serial)
        heapq.heappush(self._heap, (due, self._serial, key))
        if len(self._heap) > 64 + 4 * len(self._due):
            self._heap = [(due, serial, key) for key, (due, serial) in self._due.items()]
            heapq.heapify(self._heap)

    def drop(self, key: Deadline) -> None:
        self._due.pop(key, None)

    def next(self) -> float | None:
        """The earliest second at which something is due; None when nothing waits."""
        self._discard_stale()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> list[Deadline]:
        """What is due by ``now``, earliest first, no longer waiting."""
        due: list[Deadline] = []
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
