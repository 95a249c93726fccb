"""What people, pages and metrics ask of the queue; nothing here changes it."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice

from scheduler.messages.now import Now
from scheduler.queue.clock import SECOND, QueueClock
from scheduler.queue.hints import HintMap
from scheduler.queue.in_flight import InFlight
from scheduler.queue.places import Places
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.story import Place, PodStory, story_of
from scheduler.queue.timed_moves import TimedMoves


class QueueListing:
    """The part of the scheduling queue that only reads."""

    def __init__(
        self, places: Places, in_flight: InFlight, timed: TimedMoves, hints: HintMap, clock: QueueClock
    ) -> None:
        self.clock = clock
        self._places = places
        self._in_flight = in_flight
        self._timed = timed
        self._hints = hints

    def find(self, key: str) -> QueuedPod | None:
        """The record of a pod that waits (``namespace/name``), or None. Pods in flight: ``in_flight``."""
        return self._places.lookup(key)

    @property
    def in_flight(self) -> InFlight:
        """The attempts under way and the events kept for them; read only."""
        return self._in_flight

    def is_in_flight(self, uid: str) -> bool:
        return uid in self._in_flight

    def pending_counts(self) -> dict[str, int]:
        """The gauge ``pending_pods``, by its label."""
        pool = self._places.pool
        return {
            "active": len(self._places.active),
            "backoff": len(self._places.backoff),
            "unschedulable": pool.unschedulable_count,
            "gated": pool.gated_count,
        }

    def active_pods(self) -> tuple[QueuedPod, ...]:
        """Active pods, the next one first."""
        return self._places.active.in_order()

    def backoff_pods(self) -> tuple[QueuedPod, ...]:
        """Pods in back-off after a rejection, in the order in which they would be popped."""
        return self._places.backoff.rejected.in_order()

    def error_backoff_pods(self) -> tuple[QueuedPod, ...]:
        """Pods in back-off after an error, in order of the end of their wait."""
        return self._places.backoff.errors.in_order()

    def pool_pods(self) -> tuple[QueuedPod, ...]:
        """Unschedulable and gated pods, in order of insertion."""
        return tuple(self._places.pool)

    def first_waiting(self, limit: int, slice_size: int) -> Generator[None, None, tuple[QueuedPod, ...]]:
        """At most ``limit`` pods: active ones, back-off and the pool, each in its order, as of the start. Yields after
        each ``slice_size`` pods."""
        first: list[QueuedPod] = []
        places = self._places
        for heap in (places.active, places.backoff.rejected, places.backoff.errors):
            first += yield from heap.first_in_slices(limit - len(first), slice_size)
        first += islice(places.pool, limit - len(first))
        return tuple(first)

    def seconds_since(self, time: int, now: Now) -> float:
        """Seconds from a record's time (queue time) until now; 0.0 where that lies nanoseconds ahead, for the order of
        pods that one moment has made ready."""
        return max(self.clock.read(now) - time, 0) / SECOND

    def place_of(self, record: QueuedPod) -> Place:
        """Where a pod is that waits or is in flight."""
        is_trying = self._in_flight.get(record.uid) is record
        return Place.IN_FLIGHT if is_trying else self._places.place_of(record)

    def story(self, record: QueuedPod) -> PodStory:
        """The description of one pod, in flight or waiting."""
        place = self.place_of(record)
        return story_of(record, place, self._timed.next_try(record, place), self._hints, self.clock)

    def next_try(self, record: QueuedPod, place: Place) -> int | None:
        """When a pod is tried again without an event, in nanoseconds since 1970; None: at once, never, or unknown.

        A gated pod is never tried: the flush only asks its gate again.
        """
        time = self._timed.next_try(record, place)
        return None if time is None else self.clock.wall(time)

    def describe(self) -> tuple[PodStory, ...]:
        """The descriptions of all pods: active ones in order, then back-off, pool, and those in flight."""
        waiting = (*self.active_pods(), *self.backoff_pods(), *self.error_backoff_pods(), *self._places.pool)
        trying = tuple(record for record in self._in_flight.entries if isinstance(record, QueuedPod))
        return tuple(self.story(record) for record in (*waiting, *trying))
