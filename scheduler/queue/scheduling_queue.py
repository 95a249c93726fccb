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

from collections.abc import Callable, Generator, Hashable, Iterable

from msgspec.structs import replace

from scheduler.cluster.nominator import Nominator
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.pod_template import template_key
from scheduler.framework.events import (
    FORCE_ACTIVATE,
    POP_FROM_BACKOFF,
    SCHEDULE_ATTEMPT_FAILURE,
    ClusterEvent,
    EventObject,
)
from scheduler.messages.now import Now
from scheduler.queue.active import ActiveQueue
from scheduler.queue.backoff import BackoffQueues
from scheduler.queue.clock import SECOND, QueueClock
from scheduler.queue.cluster_events import PENDING_POD_ADD, PENDING_POD_UPDATE, pod_events
from scheduler.queue.flushes import Flushes
from scheduler.queue.group_retries import GroupRetries
from scheduler.queue.hints import HintMap, Strategy
from scheduler.queue.in_flight import InFlight
from scheduler.queue.interrupted import Waking
from scheduler.queue.invariants import check_places
from scheduler.queue.listing import QueueListing
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.places import Places
from scheduler.queue.pool import ClassKey, UnschedulablePool
from scheduler.queue.queue_settings import GroupOf, PreEnqueue, QueuePlugins, QueueSettings, no_group
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.story import Place
from scheduler.queue.timed_moves import TimedMoves
from scheduler.queue.waking import Only, Wake, strategy_after_attempt

StateNow = Callable[[], Hashable]


class SchedulingQueue(QueueListing):
    """See the module. ``started`` is when the queue starts; the pool's flush, every 30 s, is counted from there.
    ``likeness_key``: see ``BackoffQueues``."""

    def __init__(
        self,
        plugins: QueuePlugins,
        facts: QueueMetrics,
        nominator: Nominator,
        started: Now,
        settings: QueueSettings = QueueSettings(),  # noqa: B008 - frozen
        likeness_key: ClassKey = template_key,
        group_of: GroupOf = no_group,
    ) -> None:
        self.facts = facts
        self.nominator = nominator
        self.cycle = 0
        """The number of pods popped so far."""
        self.is_closed = False
        self._settings = settings
        clock = QueueClock(started)
        self._flushes = Flushes(clock.start, round(settings.maximum_in_pool * SECOND))
        backoff = BackoffQueues(
            plugins.queue_sort,
            round(settings.initial_backoff * SECOND),
            round(settings.maximum_backoff * SECOND),
            settings.pops_from_backoff,
            likeness_key,
        )
        active = ActiveQueue(plugins.queue_sort)
        places = Places(active, backoff, UnschedulablePool(template_key), self._flushes, plugins.pre_enqueue, facts)
        in_flight = InFlight(settings.event_limit)
        self._group_of = group_of
        self._group_retries = GroupRetries()
        self.waking = Waking(settings.steps_a_slice)
        self.held = places.held
        timed = TimedMoves(places, self._flushes, self._group_retries, in_flight)
        super().__init__(places, in_flight, timed, plugins.hints, clock)

    def reconfigure(self, hints: HintMap, pre_enqueue: PreEnqueue, settings: QueueSettings, now: Now) -> None:
        """Replaces plugins and durations. All pods of the pool are activated, since what held them back may be gone;
        others are held where a gate is new. Taking pods early from the back-off and the sort order stay as they were.
        """
        self.finish_waking()
        self.waking = Waking(settings.steps_a_slice)
        self._hints = hints
        self._places.replace_gates(pre_enqueue, self.clock.read(now))
        self._settings = replace(settings, pops_from_backoff=self._settings.pops_from_backoff)
        backoff = self._places.backoff
        backoff.set_limits(round(settings.initial_backoff * SECOND), round(settings.maximum_backoff * SECOND))
        backoff.forget_failures()
        self._flushes.limit = round(settings.maximum_in_pool * SECOND)
        self.activate([record.info for record in self._places.pool], now)

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
        if (record := self._places.active.get(new.key)) is not None:
            record.replace_pod(new)
            self._places.active.put(record)
            self.nominator.update(old, new)
            return Place.ACTIVE
        if (record := self._places.backoff.get(new.key)) is not None:
            record.replace_pod(new)
            self._places.backoff.replace(record)
            self.nominator.update(old, new)
            return self._places.place_of(record)
        if (record := self._places.pool.get(new.key)) is not None:
            return self._update_in_pool(record, old, new, self.clock.read(now))
        return self._enter(new, PENDING_POD_UPDATE.label, self.clock.read(now))

    def delete(self, info: PodInfo) -> None:
        """Removes a pod that was deleted or bound by any scheduler. One in flight stays: its attempt ends by itself."""
        if self.waking.unfinished:
            self.waking.finish()
        self.nominator.delete(info.uid)
        record = self._places.lookup(info.key)
        if record is not None and record.uid == info.uid:
            self._places.take_out(record)
            self.facts.rejected(record.rejectors, record.profile, -1)

    # --- attempts -----------------------------------------------------------------------------------------------------

    def pop(self, now: Now, *, plain_from: int | None = None, state: StateNow | None = None) -> QueuedPod | None:
        """Removes and returns the next pod, or None. ``done`` must be called once for each, however its attempt ends.

        With no active pod, the rejected pod whose back-off ends first is taken early. Passed over are pods like one
        that found no node in this ``state`` of the cluster (called only then), or like one since whose attempt nothing
        has happened that may help it. ``plain_from``: only an active pod of no group and of at least this priority.
        """
        if self.waking.unfinished:
            self.waking.finish()
        while (record := self._next(plain_from, state)) is not None:
            if self._begin(record, now):
                return record
        return None

    def _next(self, plain_from: int | None, state: StateNow | None) -> QueuedPod | None:
        if self.is_closed:
            return None
        if plain_from is not None:
            return self._places.active.take_plain(plain_from)
        record = self._places.active.take()
        if record is None and self._settings.pops_from_backoff and self._places.backoff.rejected.live:
            record = self._places.backoff.take_early(None if state is None else state(), self._places.pool.waits)
            if record is not None:
                self.facts.incoming["active", POP_FROM_BACKOFF] += 1
        return record

    def pop_siblings(self, group: str, keys: Iterable[str], now: Now) -> list[QueuedPod]:
        """Removes and returns those of these pods (``namespace/name``) that may be tried, wherever they wait and
        whatever their back-off; gates still apply. As ``pop``, of each."""
        self.finish_waking()
        self._group_retries.drop(group)
        found: list[QueuedPod] = []
        for key in keys:
            record = self._places.take_for_attempt(key)
            if record is not None and self._begin(record, now):
                found.append(record)
        return found

    def _begin(self, record: QueuedPod, now: Now) -> bool:
        """Begin an attempt of a pod that was taken out; False for one that is being tried already (a bug elsewhere)."""
        if rejectors := record.rejectors:
            self.facts.rejected(rejectors, record.profile, -1)
        if not self._in_flight.begin(record):
            self.facts.problem(f"the same pod is tracked in multiple places in the scheduler: {record.key}")
            return False
        if record.initial_attempt is None:
            self._places.note_ready(record, self.clock.read(now))
        record.attempts += 1
        self.cycle += 1
        return True

    def add_unschedulable(self, record: QueuedPod, now: Now) -> Place:
        """Returns a pod whose attempt failed, with its rejectors on the record (none after an error). Calls ``done``.

        Events since the pod was popped count as if they came now. A pod that is already queued (a bug elsewhere) stays
        where it is.
        """
        self.finish_waking()
        try:
            present = self._places.lookup(record.key)
            if present is not None:
                place = self._places.place_of(present)
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
            place = self._places.put(record, strategy, SCHEDULE_ATTEMPT_FAILURE, time)
            if record.group and place is Place.UNSCHEDULABLE:
                self._group_retries.note(record.group, record.key, self._places.backoff.release_of(record))
            return place
        finally:
            self._in_flight.done(record.uid)

    def found_no_node(self, record: QueuedPod, state: Hashable) -> None:
        """The attempt of this pod, which is back, found no node in this state of the cluster: pods like it are not
        taken early from the back-off before there is another, and none while it is in the pool."""
        self._places.backoff.found_no_node(record, state)

    def class_of(self, record: QueuedPod) -> Hashable:
        """Equal for pods whose attempts end alike; the UID of a pod that is like no other."""
        return self._places.backoff.class_of(record)

    def done(self, uid: str) -> None:
        """Ends the attempt, so that its events need not be kept. Unknown pods are ignored."""
        if self.waking.unfinished:
            self.waking.finish()
        self._in_flight.done(uid)

    # --- what wakes pods ----------------------------------------------------------------------------------------------

    def move_all(
        self,
        event: ClusterEvent,
        old: EventObject | None,
        new: EventObject | None,
        now: Now,
        only: Only | None = None,
    ) -> int:
        """Moves the pods of the pool that a cluster event may help. Returns the number of pods moved, 0 where the wake
        is only begun (``is_waking``).

        ``old`` and ``new``: the object before and after, pods as PodInfo, None where absent. ``only`` restricts the
        pods of the pool; the event is kept for all pods in flight.
        """
        if not len(self._places.pool) and not self.waking.unfinished:
            if self._in_flight and self._hints.is_of_interest(event):
                self._in_flight.append(event, old, new)
            return 0
        if not self._hints.is_of_interest(event):
            return 0
        return self.waking.begin(self._moving(event, old, new, self.clock.read(now), only))

    def _moving(
        self, event: ClusterEvent, old: EventObject | None, new: EventObject | None, time: int, only: Only | None
    ) -> Generator[None, None, int]:
        wake = Wake(self._places.pool, self._hints, event, old, new, self._places.pre_enqueue, only)
        moving = yield from wake.worth_moving()
        for record, strategy in moving:
            self._places.pool.remove(record.key)
            self._places.put(record, strategy, event.label, time)
            yield
        self._in_flight.append(event, old, new)
        return len(moving)

    @property
    def is_waking(self) -> bool:
        """Whether a wake has been interrupted. Until it is finished nothing may change that hints and gates read; every
        other operation finishes it first."""
        return bool(self.waking.unfinished)

    def continue_waking(self) -> None:
        """Goes on for a slice."""
        self.waking.go_on()

    def finish_waking(self) -> None:
        """Finishes what has been interrupted."""
        if self.waking.unfinished:
            self.waking.finish()

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
            record = self._places.backoff.remove(key)
            if record is not None:
                self._places.make_active(record, FORCE_ACTIVATE.label, time)
                moved += 1
                continue
            record = self._places.pool.remove(key)
            if record is not None:
                place = self._places.put(record, Strategy.IMMEDIATELY, FORCE_ACTIVATE.label, time, is_new_to_pool=False)
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
        time, label, moved = self.clock.read(now), FORCE_ACTIVATE.label, 0
        for key in keys:
            record = self._places.pool.remove(key)
            if record is not None:
                place = self._places.put(record, Strategy.AFTER_BACKOFF, label, time, is_new_to_pool=False)
                moved += place not in (Place.UNSCHEDULABLE, Place.GATED)
            for trying in tuple(self._in_flight.named(key)) if record is None else ():
                self._in_flight.append(FORCE_ACTIVATE, None, trying.info)
        return moved

    def take_held(self) -> tuple[tuple[QueuedPod, bool], ...]:
        """The pods that have been gated since the last call, and whether by an error, which is reported to their users
        (kube-scheduler 1.36 only logs it). The API server reports ordinary gates: of these, only those of groups' pods.
        """
        return self._places.take_held()

    # --- time ---------------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When ``tick`` is due, as ``Now.monotonic``; None while no pod waits for a time."""
        date = self._timed.next()
        return None if date is None else self.clock.monotonic(date)

    def tick(self, now: Now) -> int:
        """Moves the pods whose back-off is over and, every 30 s, those too long in the pool. Returns the number of
        pods moved, 0 where that is only begun (``is_waking``). Does nothing before it is due."""
        self.finish_waking()
        return self.waking.begin(self._timed.made(self.clock.read(now)))

    def close(self) -> None:
        """Stops popping; attempts under way are dropped."""
        self.finish_waking()
        self.is_closed = True
        for uid in self._in_flight.uids:
            self._in_flight.done(uid)

    # --- inside: places -----------------------------------------------------------------------------------------------

    def _enter(self, info: PodInfo, label: str, time: int) -> Place:
        known = self._places.lookup(info.key)
        if known is not None:
            self._places.take_out(known)
            self.facts.rejected(known.rejectors, known.profile, -1)
        record = QueuedPod(info, time, self._group_of(info))
        place = self._places.put(record, Strategy.IMMEDIATELY, label, time)
        if place is Place.ACTIVE:
            self.nominator.add(info)
        return place

    def _update_in_pool(self, record: QueuedPod, old: PodInfo, new: PodInfo, time: int) -> Place:
        self._places.pool.replace_pod(record, new)
        self.nominator.update(old, new)
        for event in pod_events(old.pod, new.pod):
            strategy = self._hints.strategy(record, event, old, new)
            if strategy is Strategy.SKIP:
                continue
            self._places.pool.remove(record.key)
            place = self._places.put(record, strategy, event.label, time, is_new_to_pool=False)
            if place not in (Place.UNSCHEDULABLE, Place.GATED):
                return place
        return self._places.place_of(record)

    def check(self) -> None:
        """Raises InvariantViolation unless every pod is in one place, and counts and gauges agree with a recount."""
        places = self._places
        check_places(places.active, places.backoff, places.pool, self.facts)
        self._places.pool.check()
        self._in_flight.check()
        self.nominator.check()
