"""The door: stimuli come in, commands go out; nothing else changes the scheduler's state.

Each kind of stimulus has one machine, found by its type; an answer's machine is found by the owner of its ticket, a
deadline's by the deadline's type. Machines answer with steps (``internal.py``), which are drained in order. What a
machine does is in its own file: ``scheduling_cycle.py`` first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from scheduler.cluster.cache import ClusterCache
from scheduler.engine.answers import AnswerHandlers, Answers
from scheduler.engine.attempt import Attempt
from scheduler.engine.commands import Command
from scheduler.engine.cycle_context import Depth
from scheduler.engine.deadlines import BindAgain, ExtenderDeadline, PermitDeadline, PreBindPoll
from scheduler.engine.due import commands_of_due
from scheduler.engine.engine_settings import EngineSettings
from scheduler.engine.gate_facts import gates_of, hints_of
from scheduler.engine.internal import (
    AllocationSent,
    AttemptSettled,
    BindingFailed,
    CancelBinding,
    CycleEnded,
    DeadlinesDue,
    GroupCycleEnded,
    NominationChanged,
    ObjectLearned,
    PodBound,
    PodsReady,
    RejectWaiting,
    RoomTakenBack,
    Step,
    VictimSettled,
)
from scheduler.engine.invariants import check_parts
from scheduler.engine.making_room.room import MakingRoom
from scheduler.engine.outcome import CycleOutcome, GroupPermitted, Placed
from scheduler.engine.parts import EngineParts
from scheduler.engine.reconciling import Reconciliation, Writes
from scheduler.engine.reservation import take_back
from scheduler.engine.stopping import stop
from scheduler.engine.tickets import BindingTicket, ClaimTicket, CycleTicket, GroupTicket, VictimTicket
from scheduler.extenders.extender import Extender
from scheduler.framework.profile import Profile
from scheduler.messages.commands import ReportProblem, ReportRepairs
from scheduler.messages.now import Now
from scheduler.messages.stimuli import (
    ExtenderAnswered,
    ObjectDeleted,
    ObjectObserved,
    PermitDecided,
    PluginFinished,
    PodsActivated,
    Reconciled,
    ReconciliationStarted,
    ShutdownRequested,
    Stimulus,
    Synced,
    Tick,
    WakingContinued,
    WriteFinished,
)
from scheduler.objects.pod import Pod
from scheduler.objects.steps import Steps, run_to_end
from scheduler.queue.cluster_events import ASSIGNED_POD_DELETE
from scheduler.queue.our_pods import OurPods
from scheduler.queue.queued_pod import QueuedPod

Handler = Callable[[Any, Now], Sequence[Step]]


class Engine(EngineParts):
    """The scheduler without its shell. ``rng`` decides ties and offsets; ``stopwatch`` (seconds) only measures."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        *,
        started: Now,
        rng: Random,
        stopwatch: Callable[[], float],
        extenders: tuple[Extender, ...] = (),
        settings: EngineSettings = EngineSettings(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(
            profiles, started=started, rng=rng, stopwatch=stopwatch, extenders=extenders, settings=settings
        )
        self._is_groups_turn = False
        self._searches_since: Now | None = None  # when the attempt began that pauses in a search
        self._interrupted: tuple[Sequence[Step], Now] | None = None  # what a wake has left of the last stimulus
        answers: AnswerHandlers = {
            (WriteFinished, BindingTicket): self.bindings.write_finished,
            (WriteFinished, VictimTicket): self.room.answered,
            (WriteFinished, ClaimTicket): self.watching.claim_written,
            (PluginFinished, BindingTicket): self.bindings.plugin_finished,
            (ExtenderAnswered, BindingTicket): self.bindings.extender_answered,
            (ExtenderAnswered, CycleTicket): self.cycles.answered,
            (ExtenderAnswered, GroupTicket): self.group_cycles.answered,
        }
        self._answers = Answers(self.tickets, self.deadlines, answers)
        self._stimuli: dict[type, Handler] = {
            ObjectObserved: self.watching.observed,
            ObjectDeleted: self.watching.deleted,
            Synced: self._synced,
            Tick: self._tick,
            WriteFinished: self._written,
            PluginFinished: self._answers.take,
            ExtenderAnswered: self._answers.of_extender,
            PermitDecided: self.bindings.permit_decided,
            PodsActivated: self._pods_activated,
            ReconciliationStarted: self._reconciliation_started,
            Reconciled: self._reconciled,
            ShutdownRequested: self._shutdown,
        }
        self._due: dict[type, Handler] = {
            PermitDeadline: self.bindings.permit_timed_out,
            PreBindPoll: self.bindings.poll,
            BindAgain: self.bindings.bind_again,
            ExtenderDeadline: self._answers.extender_overdue,
            **dict.fromkeys(MakingRoom.CLAIMS.deadlines, self.room.due),
        }
        self._internal: dict[type, Handler] = {
            CycleEnded: self._cycle_ended,
            DeadlinesDue: self._deadlines_due,
            GroupCycleEnded: self._group_cycle_ended,
            RoomTakenBack: self._room_taken_back,
            ObjectLearned: self.watching.learned,
            AllocationSent: self.watching.allocation_sent,
            AttemptSettled: self._attempt_settled,
            BindingFailed: self._binding_failed,
            PodBound: self.watching.bound,
            RejectWaiting: self._reject_waiting,
            CancelBinding: self.bindings.cancel,
            VictimSettled: self.room.due,
            NominationChanged: self.watching.nomination_changed,
            PodsReady: self._pods_ready,
            PodsActivated: self._pods_activated,
            PermitDecided: self.bindings.permit_decided,
            GroupPermitted: self.bindings.group_permitted,
        }

    # --- the door -----------------------------------------------------------------------------------------------------

    def handle(self, stimulus: Stimulus, now: Now) -> list[Command]:
        """Apply one stimulus and return the commands that follow from it.

        While ``is_waking`` afterwards, the remaining commands are returned for ``WakingContinued``, repeated as needed,
        or for the next stimulus. The outcome is the same as of one step: see ``queue/interrupted.py``.
        """
        if type(stimulus) is WakingContinued:
            return self._continue()
        finished = self._finish() if self._interrupted is not None or self._searches_since is not None else None
        self.cache.devices.now_nanoseconds = now.wall
        steps = self._stimuli[type(stimulus)](stimulus, now)
        if self.queue.waking.unfinished:
            self._interrupted = steps, now
            return finished or []
        return [*finished, *self._concluded(steps, now)] if finished else self._concluded(steps, now)

    @property
    def is_waking(self) -> bool:
        """Whether the last stimulus or attempt is not done: handle ``WakingContinued`` next."""
        return self._interrupted is not None or self._searches_since is not None

    def _continue(self) -> list[Command]:
        if self._searches_since is not None:
            return self._search_on(self._searches_since)
        if self._interrupted is None:
            return []
        self.queue.continue_waking()
        return [] if self.queue.is_waking else self._finish()

    def _search_on(self, began: Now) -> list[Command]:
        """The next slice of a search, with the time at which it began."""
        self._searches_since = None
        self.cache.devices.now_nanoseconds = began.wall
        go_on = self.cycles.go_on if self.cycles.is_searching else self.group_cycles.step
        return self._concluded(go_on(began), began)

    def _finish(self) -> list[Command]:
        """The rest of the stimulus or the attempt that was interrupted."""
        commands: list[Command] = []
        while self._searches_since is not None:
            commands += self._search_on(self._searches_since)
        if self._interrupted is not None:
            (steps, now), self._interrupted = self._interrupted, None
            self.queue.finish_waking()
            commands += self._concluded(steps, now)
        return commands

    def _concluded(self, steps: Sequence[Step], now: Now) -> list[Command]:
        commands = self._drain(steps, now) if steps else []
        groups = self.group_cycles
        is_paused = self.cycles.searching is not None or (groups.under_way is not None and groups.is_step_paused)
        self._searches_since = now if is_paused else None
        if self.queue.held:
            for queued, is_error in self.queue.take_held():
                commands += self.reports.held_back(queued, is_error, self.handlers.gave_up_room(queued, now), now)
        if self.facts.problems:
            commands += [ReportProblem(message) for message in self.facts.take_problems()]
        return commands

    def schedule_one(self, now: Now) -> list[Command] | None:
        """Try the next pod, or the next member of the group that is being tried: these two take turns, unless the pod
        is of lower priority than the group. None: there is none, or the engine is not ready, stopping, or waits for
        an extender or for a synchronous preemption."""
        finished = self._finish() if self._interrupted is not None or self._searches_since is not None else None
        commands = self._schedule_one(now)
        return [*finished, *(commands or ())] if finished else commands

    def _schedule_one(self, now: Now) -> list[Command] | None:
        if not self.is_synced or self.is_stopping or self.cycles.paused is not None or self.room.holds_up_scheduling:
            return None
        self.cache.devices.now_nanoseconds = now.wall
        groups = self.group_cycles
        is_group_ready = groups.under_way is not None and not groups.is_waiting
        if is_group_ready and (self._is_groups_turn or groups.is_alone):
            return self._step_of_group(now)
        queued = self.tries.next(groups.priority if groups.under_way is not None else None, now)
        if queued is None:
            return self._step_of_group(now) if is_group_ready else None
        self._is_groups_turn = True
        return self._concluded(self._try_group(queued, now) if queued.group else self._try(queued, now), now)

    def _step_of_group(self, now: Now) -> list[Command]:
        self._is_groups_turn = False
        return self._concluded(self.group_cycles.step(now), now)

    @property
    def is_paused(self) -> bool:
        """Whether a cycle waits for an extender, the members of a group are being tried, or a step is interrupted."""
        return self.cycles.is_waiting or self.group_cycles.is_under_way or self.is_waking

    def next_deadline(self) -> float | None:
        """The monotonic second at which a Tick is wanted; None while nothing waits."""
        # Asked twice in each slice of the loop, mostly while nothing waits: no list, no comprehension.
        queued, own = self.queue.next_deadline(), self.deadlines.next()
        if queued is None or own is None:
            return own if queued is None else queued
        return min(queued, own)

    def replace_profiles(self, profiles: Mapping[str, Profile], settings: EngineSettings, now: Now) -> bool:
        """Replace profiles and settings from the next cycle on; bindings under way end by their own profile.

        False, and nothing has changed, while ``is_paused``: ask again. The order of the queue, the extenders and the
        memory of attempts and classes stay as they were at the start.
        """
        if self.is_paused:
            return False
        self.profiles = self.tries.profiles = profiles
        self.settings = settings
        self.cycles.replace_plugins(settings.percentage_of_nodes_to_score)
        self.room.configure(settings.tandem.preemption, profiles.keys())
        hints = hints_of(profiles, self.cache, self.facts, self.stopwatch, bool(self.extenders))
        gates = gates_of(profiles, self.cache, self.room, self.facts)
        self.queue.reconfigure(hints, gates, settings.queue, now)
        self.handlers.reconfigure(OurPods(frozenset(profiles), settings.counts_foreign_nominations), now)
        return True

    def _drain(self, steps: Sequence[Step], now: Now) -> list[Command]:
        """The commands among the steps, and those that internal stimuli lead to, in their order."""
        commands: list[Command] = []
        for step in steps:
            handler = self._internal.get(type(step))
            if handler is None:
                commands.append(step)  # type: ignore[arg-type]  # each internal stimulus has a handler
            else:
                more = handler(step, now)
                if self.queue.waking.unfinished:
                    self.queue.finish_waking()
                if more:
                    commands += self._drain(more, now)
        return commands

    # --- one pod, or a group of them ----------------------------------------------------------------------------------

    def _try(self, queued: QueuedPod, now: Now) -> Sequence[Step]:
        profile, steps = self.tries.profile_of(queued)
        if profile is None:
            return steps
        attempt = self.tries.attempt(queued, profile, now)
        known = self.tries.known_end(queued, profile, attempt)
        return known or self.cycles.begin(queued, profile, attempt, self.queue.cycle, now)

    def _try_group(self, first: QueuedPod, now: Now) -> Sequence[Step]:
        unit, steps = self.tries.unit_of(first, now)
        return [*steps, *self.group_cycles.begin(unit, now)] if unit is not None else steps

    def _group_cycle_ended(self, ended: GroupCycleEnded, now: Now) -> Sequence[Step]:
        return self.group_reports.attempt_ended(ended.attempt, self.cache.groups.get(ended.attempt.group), now)

    def _room_taken_back(self, step: RoomTakenBack, now: Now) -> Sequence[Step]:
        """Pods that were tried while the room was held may use it, and its devices; the group's own are being tried."""
        self.queue.move_all(ASSIGNED_POD_DELETE, step.pod, None, now)
        self.handlers.claim_writes.announce_devices(now)
        return ()

    def _cycle_ended(self, ended: CycleEnded, now: Now) -> Sequence[Step]:
        """Room is made before the pod goes back to the queue, so that its gate knows; what is written about the pod
        comes before what is written about its victims."""
        outcome, queued = ended.outcome, ended.queued
        self.attempts.remember(ended.attempt)
        decided = self.room.decided(queued.info, outcome, now)
        making_room = self._drain(decided, now) if decided else decided
        if isinstance(outcome, Placed):
            begun = self.bindings.start(queued, ended.profile, ended.attempt, outcome, now)
            self.handlers.placed(outcome.pod, now)
            return [*begun, *outcome.requests]
        queued.rejected_by(outcome.unschedulable_plugins | outcome.pending_plugins, outcome.pending_plugins)
        fate = self.handlers.requeue_tried(queued, outcome.nomination, now)
        self.tries.failed(ended, outcome, fate)
        said = self.reports.attempt_failed(queued, ended.attempt, outcome, fate, now)
        return [*said, *making_room, *outcome.requests]

    def _binding_failed(self, failed: BindingFailed, now: Now) -> Sequence[Step]:
        binding, failure, queued = failed.binding, failed.failure, failed.binding.queued
        undone = take_back(self._context, binding)
        queued.rejected_by(failure.unschedulable_plugins | failure.pending_plugins, failure.pending_plugins)
        fate = self.handlers.requeue_unbound(queued, binding.pod, not failure.is_error, now)
        return [*self.reports.attempt_failed(queued, binding.attempt, failure, fate, now), *undone]

    def _attempt_settled(self, step: AttemptSettled, _now: Now) -> Sequence[Step]:
        self.queue.done(step.uid)
        return ()

    def _reject_waiting(self, step: RejectWaiting, now: Now) -> Sequence[Step]:
        return self.bindings.reject_waiting(step.uid, "", "removed", now)

    def _pods_ready(self, step: PodsReady, now: Now) -> Sequence[Step]:
        self.queue.wake(step.keys, now)
        return ()

    def _pods_activated(self, step: PodsActivated, now: Now) -> Sequence[Step]:
        self.queue.activate(step.keys, now)
        return ()

    # --- answers and time ---------------------------------------------------------------------------------------------

    def _reconciliation_started(self, _stimulus: ReconciliationStarted, now: Now) -> Sequence[Step]:
        return [*self._drain(self.room.doubt(), now), self._reconciliation().known_objects()]

    def _reconciled(self, stimulus: Reconciled, now: Now) -> Sequence[Step]:
        repairs = self._reconciliation().mend(stimulus, now)
        return [ReportRepairs(repairs)] if repairs else ()

    def _reconciliation(self) -> Reconciliation:
        ours, writes = self.profiles.keys(), Writes(self.bindings, self.room.granted)
        return Reconciliation(self.cache, self.known_pods, self.handlers, self.queue, writes, ours, self)

    def _written(self, outcome: WriteFinished, now: Now) -> Sequence[Step]:
        """What was written is known before the machine that waits for the answer goes on."""
        learned = self.watching.written(outcome, now)
        return [*(self._drain(learned, now) if learned else ()), *self._answers.take(outcome, now)]

    def _synced(self, _stimulus: Synced, _now: Now) -> Sequence[Step]:
        self.is_synced = True
        return ()

    def _tick(self, _stimulus: Tick, now: Now) -> Sequence[Step]:
        self.queue.tick(now)
        return (DeadlinesDue(),)

    def _deadlines_due(self, _step: DeadlinesDue, now: Now) -> Sequence[Step]:
        due = ((one, partial(self._due[type(one)], one, now)) for one in self.deadlines.pop_due(now.monotonic))
        return commands_of_due(due, partial(self._drain, now=now))

    def _shutdown(self, _stimulus: ShutdownRequested, _now: Now) -> Sequence[Step]:
        """No further pod is taken. Pods that wait in Permit or PreBind give up their room; binds are settled."""
        self.is_stopping = True
        stop(self, self._context)
        return ()

    # --- questions ----------------------------------------------------------------------------------------------------

    def preview(
        self, pod: Pod, now: Now, depth: Depth = Depth.PREVIEW, cluster: ClusterCache | None = None
    ) -> tuple[Attempt, CycleOutcome]:
        """As ``Cycles.preview``, without pauses. Raises KeyError for a scheduler name that is not ours."""
        return run_to_end(self.preview_in_steps(pod, now, depth, cluster))

    def preview_in_steps(
        self, pod: Pod, now: Now, depth: Depth, cluster: ClusterCache | None
    ) -> Steps[tuple[Attempt, CycleOutcome]]:
        """``preview`` with pauses for a large pod, for which a fork is needed."""
        self.cache.devices.now_nanoseconds = now.wall
        return self.cycles.preview(self.profiles[pod.spec.scheduler_name], pod, now, depth, cluster)

    def check(self) -> None:
        """Raise InvariantViolation unless every part, and what the parts know of each other, is consistent."""
        check_parts(self.cache, self.queue, self.known_pods, self.bindings, self.room)
