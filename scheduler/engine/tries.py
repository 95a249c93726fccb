"""Prepares what the queue hands out: a pod with its profile and Attempt, or the unit of its group."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from msgspec import Struct

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.fails_alike import fails_alike
from scheduler.engine.failure import skipped
from scheduler.engine.group_cycle import GroupUnit, Member
from scheduler.engine.group_members import by_urgency, ends_of_several_profiles
from scheduler.engine.internal import CycleEnded, RoomTakenBack, Step
from scheduler.engine.known_failures import KnownFailures, is_repeatable
from scheduler.engine.making_room.room import MakingRoom
from scheduler.engine.outcome import NotPlaced
from scheduler.framework.plugin_times import TIMED_CYCLES
from scheduler.framework.post_filter import Kept
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.queue.aftermath import Fate
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.scheduling_queue import SchedulingQueue


class _Repeated(Struct, frozen=True):
    """A pod whose attempt ended as one of its class before it, in a state of the cluster."""

    pod: PodInfo
    outcome: NotPlaced
    state: Hashable

    def holds(self, pod: PodInfo, outcome: NotPlaced, state: Hashable) -> bool:
        """Whether this is that attempt, and neither the pod nor the cluster has changed since."""
        return pod is self.pod and outcome is self.outcome and state == self.state


class Tries:
    """``profiles``: those in force, by scheduler name. ``kept``: what the profiles' attempts keep for each other."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        queue: SchedulingQueue,
        cache: ClusterCache,
        room: MakingRoom,
        has_extenders: bool,
        kept: Kept,
    ) -> None:
        self.profiles = profiles
        self._room = room
        self._has_extenders = has_extenders
        self.last_attempt: Attempt | None = None
        """The attempt begun last, for reports."""
        self._queue = queue
        self._cache = cache
        self._kept = kept
        self._repeated: _Repeated | None = None

    def next(self, plain_from: int | None, now: Now) -> QueuedPod | None:
        """The next pod to be tried, as by ``SchedulingQueue.pop``."""
        return self._queue.pop(now, plain_from=plain_from, state=self._state)

    def _state(self) -> Hashable:
        return self._cache.state

    def failed(self, ended: CycleEnded, outcome: NotPlaced, fate: Fate) -> None:
        """The attempt found no node; where pods like this one would not either, they are not taken early."""
        if fate is not Fate.REQUEUED or self._has_extenders:
            return
        queued, state, repeated = ended.queued, self._cache.state, self._repeated
        if repeated is None or not repeated.holds(queued.info, outcome, state):
            known = self._kept.of(KnownFailures)
            key = self._queue.class_of(queued)
            before = known.get(key, state)
            if before is None or before.outcome is not outcome:
                if not fails_alike(ended, outcome, self._room):
                    return
                pod = queued.info
                if key != pod.uid and is_repeatable(ended.profile, pod, outcome, ended.attempt, self._cache.table):
                    known.put(key, state, outcome, ended.attempt)
        self._queue.found_no_node(queued, state)

    def known_end(self, queued: QueuedPod, profile: Profile, attempt: Attempt) -> Sequence[Step]:
        """The end of an attempt that is known before it, which it completes; nothing where the pod has to be tried.

        Cycles whose plugins are timed are run, so that there is something to time.
        """
        info, known = queued.info, self._kept.of(KnownFailures)
        self._repeated = None
        if not known.ends or self._queue.cycle % TIMED_CYCLES == 1 or self._has_extenders:
            return ()
        state = self._cache.state
        end = known.get(self._queue.class_of(queued), state) if known.has_any(state) else None
        if end is None or self._cache.nominator.nominated_node(info.uid) or len(self._room):
            return ()
        if self._room.leaves_out_nodes(info):
            return ()
        end.fill_in(attempt)
        self._repeated = _Repeated(info, end.outcome, state)
        return (CycleEnded(queued, profile, attempt, end.outcome),)

    def profile_of(self, queued: QueuedPod) -> tuple[Profile | None, Sequence[Step]]:
        """The profile of a pod that is to be tried; None, and the report on it, for one that is not."""
        info = queued.info
        profile = self.profiles.get(info.pod.spec.scheduler_name)
        if profile is None or info.is_terminating or self._cache.is_assumed(info.uid):
            self._queue.done(info.uid)
            return None, self._skip(info) if profile is not None and info.is_terminating else []
        return profile, ()

    def _skip(self, info: PodInfo) -> list[Step]:
        """The report on a pod that was deleted before it was tried. Its nomination ends, since finalizers may keep the
        pod for long; kube-scheduler, which looks nominated pods up in its queues, counts no requests of it either."""
        nominator = self._cache.nominator
        node = nominator.nominated_node(info.uid)
        nominator.delete(info.uid)
        return [skipped(info), RoomTakenBack(info.on_node(node))] if node else [skipped(info)]

    def attempt(self, queued: QueuedPod, profile: Profile, now: Now) -> Attempt:
        """A new Attempt at the pod, with what is known of it before it is tried."""
        self.last_attempt = Attempt(
            pod=queued.key,
            uid=queued.uid,
            scheduler_name=profile.scheduler_name,
            number=queued.attempts,
            started_wall=now.wall,
            started_monotonic=now.monotonic,
            was_flushed=queued.was_flushed,
            queued_seconds=self._queue.seconds_since(queued.initial_attempt or queued.timestamp, now),
        )
        return self.last_attempt

    def unit_of(self, first: QueuedPod, now: Now) -> tuple[GroupUnit | None, Sequence[Step]]:
        """A pod together with those of its group that may be tried, and the reports on those that may not
        (podgroups.md §5)."""
        siblings = self._cache.groups.members(first.group).unscheduled
        keys = [info.key for info in siblings if info.uid != first.uid]
        pods = [first, *self._queue.pop_siblings(first.group, keys, now)]
        pods.sort(key=by_urgency)
        steps: list[Step] = []
        members: list[Member] = []
        profiles: dict[str, Profile] = {}
        for queued in pods:
            profile, said = self.profile_of(queued)
            steps += said
            if profile is not None:
                members.append(Member(queued, self.attempt(queued, profile, now)))
                profiles.setdefault(profile.scheduler_name, profile)
        if len(profiles) > 1:
            return None, [*steps, *ends_of_several_profiles(members, profiles)]
        for profile in profiles.values():
            return GroupUnit(first.group, profile, members), steps
        return None, steps
