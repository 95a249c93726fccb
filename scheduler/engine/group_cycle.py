"""The scheduling cycle of a group of pods, all or none: the search, on forks of the cluster.

1.  Placements are sets of nodes, one of which will hold the group. Without a plugin for them there is one: all nodes.
2.  Each placement is tried on a fork: each member runs the ordinary cycle and, if it gets a node, counts there for the
    next ones. The group is feasible as soon as Permit allows a member without a wait: with GangScheduling, when the
    quorum is complete.
3.  Of several feasible placements the best score wins (``placement_choice.py``).

The search changes nothing; ``group_commit.py`` commits its result. It is a generator that yields after each member, so
that other pods are tried meanwhile; the commit deals with what they have changed. Source:
docs/kube-scheduler/podgroups.md §6, §7.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.effects import Effect
from scheduler.cluster.groups.group import GANG_PLUGIN
from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.cycle_context import CycleContext
from scheduler.engine.error_texts import cause_of
from scheduler.engine.extender_round import Answers, Calls
from scheduler.engine.group_attempt import NO_PLACEMENTS, UNSCHEDULABLE_GROUP, WAITING_GROUP, GroupResult
from scheduler.engine.outcome import CycleOutcome, NotPlaced
from scheduler.engine.outcome import Placed as PodPlaced
from scheduler.engine.placement_choice import PlacementChoice
from scheduler.engine.scheduling_cycle import Cycle, place_on, scheduling_cycle
from scheduler.engine.tickets import GroupTicket
from scheduler.framework.placements import Placed, Placement
from scheduler.framework.post_filter import CLEAR_NOMINATION, Kept, NominationMode, Remove, Room
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.messages.status import Refusal
from scheduler.queue.queued_pod import QueuedPod

GENERATE, SCORE = "PlacementGenerate", "PlacementScore"
"""Extension points, as metrics name them."""

PAUSE: Calls = ()
"""Yielded between two members: nothing is asked."""


class Member(Struct, eq=False):
    """A pod that is tried with its group. ``attempt`` is that of the trial that counts."""

    queued: QueuedPod
    attempt: Attempt

    @property
    def uid(self) -> str:
        return self.queued.uid


class GroupUnit(Struct, frozen=True):
    """What is tried: the members in their order. ``key``: namespace/name of the group."""

    key: str
    profile: Profile
    members: Sequence[Member]


class Trial(Struct, eq=False):
    """What became of the members in one placement. ``outcomes`` by UID, in the order in which they were tried."""

    result: GroupResult = GroupResult.UNSCHEDULABLE
    message: str = UNSCHEDULABLE_GROUP
    outcomes: dict[str, CycleOutcome] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    """UID → node of each pod that counts on one, those that need preemption there included."""
    waits: frozenset[str] = frozenset()
    """Permit plugins that asked a member to wait."""
    room: Room | None = None
    """How the group as a whole makes room."""
    gives_up_room: bool = False
    """Whether it would not fit even in place of all that it may remove: what its members are nominated to is free."""
    placement: Placement | None = None
    placements: int = 0
    """How many placements were tried."""
    placement_seconds: dict[str, float] = field(default_factory=dict)
    """See ``GroupAttempt``."""


Search = Generator[Calls, Answers, Trial]


class ForkAssumptions:
    """What a trial assumes: it is gone with its fork."""

    __slots__ = ("_cache", "on_trial")

    def __init__(self, cache: ClusterCache, on_trial: Collection[str] = ()) -> None:
        self._cache = cache
        self.on_trial: set[str] = set(on_trial)

    def assume(self, info: PodInfo) -> None:
        self._cache.assume(info)
        self.on_trial.add(info.uid)
        self._cache.nominator.delete(info.uid)

    def release(self, uid: str, *, is_announced: bool = False) -> None:
        self._cache.forget(uid)
        self.on_trial.discard(uid)

    def apply(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self._cache.apply(effect)


def forked(context: CycleContext) -> CycleContext:
    """The context over a fork of its cluster, for the trial of a group."""
    fork = context.on_fork()
    assumptions = ForkAssumptions(fork.cache, context.assumptions.on_trial)
    return replace(fork, assumptions=assumptions, kept=Kept(), asks_for=GroupTicket())


def without_nominations(context: CycleContext, unit: GroupUnit) -> CycleContext:
    """The context of a fork in which no member counts on the node that it is nominated to."""
    for member in unit.members:
        context.nominator.delete(member.uid)
    return context


def not_found(key: str) -> str:
    """The error where no object describes the group with this ``namespace/name``."""
    return f'podgroup.scheduling.k8s.io "{key.partition("/")[2]}" not found'


def search(context: CycleContext, unit: GroupUnit, now: Now) -> Search:
    """The trial that counts. ``context`` is that of a fork, made for this search."""
    generator = unit.profile.placement_generator
    if generator is None:
        trial = yield from _try_members(context, unit, now)
        return _none_of(1, trial) if unit.profile.tries_placements else trial
    group = context.cache.groups.get(unit.key)
    if group is None:
        return Trial(GroupResult.ERROR, not_found(unit.key))
    began = context.stopwatch()
    try:
        found = generator.placements(group, context.cache.view)
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own fault, and is named
        return Trial(GroupResult.ERROR, f'running PlacementGenerate plugin "{generator.name}": {cause_of(error)}')
    if isinstance(found, Refusal):
        return Trial(GroupResult.ERROR, found.message)
    seconds = {GENERATE: context.stopwatch() - began}
    trial = (
        Trial(message=NO_PLACEMENTS) if not found else (yield from _try_placements(context, unit, found, seconds, now))
    )
    trial.placement_seconds = seconds
    return trial


def _try_placements(
    context: CycleContext, unit: GroupUnit, found: Sequence[Placement], seconds: dict[str, float], now: Now
) -> Search:
    choice = PlacementChoice(unit.profile.placement_scorers, context.rng)
    feasible: list[Placement] = []
    first: Trial | None = None
    best: Trial | None = None
    for placement in found:
        restricted = _restricted_to(placement, context)
        # Only the first placement is tried to the end where it fails, to report why each member does.
        trial = yield from _try_members(restricted, unit, now, stops_early=first is not None)
        context.next_start = restricted.next_start
        trial.placement, trial.placements = placement, len(found)
        if trial.result is GroupResult.ERROR:
            return trial
        first = first or trial
        if trial.result is GroupResult.SCHEDULED:
            feasible.append(placement)
            began = context.stopwatch()
            if len(found) == 1 or choice.is_kept(_placed(unit, trial, placement, restricted)):
                best = trial
            if len(found) > 1:
                seconds[SCORE] = seconds.get(SCORE, 0.0) + context.stopwatch() - began
            if choice.fault:
                return Trial(GroupResult.ERROR, choice.fault)
            yield PAUSE
    if best is None:
        assert first is not None
        first.placement = None
        return _none_of(len(found), first)
    winner = choice.winner() if len(found) > 1 else None
    if winner is None:
        return best
    again = yield from _try_members(_restricted_to(feasible[winner], context), unit, now)
    again.placement, again.placements = feasible[winner], len(found)
    return again if again.result is GroupResult.SCHEDULED else best


def _none_of(placements: int, first: Trial) -> Trial:
    """``first`` is the trial of the first placement, none of which holds the group."""
    if first.result is GroupResult.UNSCHEDULABLE:
        first.message = f"0/{placements} placements are available, first placement status: {first.message}"
    return first


def _restricted_to(placement: Placement, context: CycleContext) -> CycleContext:
    is_everything = len(placement.rows) == context.cache.view.total_nodes
    return replace(forked(context), placement=None if is_everything else placement.rows)


def _placed(unit: GroupUnit, trial: Trial, placement: Placement, context: CycleContext) -> Placed:
    pods = [outcome.pod for outcome in trial.outcomes.values() if isinstance(outcome, PodPlaced)]
    return Placed(unit.key, placement, pods, context.cache.view)


# --- one placement ----------------------------------------------------------------------------------------------------


def _try_members(context: CycleContext, unit: GroupUnit, now: Now, *, stops_early: bool = False) -> Search:
    """Each member in turn; those that have a node count there for the next ones, and those that are only nominated to
    one do not. ``stops_early``: at the member without which the quorum is out of reach."""
    trial = Trial()
    infos = [as_nominated(member.queued.info, context) for member in unit.members]
    without_nominations(context, unit)
    needs_preemption = False
    for number, (member, info) in enumerate(zip(unit.members, infos, strict=True)):
        if stops_early and _is_out_of_reach(context, unit, len(unit.members) - number):
            return trial
        attempt = trial.attempts[member.uid] = another(member.attempt)
        outcome = yield from scheduling_cycle(context, unit.profile, info, attempt, now)
        standing = outcome
        if isinstance(outcome, NotPlaced) and outcome.nomination.mode is NominationMode.SET:
            standing = yield from _beside_victims(
                context, unit.profile, info, attempt, outcome.nomination.node_name, now
            )
            if isinstance(standing, NotPlaced):
                outcome = msgspec.structs.replace(standing, nomination=CLEAR_NOMINATION)
            needs_preemption = needs_preemption or not isinstance(standing, NotPlaced)
        trial.outcomes[member.uid] = outcome
        if isinstance(outcome, NotPlaced) and outcome.is_error:
            trial.result = GroupResult.ERROR
            trial.message = f"failed to schedule other pod from a pod group: {outcome.message}"
            return trial
        if isinstance(standing, PodPlaced):
            trial.nodes[member.uid] = standing.pod.node_name
            trial.waits |= standing.waits.keys()
            if not standing.waits:
                is_waiting = needs_preemption
                trial.result = GroupResult.WAITING_ON_PREEMPTION if is_waiting else GroupResult.SCHEDULED
                trial.message = WAITING_GROUP if is_waiting else ""
        yield PAUSE
    if trial.result is GroupResult.WAITING_ON_PREEMPTION and _costs_the_quorum(context, unit, trial):
        _leave_victims(trial)
    return trial


def _is_out_of_reach(context: CycleContext, unit: GroupUnit, left: int) -> bool:
    """Whether the quorum is not reached even if all members that are left find a node."""
    return len(context.cache.groups.members(unit.key).placed) + left < _quorum(context, unit)


def _costs_the_quorum(context: CycleContext, unit: GroupUnit, trial: Trial) -> bool:
    """Whether members would remove pods of their own group without which it has no quorum."""
    rooms = [outcome.room for outcome in trial.outcomes.values() if isinstance(outcome, NotPlaced)]
    removed = {victim.uid for room in rooms if isinstance(room, Remove) for victim in room.victims}
    return len(context.cache.groups.members(unit.key).placed.keys() - removed) < _quorum(context, unit)


def _leave_victims(trial: Trial) -> None:
    """Nothing would start in the room that they make: the group does not fit, nor do those of its members that need
    them gone."""
    trial.result, trial.message = GroupResult.UNSCHEDULABLE, UNSCHEDULABLE_GROUP
    for uid, outcome in trial.outcomes.items():
        if isinstance(outcome, NotPlaced) and trial.nodes.pop(uid, None) is not None:
            trial.outcomes[uid] = msgspec.structs.replace(outcome, nomination=CLEAR_NOMINATION, room=None)


def _quorum(context: CycleContext, unit: GroupUnit) -> int:
    """How many pods of the group must have a node for one of them to start."""
    group = context.cache.groups.get(unit.key)
    is_gang = any(plugin.name == GANG_PLUGIN for plugin in unit.profile.permit_plugins)
    return group.min_count or 0 if group is not None and is_gang else 0


def _beside_victims(
    context: CycleContext, profile: Profile, info: PodInfo, attempt: Attempt, node: str, now: Now
) -> Cycle:
    """The pod counts on the node that preemption has found for it, as if its victims were gone."""
    return place_on(context, profile, info, another(attempt), now, node, is_checked=False)


def another(attempt: Attempt) -> Attempt:
    """A fresh record of the same attempt, for one more trial."""
    return msgspec.structs.replace(
        attempt, scores={}, total={}, durations={}, statuses={}, failed=(), extender_faults=()
    )


def as_nominated(info: PodInfo, context: CycleContext) -> PodInfo:
    """The pod as the nominator has it: a nomination counts before the watch has shown its write."""
    nominated = context.nominator.nominated_node(info.uid)
    if not nominated or nominated == info.pod.nominated_node_name:
        return info
    return info.nominated_to(nominated)
