"""Attempts under way, and the events that have come since they began (docs/kube-scheduler/queue.md §4).

An event that arrives during an attempt may be the one that the pod will wait for. So all events are kept, in one list
for all attempts, until no attempt is left that began before them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

from msgspec import Struct

from scheduler.errors import InvariantViolation
from scheduler.framework.events import ClusterEvent, EventObject
from scheduler.queue.queued_pod import QueuedPod

EVENT_LIMIT = 100_000
POD_MARKER = "PodPopped"
"""The label of attempts in the gauge of the list's length."""


class KeptEvent(Struct, frozen=True):
    """An event with the object before and after (pods as PodInfo; None where absent)."""

    number: int
    event: ClusterEvent
    old: EventObject | None
    new: EventObject | None


class InFlight:
    """Attempts and events share one sequence of numbers, so that "since" is a comparison.

    Beyond ``limit`` events (an attempt that waits long in Permit on a busy cluster) the oldest are dropped; attempts
    that should have seen them are marked, and are tried again after their back-off.
    """

    __slots__ = ("_began", "_counts", "_events", "_incomplete", "_limit", "_number", "_records")

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._limit = limit
        self._number = 0
        self._began: dict[str, int] = {}
        self._records: dict[str, QueuedPod] = {}
        self._events: deque[KeptEvent] = deque()
        self._incomplete: set[str] = set()
        self._counts: Counter[str] = Counter()

    def begin(self, record: QueuedPod) -> bool:
        """Records that the pod has been popped from the queue. False, and nothing is changed, if it is in flight."""
        uid = record.uid
        if uid in self._began:
            return False
        self._number += 1
        self._began[uid] = self._number
        self._records[uid] = record
        return True

    def append(self, event: ClusterEvent, old: EventObject | None, new: EventObject | None) -> None:
        """Keeps an event for the attempts in flight; without any, it is dropped."""
        if not self._began:
            return
        self._number += 1
        self._events.append(KeptEvent(self._number, event, old, new))
        self._counts[event.label] += 1
        if len(self._events) > self._limit:
            oldest = self._drop_first()
            for uid, began in self._began.items():
                if began > oldest.number:
                    break
                self._incomplete.add(uid)

    def events_for(self, uid: str) -> tuple[KeptEvent, ...] | None:
        """The events since the attempt began, oldest first; None if it is not in flight or some are lost."""
        began = self._began.get(uid)
        if began is None or uid in self._incomplete:
            return None
        since: list[KeptEvent] = []
        for kept in reversed(self._events):
            if kept.number < began:
                break
            since.append(kept)
        since.reverse()
        return tuple(since)

    def done(self, uid: str) -> bool:
        """Ends an attempt and drops the events that no attempt needs any more. False if it was not in flight."""
        if self._began.pop(uid, None) is None:
            return False
        del self._records[uid]
        if self._incomplete:
            self._incomplete.discard(uid)
        if not self._events:
            return True
        oldest = next(iter(self._began.values()), None)
        while self._events and (oldest is None or self._events[0].number < oldest):
            self._drop_first()
        return True

    def get(self, uid: str) -> QueuedPod | None:
        return self._records.get(uid)

    def named(self, key: str) -> Iterator[QueuedPod]:
        """Pods in flight of this ``namespace/name``: more than one where a pod was deleted and created again."""
        return (record for record in self._records.values() if record.key == key)

    @property
    def uids(self) -> tuple[str, ...]:
        """The UIDs of the pods in flight, oldest attempt first."""
        return tuple(self._began)

    @property
    def entries(self) -> tuple[QueuedPod | KeptEvent, ...]:
        """Attempts and events in order of arrival."""
        merged: list[tuple[int, QueuedPod | KeptEvent]] = [
            (began, self._records[uid]) for uid, began in self._began.items()
        ]
        merged.extend((kept.number, kept) for kept in self._events)
        return tuple(entry for _number, entry in sorted(merged, key=lambda pair: pair[0]))

    def lengths(self) -> dict[str, int]:
        """The number of entries by event label; attempts under ``PodPopped``."""
        lengths = {label: count for label, count in self._counts.items() if count}
        return lengths | {POD_MARKER: len(self._began)} if self._began else lengths

    def __contains__(self, uid: str) -> bool:
        return uid in self._began

    def __len__(self) -> int:
        return len(self._began)

    def __bool__(self) -> bool:
        return bool(self._began)

    def check(self) -> None:
        """Raise InvariantViolation if events are kept that no attempt needs, or the counts are wrong."""
        oldest = next(iter(self._began.values()), None)
        if self._events and (oldest is None or self._events[0].number < oldest):
            raise InvariantViolation(f"event {self._events[0].event.label} is kept though no attempt needs it")
        if list(self._began.values()) != sorted(self._began.values()) or self._began.keys() != self._records.keys():
            raise InvariantViolation("attempts in flight are out of order")
        recount = Counter(kept.event.label for kept in self._events)
        if recount != +self._counts:
            raise InvariantViolation("the gauge of events in flight differs from a recount")

    def _drop_first(self) -> KeptEvent:
        dropped = self._events.popleft()
        self._counts[dropped.event.label] -= 1
        return dropped
