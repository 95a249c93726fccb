"""Runs the cycles of groups, one group at a time, a member a step, so that pods without a group are tried in between.

While a member waits for extenders, only its group waits: it works on a fork of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.cycle_context import CycleContext
from scheduler.engine.deadlines import ANSWER_GRACE_SECONDS, Deadlines, ExtenderDeadline
from scheduler.engine.extender_round import Answers
from scheduler.engine.group_attempt import GroupAttempt, GroupResult
from scheduler.engine.group_commit import Latest, commit, without_nodes
from scheduler.engine.group_cycle import GroupUnit, Search, Trial, forked, search
from scheduler.engine.group_preemption import search_with_preemption, still_helps
from scheduler.engine.internal import CycleEnded, GroupCycleEnded, Step
from scheduler.engine.machine import Claims, Part, ReadsPods
from scheduler.engine.outcome import CycleOutcome, Placed
from scheduler.engine.tickets import GroupTicket
from scheduler.framework.post_filter import Remove
from scheduler.messages.commands import CallExtender
from scheduler.messages.now import Now
from scheduler.messages.stimuli import ExtenderAnswered
from scheduler.queue.queued_pod import QueuedPod


@dataclass(slots=True, eq=False)
class _UnderWay:
    unit: GroupUnit
    record: GroupAttempt
    context: CycleContext
    """Of the fork."""
    search: Search
    began: float
    """By the stopwatch."""
    is_begun: bool = False
    is_sliced: bool = True
    calls: tuple[CallExtender, ...] = ()
    answers: dict[int, ExtenderAnswered] = field(default_factory=dict)


class GroupCycles:
    """At most one group is under way."""

    CLAIMS = Claims(
        writes=frozenset({Part.GROUP_CYCLES}),
        reads=frozenset({Part.CACHE, Part.NOMINATOR, Part.ROOM, Part.KNOWN_PODS, Part.CLASSES}),
        tickets=frozenset({GroupTicket}),
    )

    def __init__(self, context: CycleContext, known_pods: ReadsPods, deadlines: Deadlines) -> None:
        self._context = context
        self._known_pods = known_pods
        self._deadlines = deadlines
        self._under_way: _UnderWay | None = None

    @property
    def is_under_way(self) -> bool:
        return self._under_way is not None

    @property
    def is_waiting(self) -> bool:
        """Whether the group under way waits for extenders."""
        return self._under_way is not None and bool(self._under_way.calls)

    def begin(self, unit: GroupUnit, now: Now) -> Sequence[Step]:
        """Begin with a group, and take its first step."""
        record = GroupAttempt(unit.key, unit.profile.scheduler_name, now.wall, tried=len(unit.members))
        return self._start(unit, record, now, is_sliced=True)

    def _start(self, unit: GroupUnit, record: GroupAttempt, now: Now, *, is_sliced: bool) -> Sequence[Step]:
        context = forked(self._context)
        began = self._context.stopwatch()
        group = context.cache.groups.get(unit.key)
        starts = search_with_preemption if group is not None and group.preempts_as_one else search
        self._under_way = _UnderWay(unit, record, context, starts(context, unit, now), began, is_sliced=is_sliced)
        return self.step(now)

    def step(self, now: Now) -> Sequence[Step]:
        """Try one more member of the group under way; its extenders must have answered."""
        under_way = self._under_way
        assert under_way is not None
        answers = tuple([under_way.answers[call.ticket] for call in under_way.calls])
        under_way.calls, under_way.answers = (), {}
        return self._go_on(under_way, answers, now)

    def answered(self, _owner: GroupTicket, answer: ExtenderAnswered, now: Now) -> Sequence[Step]:
        under_way = self._under_way
        if under_way is None or all(call.ticket != answer.ticket for call in under_way.calls):
            return ()
        under_way.answers[answer.ticket] = answer
        return () if len(under_way.answers) < len(under_way.calls) else self.step(now)

    def abandon(self) -> Sequence[QueuedPod]:
        """Give up the group under way, and return its pods."""
        under_way, self._under_way = self._under_way, None
        if under_way is None:
            return ()
        under_way.search.close()
        for call in under_way.calls:
            self._deadlines.drop(ExtenderDeadline(call.ticket))
            self._context.tickets.drop(call.ticket)
        return [member.queued for member in under_way.unit.members]

    def _go_on(self, under_way: _UnderWay, answers: Answers, now: Now) -> Sequence[Step]:
        try:
            while True:
                calls = under_way.search.send(answers) if under_way.is_begun else next(under_way.search)
                under_way.is_begun = True
                answers = ()
                if calls or under_way.is_sliced:
                    break
        except StopIteration as done:
            self._under_way = None
            return self._end(under_way, done.value, now)
        under_way.calls = calls
        for call in calls:
            due = now.monotonic + call.timeout_seconds + ANSWER_GRACE_SECONDS
            self._deadlines.set(ExtenderDeadline(call.ticket), due)
        return calls

    def _end(self, under_way: _UnderWay, trial: Trial, now: Now) -> Sequence[Step]:
        unit, record = under_way.unit, under_way.record
        self._context.next_start = under_way.context.next_start
        record.algorithm_seconds += self._context.stopwatch() - under_way.began
        for member in unit.members:
            member.attempt = trial.attempts.get(member.uid, member.attempt)
        outcomes: dict[str, CycleOutcome] | None = None
        if trial.result is GroupResult.SCHEDULED:
            outcomes = commit(self._context, unit, trial, self._latest(unit), now)
            if outcomes is None and under_way.is_sliced:
                # Something else has taken the room meanwhile. In one step nothing can come in between.
                record.repeats += 1
                return self._start(unit, record, now, is_sliced=False)
            if outcomes is None:
                trial.result, trial.message = GroupResult.ERROR, CHANGED_MEANWHILE
        if not still_helps(self._context, unit, trial, self._latest(unit), now):
            trial.result, trial.message, trial.room = GroupResult.ERROR, CHANGED_SINCE, None
        if outcomes is None:
            outcomes = without_nodes(unit, trial)
        record.duration_seconds += self._context.stopwatch() - under_way.began
        _fill(record, unit, trial, outcomes)
        ended: list[Step] = [
            CycleEnded(member.queued, unit.profile, member.attempt, outcomes[member.uid]) for member in unit.members
        ]
        return [*ended, GroupCycleEnded(record)]

    def _latest(self, unit: GroupUnit) -> Latest:
        """The members as they are now, of those that still wait for a node."""
        found: dict[str, PodInfo] = {}
        for member in unit.members:
            info = self._known_pods.by_uid(member.uid)
            if info is not None and not info.node_name and not info.is_terminating:
                found[member.uid] = info
        return found


CHANGED_SINCE = "the cluster changed while victims were sought for the pod group"
CHANGED_MEANWHILE = "the cluster changed while extenders were asked about the pod group"


def _fill(record: GroupAttempt, unit: GroupUnit, trial: Trial, outcomes: dict[str, CycleOutcome]) -> None:
    record.result, record.message = trial.result, trial.message
    if isinstance(trial.room, Remove):
        record.victims = tuple([victim.key for victim in trial.room.victims])
    record.placements = trial.placements
    record.placement = trial.placement.name if trial.placement is not None and trial.placements > 1 else ""
    key_of = {member.uid: member.queued.key for member in unit.members}
    record.placed = tuple(
        (key_of[uid], node)
        for uid, node in trial.nodes.items()
        if trial.result is not GroupResult.SCHEDULED or isinstance(outcomes[uid], Placed)
    )
    placed = {key for key, _ in record.placed}
    record.failed = tuple(
        (key_of[uid], outcome.message)
        for uid, outcome in outcomes.items()
        if not isinstance(outcome, Placed) and key_of[uid] not in placed
    )
