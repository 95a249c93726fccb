"""Runs the scheduling cycles of groups, one group at a time, with other pods tried between its steps.

Each member is tried in one step, placed in a second, and handed to its binding cycle in a third. While a member
waits for extenders, only its group waits: it works on a fork of its own.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from msgspec import Struct, field

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.cycle_context import CycleContext
from scheduler.engine.deadlines import ANSWER_GRACE_SECONDS, Deadlines, ExtenderDeadline
from scheduler.engine.error_texts import cause_of, text_of
from scheduler.engine.extender_round import Answers
from scheduler.engine.group_attempt import GroupAttempt, GroupResult
from scheduler.engine.group_commit import Commit, Held, without_nodes
from scheduler.engine.group_cycle import GroupUnit, Search, Trial, forked
from scheduler.engine.group_preemption import still_helps
from scheduler.engine.group_search import searched
from scheduler.engine.internal import CycleEnded, GroupCycleEnded, Step
from scheduler.engine.machine import Claims, Part, ReadsPods
from scheduler.engine.outcome import CycleOutcome, NotPlaced, Placed
from scheduler.engine.tickets import GroupTicket
from scheduler.errors import PluginError, type_and_message
from scheduler.framework.post_filter import Remove
from scheduler.messages.commands import CallExtender
from scheduler.messages.now import Now
from scheduler.messages.stimuli import ExtenderAnswered
from scheduler.queue.queued_pod import QueuedPod

Ending = Generator[Sequence[Step] | None, Now, None]
"""What follows the search, a step at a time; it is sent the time of each step. None: the step pauses."""


class _UnderWay(Struct, eq=False):
    unit: GroupUnit
    record: GroupAttempt
    context: CycleContext
    """The context of the fork; after the search, when the fork is dropped, that of the cluster."""
    search: Search
    began: float
    """Seconds of the stopwatch."""
    has_object: bool
    """Whether an object described the group when the search began."""
    is_alone: bool = False
    """Whether no other pod is tried in between."""
    is_begun: bool = False
    calls: tuple[CallExtender, ...] = ()
    answers: dict[int, ExtenderAnswered] = field(default_factory=dict)
    ending: Ending | None = None
    """The steps after the search; None until it ends."""
    is_step_paused: bool = False
    commit: Commit | None = None
    handed_over: int = 0
    """The number of members whose cycle has ended."""


class GroupCycles:
    """The scheduling cycle of the group under way, if there is one."""

    CLAIMS = Claims(
        writes=frozenset({Part.GROUP_CYCLES}),
        reads=frozenset({Part.CACHE, Part.NOMINATOR, Part.ROOM, Part.KNOWN_PODS, Part.CLASSES}),
        tickets=frozenset({GroupTicket}),
    )

    def __init__(self, context: CycleContext, known_pods: ReadsPods, deadlines: Deadlines) -> None:
        self._context = context
        self._known_pods = known_pods
        self._deadlines = deadlines
        self.under_way: _UnderWay | None = None
        """Read only."""

    @property
    def is_under_way(self) -> bool:
        return self.under_way is not None

    @property
    def priority(self) -> int | None:
        """The highest priority of the members of the group under way; None without a group. Pods of lower priority are
        not tried in between: they would take the room that the group is about to find."""
        under_way = self.under_way
        return None if under_way is None else under_way.unit.members[0].queued.info.priority

    @property
    def is_waiting(self) -> bool:
        """Whether the group under way waits for extenders."""
        return self.under_way is not None and bool(self.under_way.calls)

    @property
    def is_step_paused(self) -> bool:
        """Whether the last step is not done: nothing may happen before the next one."""
        return self.under_way is not None and self.under_way.is_step_paused

    @property
    def is_alone(self) -> bool:
        """Whether the group under way is tried without other pods in between, since they have taken its room once."""
        return self.under_way is not None and self.under_way.is_alone

    def begin(self, unit: GroupUnit, now: Now) -> Sequence[Step]:
        """Begin with a group, and take its first step."""
        record = GroupAttempt(unit.key, unit.profile.scheduler_name, now.wall, tried=len(unit.members))
        return self._start(unit, record, now, is_alone=False)

    def _start(self, unit: GroupUnit, record: GroupAttempt, now: Now, *, is_alone: bool) -> Sequence[Step]:
        context = forked(self._context)
        began = self._context.stopwatch()
        has_object = context.cache.groups.get(unit.key) is not None
        self.under_way = _UnderWay(unit, record, context, searched(context, unit, now), began, has_object, is_alone)
        return self.step(now)

    def step(self, now: Now) -> Sequence[Step]:
        """Go on with one member of the group under way; its extenders must have answered."""
        under_way = self.under_way
        assert under_way is not None
        try:
            return self._step(under_way, now)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            if self.under_way is None:
                raise
            return self._break_off(self.under_way, error)

    def _step(self, under_way: _UnderWay, now: Now) -> Sequence[Step]:
        if under_way.ending is not None:
            return self._step_of_ending(under_way, under_way.ending, now)
        answers = tuple([under_way.answers[call.ticket] for call in under_way.calls])
        under_way.calls, under_way.answers = (), {}
        return self._go_on(under_way, answers, now)

    def answered(self, _owner: GroupTicket, answer: ExtenderAnswered, now: Now) -> Sequence[Step]:
        under_way = self.under_way
        if under_way is None or all(call.ticket != answer.ticket for call in under_way.calls):
            return ()
        under_way.answers[answer.ticket] = answer
        return () if len(under_way.answers) < len(under_way.calls) else self.step(now)

    def abandon(self) -> tuple[Sequence[QueuedPod], Sequence[Held]]:
        """Give up the group under way. Its pods whose cycle has not ended, and those of them that count on a node."""
        under_way, self.under_way = self.under_way, None
        if under_way is None:
            return (), ()
        under_way.search.close()
        if under_way.ending is not None:
            under_way.ending.close()
        for call in under_way.calls:
            self._deadlines.drop(ExtenderDeadline(call.ticket))
            self._context.tickets.drop(call.ticket)
        held = () if under_way.commit is None else tuple(reversed(under_way.commit.held.values()))
        return [member.queued for member in under_way.unit.members[under_way.handed_over :]], held

    def _break_off(self, under_way: _UnderWay, error: BaseException) -> Sequence[Step]:
        """End the attempt after an error outside of a member's own cycle: this group waits for its back-off, all others
        go on."""
        unit, record, commit = under_way.unit, under_way.record, under_way.commit
        self.abandon()
        self._context.report(f"pod group {unit.key}: the attempt broke off: {type_and_message(error)}")
        message = text_of(error) if isinstance(error, PluginError) else cause_of(error)
        steps: list[Step] = []
        while commit is not None and commit.held:
            steps += commit.take_back()
        for member in unit.members[under_way.handed_over :]:
            outcome = NotPlaced(message, is_error=True)
            steps.append(CycleEnded(member.queued, unit.profile, member.attempt, outcome))
        record.duration_seconds += self._context.stopwatch() - under_way.began
        record.result, record.message = GroupResult.ERROR, message
        return [*steps, GroupCycleEnded(record)]

    def _go_on(self, under_way: _UnderWay, answers: Answers, now: Now) -> Sequence[Step]:
        trial: Trial | None = None
        calls: tuple[CallExtender, ...] = ()
        try:
            calls = under_way.search.send(answers) if under_way.is_begun else next(under_way.search)
            under_way.is_begun = True
        except StopIteration as done:
            trial = done.value
        if trial is not None:
            self._context.next_start = under_way.context.next_start
            under_way.context = self._context
            under_way.ending = self._ending(under_way, trial)
            next(under_way.ending)
            return self._step_of_ending(under_way, under_way.ending, now)
        under_way.calls = calls
        for call in calls:
            due = now.monotonic + call.timeout_seconds + ANSWER_GRACE_SECONDS
            self._deadlines.set(ExtenderDeadline(call.ticket), due)
        return calls

    # --- after the search ---------------------------------------------------------------------------------------------

    def _step_of_ending(self, under_way: _UnderWay, ending: Ending, now: Now) -> Sequence[Step]:
        under_way.is_step_paused = False
        try:
            steps = ending.send(now)
        except StopIteration:
            pass
        else:
            under_way.is_step_paused = steps is None
            return steps or ()
        # The cluster has changed meanwhile: the group is tried again.
        under_way.record.repeats += 1
        return self._start(under_way.unit, under_way.record, now, is_alone=True)

    def _ending(self, under_way: _UnderWay, trial: Trial) -> Ending:
        """Commit the trial, and end the members' cycles. It returns where the group must be tried again."""
        unit, record = under_way.unit, under_way.record
        record.algorithm_seconds += self._context.stopwatch() - under_way.began
        for member in unit.members:
            member.attempt = trial.attempts.get(member.uid, member.attempt)
        now = yield ()
        commit = under_way.commit = Commit(self._context, unit, trial, self._waiting)
        outcomes: dict[str, CycleOutcome] | None = None
        if trial.result is GroupResult.SCHEDULED:
            for member in unit.members:
                for _ in commit.place(member, now):
                    yield None
                now = yield ()
            if commit.is_whole():
                outcomes = commit.outcomes()
            else:
                is_repeat, under_way.is_alone = under_way.is_alone, True
                while commit.held:
                    now = yield commit.take_back()
                record.has_members = any(self._waiting(member.uid) is not None for member in unit.members)
                if not is_repeat and record.has_members:
                    return
                trial.result, trial.message = GroupResult.ERROR, CHANGED_MEANWHILE
        is_in_vain = trial.result is GroupResult.WAITING_ON_PREEMPTION and self._is_gone(under_way)
        if is_in_vain or not still_helps(self._context, unit, trial, self._waiting, now):
            trial.result, trial.message, trial.room = GroupResult.ERROR, CHANGED_SINCE, None
        if outcomes is None:
            outcomes = without_nodes(unit, trial)
        # What makes room for all comes with the last of them: until then others would see their nominations only.
        under_way.is_alone = under_way.is_alone or trial.room is not None
        for member in unit.members:
            outcome, steps = commit.hand_over(member, outcomes[member.uid], makes_room=not self._is_gone(under_way))
            outcomes[member.uid] = outcome
            steps.append(CycleEnded(member.queued, unit.profile, member.attempt, outcome))
            under_way.handed_over += 1
            if under_way.handed_over == len(unit.members):
                record.duration_seconds += self._context.stopwatch() - under_way.began
                _fill(record, unit, trial, outcomes)
                steps.append(GroupCycleEnded(record))
                self.under_way = under_way.ending = None
            now = yield steps

    def _is_gone(self, under_way: _UnderWay) -> bool:
        """Whether the group's object was deleted since the search began."""
        return under_way.has_object and self._context.cache.groups.get(under_way.unit.key) is None

    def _waiting(self, uid: str) -> PodInfo | None:
        """The pod as it is now, if it still waits for a node."""
        info = self._known_pods.by_uid(uid)
        return info if info is not None and not info.node_name and not info.is_terminating else None


CHANGED_SINCE = "the cluster changed while victims were sought for the pod group"
CHANGED_MEANWHILE = "the cluster changed while the pod group was tried"


def _fill(record: GroupAttempt, unit: GroupUnit, trial: Trial, outcomes: dict[str, CycleOutcome]) -> None:
    record.result, record.message = trial.result, trial.message
    if isinstance(trial.room, Remove):
        record.victims = tuple([victim.key for victim in trial.room.victims])
    record.placements = trial.placements
    record.placement_seconds = trial.placement_seconds
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
