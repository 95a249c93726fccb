"""Decides which queued write is sent next: classes in order, a small share for each, one write of a pod at a time.

At most ``places`` requests are under way. ``SHARE`` of them belong to each class (``Rank``), and what only reports
(conditions, events) has no more than that. The others are common: they go to the highest class that acts and has a
write queued, but first of all to a condition or a ``Scheduled`` event that has waited for ``MAX_WAIT_SECONDS``, or to
such events where more than ``MAX_EVENTS_WAITING`` wait, for as long as the API server answers such writes.

Within a class a write that continues something leaves before those that begin something, each in the order in which
they came: of a thousand preemptors the first has its room after its own few writes, not after all others' first ones.
What continues follows an answered write of the same removal, so there are only a few of them for each that began.

Writes with the same key (one pod, one claim) leave one after the other, in the order in which they came. A newer one is
folded into the one before it that is still queued, where the two say so (``Paced.folded_over``).

Pure and synchronous: it holds no clock, waits for nothing, and is driven by ``Outbox``.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from enum import Enum, IntEnum
from typing import Final, Generic, Protocol, Self, TypeVar

from msgspec import Struct

SHARE: Final = 4
"""Places of each class. Reports leave beside a storm of bindings at this number per round trip, which is less the more
the API server has to do: no rate is stated anywhere. Each further place costs a storm of bindings about a hundredth of
its speed."""

MAX_WAIT_SECONDS: Final = 3.5
"""Seconds for which a condition or a ``Scheduled`` event is limited to its share. An event is promised within 5 s of
its binding: the rest is for the request and for the observer's watch."""

MAX_EVENTS_WAITING: Final = 10_000
"""``Scheduled`` events beyond which they leave before bindings, however new they are. Half of those that are kept
(``WriterSettings.events_queued``): where an API server takes 7,000 bindings a second, more would come within
``MAX_WAIT_SECONDS``, and the oldest would be dropped."""

LOOK_SECONDS: Final = 0.1
"""Seconds between two looks for the oldest of the timely writes: at 10,000 of them a look takes 0.5 ms."""


class Rank(IntEnum):
    """The classes of writes, the most urgent first."""

    BINDING = 0
    AWAITED = 1
    """Something else waits for it: a nomination, a victim's condition or deletion, a claim or volume."""
    CONDITION = 2
    SCHEDULED = 3
    """The event of a binding."""
    EVENT = 4
    """Any other event: it has no time limit."""


RANKS: Final = tuple(Rank)
ACTING: Final = (Rank.BINDING, Rank.AWAITED)
TIMELY: Final = (Rank.CONDITION, Rank.SCHEDULED)
"""Classes that are limited to their share for at most ``MAX_WAIT_SECONDS``."""
MIN_PLACES: Final = SHARE * len(RANKS) + 1


class Paced(Protocol):
    """A write as pacing sees it. ``key`` is "" if no other write has to wait for this one."""

    @property
    def rank(self) -> Rank: ...

    @property
    def key(self) -> str: ...

    @property
    def is_continuation(self) -> bool:
        """Whether it goes on with something of which an earlier write has been answered."""
        ...

    def folded_over(self, older: Self) -> Self | None:
        """The one write that replaces both, if ``older`` of the same key is not sent yet; None: both must be sent.

        Its rank is the more urgent one of the two.
        """
        ...


W = TypeVar("W", bound=Paced)


class State(Enum):
    QUEUED = "queued"
    PARKED = "parked"
    """Waits behind another write of its key."""
    UNDER_WAY = "under way"
    RESTING = "resting"
    """Was under way without success, and is queued again by ``resume``."""
    OVER = "over"


class Slot(Struct, Generic[W], eq=False):
    """One write from ``offer`` to ``finished``. ``since``: the monotonic second at which it was offered."""

    write: W
    number: int
    since: float
    is_continuation: bool
    state: State = State.QUEUED


class _Lane(Generic[W]):
    """The writes of one class that may be sent: those that continue something first, then by age."""

    __slots__ = ("_beginning", "_continuing")

    def __init__(self) -> None:
        self._continuing: OrderedDict[int, Slot[W]] = OrderedDict()
        self._beginning: OrderedDict[int, Slot[W]] = OrderedDict()

    def put(self, slot: Slot[W]) -> None:
        (self._continuing if slot.is_continuation else self._beginning)[slot.number] = slot

    def put_first(self, slot: Slot[W]) -> None:
        slots = self._continuing if slot.is_continuation else self._beginning
        slots[slot.number] = slot
        slots.move_to_end(slot.number, last=False)

    def take(self) -> Slot[W]:
        return (self._continuing or self._beginning).popitem(last=False)[1]

    def remove(self, slot: Slot[W]) -> None:
        del (self._continuing if slot.is_continuation else self._beginning)[slot.number]

    @property
    def since(self) -> float:
        """When the write was offered that ``take`` would return."""
        return next(iter((self._continuing or self._beginning).values())).since

    @property
    def oldest(self) -> float:
        """When the first of them was offered; infinity without any. Those that were queued again came earlier than some
        before them."""
        slots = (*self._continuing.values(), *self._beginning.values())
        return min([slot.since for slot in slots], default=math.inf)


class Pacing(Generic[W]):
    """``offer`` writes, ``take`` those that may be sent now, and report each as ``finished``."""

    def __init__(self, places: int) -> None:
        """Raises ValueError for fewer than MIN_PLACES."""
        if places < MIN_PLACES:
            raise ValueError(f"{places} places are too few for the shares of {len(RANKS)} classes")
        self._common_free = places - SHARE * len(RANKS)
        self._lanes: tuple[_Lane[W], ...] = tuple(_Lane() for _ in RANKS)
        """Rank → writes that may be sent."""
        self._lines: dict[str, list[Slot[W]]] = {}
        """Key → its writes in order; the first is queued, under way or resting, the others are parked."""
        self._ready = [0] * len(RANKS)
        """Rank → the number of writes in its lane."""
        self.ready = 0
        """The number of writes in all lanes."""
        self._under_way = [0] * len(RANKS)
        self._open = [0] * len(RANKS)
        self._is_answered = [True] * len(RANKS)
        """Rank → whether its last completed write got an answer."""
        self._oldest = math.inf
        """No write of a timely class in a lane was offered before this second: until it is overdue, none is."""
        self._looked_at = -math.inf
        self._number = 0
        self.folded = 0
        """The number of writes folded into a newer one of their key."""

    def queued(self, rank: Rank) -> int:
        """The number of queued writes of the class."""
        return self._open[rank] - self._under_way[rank]

    def under_way(self, rank: Rank) -> int:
        return self._under_way[rank]

    def open(self, *ranks: Rank) -> int:
        """The number of writes of these classes that are queued or under way."""
        return sum(self._open[rank] for rank in ranks)

    # --- in ----------------------------------------------------------------------------------------------------------

    def offer(self, write: W, now: float) -> None:
        """Queue a write, or fold it into one of its key that is not sent yet. ``now``: monotonic seconds."""
        key, since = write.key, now
        if key and key in self._lines:
            for slot in reversed(self._lines[key]):
                folded = write.folded_over(slot.write) if slot.state is not State.UNDER_WAY else None
                if folded is None:
                    break
                self.folded += 1
                replaced = slot.write
                if folded.rank is replaced.rank and folded.is_continuation == slot.is_continuation:
                    slot.write = folded
                    return
                write, since = folded, min(since, slot.since)
                self._end(slot)
        rank = write.rank
        self._number += 1
        self._open[rank] += 1
        slot = Slot(write, self._number, since, write.is_continuation)
        if key:
            line = self._lines.get(key)
            if line is not None:
                line.append(slot)
                slot.state = State.PARKED
                return
            self._lines[key] = [slot]
        self._lanes[rank].put(slot)
        self._ready[rank] += 1
        self.ready += 1
        if rank in TIMELY and since < self._oldest:
            self._oldest = since

    # --- out ---------------------------------------------------------------------------------------------------------

    def take(self, now: float) -> Slot[W] | None:
        """The next write to be sent, which is under way from now on; None: none may be sent now."""
        rank = self._next(now) if self.ready else None
        if rank is None:
            return None
        slot = self._lanes[rank].take()
        self._ready[rank] -= 1
        self.ready -= 1
        slot.state = State.UNDER_WAY
        if self._under_way[rank] >= SHARE:
            self._common_free -= 1
        self._under_way[rank] += 1
        return slot

    def _next(self, now: float) -> Rank | None:
        has_place = self._common_free > 0
        ready = self._ready
        if has_place and now - self._oldest >= MAX_WAIT_SECONDS:
            for rank in TIMELY:
                if ready[rank] and self._is_overdue(rank, now):
                    return rank
            if now - self._looked_at >= LOOK_SECONDS:
                self._looked_at = now
                self._oldest = min([self._lanes[rank].oldest for rank in TIMELY])
        if has_place and ready[Rank.SCHEDULED] > MAX_EVENTS_WAITING and self._is_answered[Rank.SCHEDULED]:
            return Rank.SCHEDULED
        for rank in RANKS:
            if ready[rank] and (self._under_way[rank] < SHARE or (has_place and rank in ACTING)):
                return rank
        return None

    def _is_overdue(self, rank: Rank, now: float) -> bool:
        return self._is_answered[rank] and now - self._lanes[rank].since >= MAX_WAIT_SECONDS

    # --- ends --------------------------------------------------------------------------------------------------------

    def finished(self, slot: Slot[W], *, is_answered: bool = True) -> None:
        """A write that was under way has ended, with any outcome."""
        self._landed(slot, is_answered=is_answered)
        self._end(slot)

    def postponed(self, slot: Slot[W], *, is_answered: bool = True) -> None:
        """A write that was under way must be sent again, but not before ``resume``; its place is free meanwhile."""
        self._landed(slot, is_answered=is_answered)
        slot.state = State.RESTING
        line = self._lines[slot.write.key] if slot.write.key else ()
        if len(line) > 1:
            self._fold_resting(slot, line[1])

    def _fold_resting(self, slot: Slot[W], newer: Slot[W]) -> None:
        """As ``offer``, for a write that came while the one that is resting now was under way."""
        folded = newer.write.folded_over(slot.write)
        if folded is None:
            return
        self.folded += 1
        if folded.rank is slot.write.rank and folded.is_continuation == slot.is_continuation:
            slot.write = folded
            self._end(newer)
            return
        self._open[newer.write.rank] -= 1
        self._open[folded.rank] += 1
        newer.write, newer.is_continuation = folded, folded.is_continuation
        newer.since = min(newer.since, slot.since)
        self._end(slot)

    def resume(self, slot: Slot[W]) -> None:
        """Queue a postponed write again, before the others of its class. One that was folded meanwhile has ended."""
        if slot.state is State.RESTING:
            self._queue_first(slot)

    def _landed(self, slot: Slot[W], *, is_answered: bool) -> None:
        rank = slot.write.rank
        self._under_way[rank] -= 1
        if self._under_way[rank] >= SHARE:
            self._common_free += 1
        self._is_answered[rank] = is_answered

    def _queue_first(self, slot: Slot[W]) -> None:
        slot.state = State.QUEUED
        rank = slot.write.rank
        self._lanes[rank].put_first(slot)
        self._ready[rank] += 1
        self.ready += 1
        if rank in TIMELY:
            self._oldest = min(self._oldest, slot.since)

    def _end(self, slot: Slot[W]) -> None:
        """Remove the slot; the next write of its key may be sent."""
        rank, key = slot.write.rank, slot.write.key
        if slot.state is State.QUEUED:
            self._lanes[rank].remove(slot)
            self._ready[rank] -= 1
            self.ready -= 1
        slot.state = State.OVER
        self._open[rank] -= 1
        if not key:
            return
        line = self._lines[key]
        if len(line) == 1:
            del self._lines[key]
            return
        line.remove(slot)
        if line[0].state is State.PARKED:
            self._queue_first(line[0])
