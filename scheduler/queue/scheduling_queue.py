"""The scheduling queue: the state of every pending pod (docs/kube-scheduler/queue.md).

::

    add ──► gates ──► active ──pop──► in flight ──► bound (done)
              │         ▲  ▲             │ failed (add_unschedulable)
              ▼         │  └── back-off ◄┤
            gated ──────┴─── pool ◄──────┘      events, the flush and Activate move pods on

A pod is in one of active, back-off and pool, by ``namespace/name``, or in flight, by UID (and there even while another
pod of its name already waits). Every operation is one synchronous step that takes the time as ``now``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

from scheduler.cluster.nominator import Nominator
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.pod_template import template_key
from scheduler.framework.events import (
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    POP_FROM_BACKOFF,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_TIMEOUT,
    ClusterEvent,
)
from scheduler.messages.now import Now
from scheduler.messages.status import Code, Refusal
from scheduler.queue.active import ActiveQueue, QueueSort
from scheduler.queue.backoff import BackoffQueues
from scheduler.queue.clock import SECOND, QueueClock
from scheduler.queue.cluster_events import PENDING_POD_ADD, PENDING_POD_UPDATE, pod_events
from scheduler.queue.group_retries import GroupRetries
from scheduler.queue.hints import HintMap, Strategy
from scheduler.queue.in_flight import EVENT_LIMIT, InFlight
from scheduler.queue.interrupted import Waking
from scheduler.queue.invariants import check_places
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.pool import ClassKey, UnschedulablePool
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.story import Place, PodStory, story_of
from scheduler.queue.waking import Only, strategy_after_attempt, worth_moving


class PreEnqueue(Protocol):
    """The PreEnqueue plugins of all profiles (``gates.py``)."""

    def __call__(self, record: QueuedPod) -> Refusal | None:
        """Runs the plugins of the pod's profile: None, or the first refusal, signed."""
        ...

    def held_back(self, profile: str, name: str) -> Collection[str]:
        """UIDs of pods that the named plugin is certain to refuse again."""
        ...


GroupOf = Callable[[PodInfo], str]
"""``namespace/name`` of the group with which a pod is tried; "" without one."""


def no_group(_pod: PodInfo) -> str:
    return ""


POOL_FLUSH_PERIOD = 30 * SECOND


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """Seconds, as in the configuration. ``pops_from_backoff``: the gate SchedulerPopFromBackoffQ."""

    initial_backoff: float = 1.0
    maximum_backoff: float = 10.0
    maximum_in_pool: float = 300.0
    pops_from_backoff: bool = True
    steps_a_slice: int = 0
    """Asked groups and moved pods after which a long wake is interrupted; 0: it never is."""
    event_limit: int = EVENT_LIMIT


class SchedulingQueue:
    """See the module. ``started`` is when the queue starts; the pool's flush, every 30 s, is counted from there."""

    def __init__(
        self,
        *,
        queue_sort: QueueSort,
        hints: HintMap,
        facts: QueueMetrics,
        nominator: Nominator,
        pre_enqueue: PreEnqueue,
        started: Now,
        settings: QueueSettings = QueueSettings(),
        class_key: ClassKey = template_key,
        group_of: GroupOf = no_group,
    ) -> None:
        self.facts = facts
        self.nominator = nominator
        self.clock = QueueClock(started)
        self.cycle = 0
        """The number of pods popped so far."""
        self.is_closed = False
        self._settings = settings
        self._hints = hints
        self._pre_enqueue = pre_enqueue
        self._active = ActiveQueue(queue_sort)
        self._backoff = BackoffQueues(
            queue_sort,
            round(settings.initial_backoff * SECOND),
            round(settings.maximum_backoff * SECOND),
            settings.pops_from_backoff,
        )
        self._pool = UnschedulablePool(class_key)
        self._in_flight = InFlight(settings.event_limit)
        self._maximum_in_pool = round(settings.maximum_in_pool * SECOND)
        self._group_of = group_of
        self._group_retries = GroupRetries()
        self._held: list[QueuedPod] = []
        self._waking = Waking(settings.steps_a_slice)
        self._flushed_until = self.clock.start
        """Queue time up to which all flushes of the pool have been done."""

    def reconfigure(self, hints: HintMap, pre_enqueue: PreEnqueue, settings: QueueSettings, now: Now) -> None:
        """Replaces plugins and durations. All pods of the pool are activated, since what held them back may be gone.
        Taking pods early from the back-off and the sort order stay as they were.
        """
        self.finish_waking()
        self._waking = Waking(settings.steps_a_slice)
        self._hints = hints
        self._pre_enqueue = pre_enqueue
        self._settings = replace(settings, pops_from_backoff=self._settings.pops_from_backoff)
        self._backoff.set_limits(round(settings.initial_backoff * SECOND), round(settings.maximum_backoff * SECOND))
        self._maximum_in_pool = round(settings.maximum_in_pool * SECOND)
        self.activate([record.info for record in self._pool], now)

    # --- pods come, change and go -------------------------------------------------------------------------------------

    def add(self, info: PodInfo, now: Now) -> Place:
        """Adds a pending pod of one of our profiles."""
        self.finish_waking()
        # Needed in each attempt, and quicker to compute while the object is in the processor's cache.
        template_key(info)
        return self._enter(info, PENDING_POD_ADD.label, self.clock.read(now))

    def update(self, old: PodInfo, new: PodInfo, now: Now) -> Place:
        """Updates a pending pod (same UID, new resourceVersion)."""
        self.finish_waking()
        if new.uid in self._in_flight:
            # The failure handling looks the pod up again, so only the events of the change are kept.
            for event in pod_events(old.pod, new.pod):
                self._in_flight.append(event, old, new)
            return Place.IN_FLIGHT
        if (record := self._active.get(new.key)) is not None:
            record.replace_pod(new)
            self._active.put(record)
            self.nominator.update(old, new)
            return Place.ACTIVE
        if (record := self._backoff.get(new.key)) is not None:
            record.replace_pod(new)
            self._backoff.replace(record)
            self.nominator.update(old, new)
            return self._place_of(record)
        if (record := self._pool.get(new.key)) is not None:
            return self._update_in_pool(record, old, new, self.clock.read(now))
        return self._enter(new, PENDING_POD_UPDATE.label, self.clock.read(now))

    def delete(self, info: PodInfo) -> None:
        """Removes a pod that was deleted or bound by any scheduler. One in flight stays: its attempt ends by itself."""
        self.finish_waking()
        self.nominator.delete(info.uid)
        record = self._lookup(info.key)
        if record is not None and record.uid == info.uid:
            self._take_out(record)
            self.facts.rejected(record.rejectors, record.profile, -1)

    # --- attempts -----------------------------------------------------------------------------------------------------

    @property
    def has_next(self) -> bool:
        """Whether ``pop`` would return a pod."""
        early = self._settings.pops_from_backoff and bool(self._backoff.rejected)
        return not self.is_closed and (len(self._active) > 0 or early)

    def pop(self, now: Now, *, plain_from: int | None = None) -> QueuedPod | None:
        """Removes and returns the next pod, or None. ``done`` must be called once for each, however its attempt ends.

        With no active pod, the rejected pod whose back-off ends first is taken early. ``plain_from``: only an active
        pod that belongs to no group and has at least this priority.
        """
        self.finish_waking()
        while (record := self._next(plain_from)) is not None:
            if self._begin(record, now):
                return record
        return None

    def _next(self, plain_from: int | None) -> QueuedPod | None:
        if self.is_closed:
            return None
        if plain_from is not None:
            return self._active.take_plain(plain_from)
        record = self._active.take()
        if record is None and self._settings.pops_from_backoff and self._backoff.rejected:
            record = self._backoff.take_early()
            self.facts.incoming["active", POP_FROM_BACKOFF] += 1
        return record

    def pop_siblings(self, group: str, keys: Iterable[str], now: Now) -> list[QueuedPod]:
        """Removes and returns those of these pods (``namespace/name``) that may be tried, wherever they wait and
        whatever their back-off; gates still apply. As ``pop``, of each."""
        self.finish_waking()
        self._group_retries.drop(group)
        found: list[QueuedPod] = []
        for key in keys:
            record = self._active.remove(key)
            if record is None:
                record = self._backoff.remove(key)
                if record is None and (record := self._pool.remove(key)) is not None and not self._passes_gates(record):
                    self._pool.put(record)
                    continue
                if record is None:
                    continue
                self.facts.incoming["active", FORCE_ACTIVATE.label] += 1
            if self._begin(record, now):
                found.append(record)
        return found

    def _begin(self, record: QueuedPod, now: Now) -> bool:
        """Begin an attempt of a pod that was taken out; False for one that is being tried already (a bug elsewhere)."""
        self.facts.rejected(record.rejectors, record.profile, -1)
        if record.uid in self._in_flight:
            self.facts.problem(f"the same pod is tracked in multiple places in the scheduler: {record.key}")
            return False
        if record.initial_attempt is None:
            record.initial_attempt = self.clock.read(now)
        record.attempts += 1
        self.cycle += 1
        self._in_flight.begin(record)
        return True

    def add_unschedulable(self, record: QueuedPod, now: Now) -> Place:
        """Returns a pod whose attempt failed, with its rejectors on the record (none after an error). Calls ``done``.

        Events since the pod was popped count as if they came now. A pod that is already queued (a bug elsewhere) stays
        where it is.
        """
        self.finish_waking()
        try:
            present = self._lookup(record.key)
            if present is not None:
                place = self._place_of(present)
                self.facts.problem(f"Pod {record.key} is already present in the {place.value} queue")
                return place
            time = self.clock.read(now)
            if record.rejectors:
                record.unschedulable_count += 1
                record.error_count = 0
            else:
                record.error_count += 1
            record.timestamp = time
            record.backoff_expiration = None
            record.was_flushed = False
            self.facts.rejected(record.rejectors, record.profile, 1)
            strategy = strategy_after_attempt(record, self._in_flight, self._hints)
            place = self._put(record, strategy, SCHEDULE_ATTEMPT_FAILURE, time)
            if record.group and place is Place.UNSCHEDULABLE:
                self._group_retries.note(record.group, record.key, self._backoff.release_of(record))
            return place
        finally:
            self.done(record.uid)

    def done(self, uid: str) -> None:
        """Ends the attempt, so that its events need not be kept. Unknown pods are ignored."""
        self.finish_waking()
        self._in_flight.done(uid)

    def is_in_flight(self, uid: str) -> bool:
        return uid in self._in_flight

    # --- what wakes pods ----------------------------------------------------------------------------------------------

    def move_all(
        self,
        event: ClusterEvent,
        old: Any,
        new: Any,
        now: Now,
        only: Only | None = None,
    ) -> int:
        """Moves the pods of the pool that a cluster event may help. Returns the number of pods moved, 0 where the wake
        is only begun (``is_waking``).

        ``old`` and ``new``: the object before and after, pods as PodInfo, None where absent. ``only`` restricts the
        pods of the pool; the event is kept for all pods in flight.
        """
        if not self._hints.is_of_interest(event):
            return 0
        if not len(self._pool) and not self._waking.is_under_way:
            self._in_flight.append(event, old, new)
            return 0
        return self._waking.begin(self._moving(event, old, new, self.clock.read(now), only), len(self._pool))

    def _moving(
        self, event: ClusterEvent, old: Any, new: Any, time: int, only: Only | None
    ) -> Generator[None, None, int]:
        held_back = self._pre_enqueue.held_back
        moving = yield from worth_moving(self._pool, self._hints, event, old, new, only, held_back)
        for record, strategy in moving:
            self._pool.remove(record.key)
            self._put(record, strategy, event.label, time, is_new_to_pool=False)
            yield
        self._in_flight.append(event, old, new)
        return len(moving)

    @property
    def is_waking(self) -> bool:
        """Whether a wake has been interrupted. Until it is finished nothing may change that hints and gates read; every
        other operation finishes it first."""
        return self._waking.is_under_way

    def continue_waking(self) -> None:
        """Goes on for a slice."""
        self._waking.go_on()

    def finish_waking(self) -> None:
        """Finishes what has been interrupted."""
        if self._waking.is_under_way:
            self._waking.finish()

    def activate(self, pods: Iterable[PodInfo | str], now: Now) -> int:
        """Moves these pods to the active queue regardless of back-off; gates still apply. Returns how many it moved.

        A pod is given as PodInfo, or by ``namespace/name``. One in flight is tried again at once if its attempt fails.
        Pods that are active already, or unknown, are ignored.
        """
        self.finish_waking()
        time = self.clock.read(now)
        moved = 0
        for pod in pods:
            key = pod if isinstance(pod, str) else pod.key
            record = self._backoff.remove(key)
            if record is not None:
                self._make_active(record, FORCE_ACTIVATE.label, time)
                moved += 1
                continue
            record = self._pool.remove(key)
            if record is not None:
                place = self._put(record, Strategy.IMMEDIATELY, FORCE_ACTIVATE.label, time, is_new_to_pool=False)
                moved += place is Place.ACTIVE
                continue
            for trying in tuple(self._in_flight.named(key)):
                if isinstance(pod, str) or trying.uid == pod.uid:
                    self._in_flight.append(FORCE_ACTIVATE, None, trying.info)
        return moved

    def wake(self, keys: Iterable[str], now: Now) -> int:
        """The room that these pods (``namespace/name``) wait for may be free. Where the queue takes pods early from
        the back-off they are tried at once; else as soon as their back-off is over, as by kube-scheduler's event of
        the victim's deletion. Returns how many moved."""
        self.finish_waking()
        if self._settings.pops_from_backoff:
            return self.activate(keys, now)
        time = self.clock.read(now)
        moved = 0
        for key in keys:
            record = self._pool.remove(key)
            if record is not None:
                label = FORCE_ACTIVATE.label
                place = self._put(record, Strategy.AFTER_BACKOFF, label, time, is_new_to_pool=False)
                moved += place not in (Place.UNSCHEDULABLE, Place.GATED)
            for trying in tuple(self._in_flight.named(key)) if record is None else ():
                self._in_flight.append(FORCE_ACTIVATE, None, trying.info)
        return moved

    @property
    def holds_in_error(self) -> bool:
        return bool(self._held)

    def take_held(self) -> tuple[QueuedPod, ...]:
        """The pods that have been gated by an error since the last call, to report to their users: ordinary gates are
        reported by the API server, and kube-scheduler 1.36 only logs such an error."""
        held = dict.fromkeys(one for one in self._held if one.is_gated and self._pool.get(one.key) is one)
        self._held.clear()
        return tuple(held)

    # --- time ---------------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When ``tick`` is due, as ``Now.monotonic``; None while no pod waits for a time."""
        deadlines = []
        for due in (self._backoff.next_release(), self._group_retries.next()):
            if due is not None:
                deadlines.append(due)
        if len(self._pool):
            deadlines.append(self._flushed_until + POOL_FLUSH_PERIOD)
        return self.clock.monotonic(min(deadlines)) if deadlines else None

    def tick(self, now: Now) -> int:
        """Moves the pods whose back-off is over and, every 30 s, those too long in the pool. Returns the number of
        pods moved, 0 where that is only begun (``is_waking``). Does nothing before it is due."""
        self.finish_waking()
        waiting = len(self._pool) + len(self._backoff)
        return self._waking.begin(self._ticking(self.clock.read(now)), waiting)

    def _ticking(self, time: int) -> Generator[None, None, int]:
        moved = 0
        for record in self._backoff.take_complete(time):
            self._make_active(record, BACKOFF_COMPLETE, time)
            moved += 1
            yield
        moved += sum(self._retry_group(pods, time) for pods in self._group_retries.take_due(time))
        if time - self._flushed_until >= POOL_FLUSH_PERIOD:
            self._flushed_until = time - (time - self.clock.start) % POOL_FLUSH_PERIOD
            moved += yield from self._flush_pool(time)
        return moved

    def _retry_group(self, pods: Iterable[str], time: int) -> bool:
        """Makes one of these pods active, if any still waits: its siblings are taken with it."""
        for key in pods:
            record = self._pool.get(key)
            if record is not None and not record.is_gated:
                self._pool.remove(key)
                self._put(record, Strategy.IMMEDIATELY, BACKOFF_COMPLETE, time, is_new_to_pool=False)
                return True
        return False

    def close(self) -> None:
        """Stops popping; attempts under way are dropped."""
        self.finish_waking()
        self.is_closed = True
        for uid in self._in_flight.uids:
            self._in_flight.done(uid)

    # --- inside: places -----------------------------------------------------------------------------------------------

    def _enter(self, info: PodInfo, label: str, time: int) -> Place:
        known = self._lookup(info.key)
        if known is not None:
            self._take_out(known)
            self.facts.rejected(known.rejectors, known.profile, -1)
        record = QueuedPod(info, time, self._group_of(info))
        place = self._put(record, Strategy.IMMEDIATELY, label, time)
        if place is Place.ACTIVE:
            self.nominator.add(info)
        return place

    def _put(
        self, record: QueuedPod, strategy: Strategy, label: str, time: int, *, is_new_to_pool: bool = True
    ) -> Place:
        """Places a pod that is in no queue. The gates decide whether it may enter active or back-off."""
        if strategy is not Strategy.SKIP and self._passes_gates(record):
            if strategy is Strategy.AFTER_BACKOFF and self._backoff.is_backing_off(record, time):
                self._backoff.add(record)
                self.facts.incoming["backoff", label] += 1
                return self._place_of(record)
            self._make_active(record, label, time)
            return Place.ACTIVE
        if not len(self._pool):
            self._flushed_until = time - (time - self.clock.start) % POOL_FLUSH_PERIOD
        self._pool.put(record)
        if is_new_to_pool:
            self.facts.incoming["unschedulable", label] += 1
        return self._place_of(record)

    def _make_active(self, record: QueuedPod, label: str, time: int) -> None:
        if record.initial_attempt is None:
            record.initial_attempt = time
        self._active.put(record)
        self.facts.incoming["active", label] += 1

    def _passes_gates(self, record: QueuedPod) -> bool:
        refusal = self._pre_enqueue(record)
        if refusal is None:
            record.gating_plugin = ""
            record.gating_reasons = ()
            return True
        if refusal.plugin not in record.rejectors:
            self.facts.rejected(frozenset((refusal.plugin,)), record.profile, 1)
        record.unschedulable_plugins |= {refusal.plugin}
        record.gating_plugin = refusal.plugin
        record.gating_reasons = refusal.reasons
        if refusal.code is Code.ERROR:
            self._held.append(record)
        return False

    def _update_in_pool(self, record: QueuedPod, old: PodInfo, new: PodInfo, time: int) -> Place:
        self._pool.replace_pod(record, new)
        self.nominator.update(old, new)
        for event in pod_events(old.pod, new.pod):
            strategy = self._hints.strategy(record, event, old, new)
            if strategy is Strategy.SKIP:
                continue
            self._pool.remove(record.key)
            place = self._put(record, strategy, event.label, time, is_new_to_pool=False)
            if place not in (Place.UNSCHEDULABLE, Place.GATED):
                return place
        return self._place_of(record)

    def _lookup(self, key: str) -> QueuedPod | None:
        return self._active.get(key) or self._backoff.get(key) or self._pool.get(key)

    def _take_out(self, record: QueuedPod) -> None:
        key = record.key
        if self._active.remove(key) is None and self._backoff.remove(key) is None:
            self._pool.remove(key)

    def _place_of(self, record: QueuedPod) -> Place:
        key = record.key
        if key in self._active:
            return Place.ACTIVE
        if key in self._backoff.rejected:
            return Place.BACKOFF
        if key in self._backoff.errors:
            return Place.ERROR_BACKOFF
        return Place.GATED if record.is_gated else Place.UNSCHEDULABLE

    def _flush_pool(self, time: int) -> Generator[None, None, int]:
        """Retries the pods that no event has woken for longer than the limit.

        Includes gated pods, which kube-scheduler 1.36 leaves out: their gate is checked again, in case its opening was
        missed.
        """
        overdue = [record for record in self._pool if time - record.timestamp > self._maximum_in_pool]
        moved = 0
        for record in overdue:
            record.was_flushed = True
            self._pool.remove(record.key)
            place = self._put(record, Strategy.AFTER_BACKOFF, UNSCHEDULABLE_TIMEOUT.label, time, is_new_to_pool=False)
            moved += place not in (Place.UNSCHEDULABLE, Place.GATED)
            yield
        if overdue:
            self._in_flight.append(UNSCHEDULABLE_TIMEOUT, None, None)
        return moved

    # --- for people and tests -----------------------------------------------------------------------------------------

    def pending_counts(self) -> dict[str, int]:
        """The gauge ``pending_pods``, by its label."""
        return {
            "active": len(self._active),
            "backoff": len(self._backoff),
            "unschedulable": self._pool.unschedulable_count,
            "gated": self._pool.gated_count,
        }

    @property
    def in_flight(self) -> InFlight:
        """The attempts under way and the events kept for them; read only."""
        return self._in_flight

    def find(self, key: str) -> QueuedPod | None:
        """The record of a pod that waits (``namespace/name``), or None. Pods in flight: ``in_flight``."""
        return self._lookup(key)

    def active_pods(self) -> tuple[QueuedPod, ...]:
        """Active pods, the next one first."""
        return self._active.in_order()

    def backoff_pods(self) -> tuple[QueuedPod, ...]:
        """Pods in back-off after a rejection, in the order in which they would be popped."""
        return self._backoff.rejected.in_order()

    def error_backoff_pods(self) -> tuple[QueuedPod, ...]:
        """Pods in back-off after an error, in order of the end of their wait."""
        return self._backoff.errors.in_order()

    def pool_pods(self) -> tuple[QueuedPod, ...]:
        """Unschedulable and gated pods, in order of insertion."""
        return tuple(self._pool)

    def first_waiting(self, limit: int, slice_size: int) -> Generator[None, None, tuple[QueuedPod, ...]]:
        """At most ``limit`` pods: active ones, back-off and the pool, each in its order, as of the start. Yields after
        each ``slice_size`` pods."""
        first: list[QueuedPod] = []
        for heap in (self._active, self._backoff.rejected, self._backoff.errors):
            first += yield from heap.first_in_slices(limit - len(first), slice_size)
        first += islice(self._pool, limit - len(first))
        return tuple(first)

    def seconds_since(self, time: int, now: Now) -> float:
        """Seconds from a record's time (queue time) until now."""
        return (self.clock.read(now) - time) / SECOND

    def story(self, record: QueuedPod) -> PodStory:
        """The description of one pod, in flight or waiting."""
        place = Place.IN_FLIGHT if self._in_flight.get(record.uid) is record else self._place_of(record)
        return story_of(record, place, self._next_try(record, place), self._hints, self.clock)

    def next_try(self, record: QueuedPod, place: Place) -> int | None:
        """When a pod is tried again without an event, in nanoseconds since 1970; None: at once, never, or unknown.

        A gated pod is never tried: the flush only asks its gate again.
        """
        time = self._next_try(record, place)
        return None if time is None else self.clock.wall(time)

    def describe(self) -> tuple[PodStory, ...]:
        """The descriptions of all pods: active ones in order, then back-off, pool, and those in flight."""
        waiting = (*self.active_pods(), *self.backoff_pods(), *self.error_backoff_pods(), *self._pool)
        trying = tuple(record for record in self._in_flight.entries if isinstance(record, QueuedPod))
        return tuple(self.story(record) for record in (*waiting, *trying))

    def _next_try(self, record: QueuedPod, place: Place) -> int | None:
        if place in (Place.BACKOFF, Place.ERROR_BACKOFF):
            return self._backoff.release_of(record)
        if (
            place is Place.UNSCHEDULABLE
            and record.group
            and (retry := self._group_retries.of(record.group)) is not None
        ):
            return retry
        return self._flush_of(record) if place is Place.UNSCHEDULABLE else None

    def _flush_of(self, record: QueuedPod) -> int:
        """The first flush of the pool at which this pod is overdue."""
        earliest = max(record.timestamp + self._maximum_in_pool + 1, self._flushed_until + 1)
        periods = -(-(earliest - self.clock.start) // POOL_FLUSH_PERIOD)
        return self.clock.start + periods * POOL_FLUSH_PERIOD

    def check(self) -> None:
        """Raises InvariantViolation unless every pod is in one place, and counts and gauges agree with a recount."""
        check_places(self._active, self._backoff, self._pool, self.facts)
        self._pool.check()
        self._in_flight.check()
        self.nominator.check()
