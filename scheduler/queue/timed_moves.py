"""What moves waiting pods because time has passed: back-off ends, a group is tried again, the pool is flushed."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from scheduler.framework.events import BACKOFF_COMPLETE, UNSCHEDULABLE_TIMEOUT
from scheduler.queue.flushes import Flushes
from scheduler.queue.group_retries import GroupRetries
from scheduler.queue.hints import Strategy
from scheduler.queue.in_flight import InFlight
from scheduler.queue.places import Places
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.story import Place


class TimedMoves:
    """Queue time in nanoseconds."""

    __slots__ = ("_flushes", "_groups", "_in_flight", "_places")

    def __init__(self, places: Places, flushes: Flushes, groups: GroupRetries, in_flight: InFlight) -> None:
        self._places = places
        self._flushes = flushes
        self._groups = groups
        self._in_flight = in_flight

    def next(self) -> int | None:
        """When there is something to do; None while no pod waits for a time."""
        places = self._places
        release, retry = places.backoff.next_release(), self._groups.next()
        is_pool_empty = len(places.pool) == 0
        if release is None and retry is None:
            return None if is_pool_empty else self._flushes.next
        dates = [date for date in (release, retry) if date is not None]
        return min(dates if is_pool_empty else [*dates, self._flushes.next])

    def next_try(self, record: QueuedPod, place: Place) -> int | None:
        """When a pod in this place is tried without an event; None: at once, never, or unknown."""
        if place in (Place.BACKOFF, Place.ERROR_BACKOFF):
            return self._places.backoff.release_of(record)
        if place is not Place.UNSCHEDULABLE:
            return None
        retry = self._groups.of(record.group) if record.group else None
        return self._flushes.of(record) if retry is None else retry

    def made(self, time: int) -> Generator[None, None, int]:
        """Makes the moves that are due; yields after each pod, and returns their number."""
        moved = 0
        for record in self._places.backoff.take_complete(time):
            self._places.make_active(record, BACKOFF_COMPLETE, time)
            moved += 1
            yield
        moved += sum(self._retry_group(pods, time) for pods in self._groups.take_due(time))
        if time >= self._flushes.next:
            self._flushes.done(time)
            moved += yield from self._flush_pool(time)
        return moved

    def _retry_group(self, pods: Iterable[str], time: int) -> bool:
        """Make the first waiting pod of these active that passes its gates: of pods whose back-offs end together it is
        the most urgent. Its siblings are taken with it."""
        pool = self._places.pool
        for key in pods:
            record = pool.get(key)
            if record is not None and not record.is_gated:
                pool.remove(key)
                put = self._places.put(record, Strategy.IMMEDIATELY, BACKOFF_COMPLETE, time, is_new_to_pool=False)
                if put is Place.ACTIVE:
                    return True
        return False

    def _flush_pool(self, time: int) -> Generator[None, None, int]:
        """Retries the pods that no event has woken for longer than the limit.

        Includes gated pods, which kube-scheduler 1.36 leaves out: their gate is checked again, in case its opening was
        missed.
        """
        places = self._places
        overdue = [record for record in places.pool if self._flushes.is_overdue(record, time)]
        moved = 0
        for record in overdue:
            record.was_flushed = True
            places.pool.remove(record.key)
            label, was_gated = UNSCHEDULABLE_TIMEOUT.label, record.is_gated
            place = places.put(record, Strategy.AFTER_BACKOFF, label, time, is_new_to_pool=not was_gated)
            moved += place not in (Place.UNSCHEDULABLE, Place.GATED)
            yield
        if overdue:
            self._in_flight.append(UNSCHEDULABLE_TIMEOUT, None, None)
        return moved
