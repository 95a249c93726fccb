"""The door: stimuli come in, commands go out; nothing else changes the scheduler's state.

Each kind of stimulus has one handler, found by its type. What a handler does is told in the file that its name points
to: ``scheduling_cycle.py`` first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.effects import Effect
from scheduler.cluster.nominator import Nominator
from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.attempt_memory import AttemptMemory
from scheduler.engine.binding_cycle import ANSWER_GRACE_SECONDS, Binding, BindingCycles, BindingState
from scheduler.engine.commands import Command
from scheduler.engine.deadlines import Deadlines
from scheduler.engine.engine_settings import EngineSettings
from scheduler.engine.failure import FailureHandling, reference
from scheduler.engine.gate_facts import GateFacts
from scheduler.engine.invariants import check_engine
from scheduler.engine.making_room.policies import PreemptionPolicies
from scheduler.engine.making_room.removals import Removals
from scheduler.engine.outcome import CycleOutcome, NotPlaced, Placed
from scheduler.engine.reconciling import Reconciliation
from scheduler.engine.reservation import unreserve
from scheduler.engine.scheduling_cycle import Cycle, CycleContext, Depth, run_without_extenders, scheduling_cycle
from scheduler.extenders.documents import Documents
from scheduler.extenders.extender import Extender
from scheduler.framework.classes.cache import ClassCache
from scheduler.framework.plugin_times import TIMED_CYCLES, PluginTimes
from scheduler.framework.post_filter import NominationMode
from scheduler.framework.profile import Profile
from scheduler.messages.commands import CallExtender, ReportRepairs, TellBelieved, WriteEvent
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
    WriteFinished,
)
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.pod import Pod
from scheduler.queue.facts import QueueFacts
from scheduler.queue.gates import Gates
from scheduler.queue.handlers import EventHandlers
from scheduler.queue.hints import HintMap, registrations_of
from scheduler.queue.known_pods import KnownPods
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.scheduling_queue import SchedulingQueue


@dataclass(slots=True)
class _Paused:
    """A cycle that waits for extenders; no other pod is tried meanwhile."""

    cycle: Cycle
    queued: QueuedPod
    profile: Profile
    attempt: Attempt
    calls: tuple[CallExtender, ...]
    answers: dict[int, ExtenderAnswered]
    """By ticket; the cycle goes on when all have come."""


class Engine:
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
        self.profiles = profiles
        self.settings = settings
        self.cache = ClusterCache(settings.cached_selectors)
        self.known_pods = KnownPods()
        self.nominator = Nominator(self.known_pods.get, self.cache.affinity_terms)
        self.facts = QueueFacts()
        self.deadlines = Deadlines()
        self.classes = ClassCache(settings.class_cache_bytes, settings.cached_classes)
        self.documents = Documents()
        self.is_synced = False
        self.is_stopping = False
        self._new_ticket = count(1).__next__
        self._context = CycleContext(
            cache=self.cache,
            nominator=self.nominator,
            classes=self.classes,
            extenders=extenders,
            rng=rng,
            stopwatch=stopwatch,
            apply_effects=self._apply_effects,
            new_ticket=self._new_ticket,
            report=self.facts.problem,
            documents=self.documents,
            percentage_of_nodes_to_score=settings.percentage_of_nodes_to_score,
        )
        self.queue = SchedulingQueue(
            queue_sort=next(iter(profiles.values())).queue_sort,
            hints=self._hints_of(profiles),
            facts=self.facts,
            nominator=self.nominator,
            pre_enqueue=self._gates_of(profiles),
            started=started,
            settings=settings.queue,
        )
        self.handlers = EventHandlers(
            cache=self.cache,
            queue=self.queue,
            known_pods=self.known_pods,
            profile_names=profiles.keys(),
            waits_for_permit=self._waits_for_permit,
            stopwatch=stopwatch,
            counts_foreign_nominations=settings.counts_foreign_nominations,
            concerned_by=lambda gone: self.removals.concerned_by(gone),
        )
        self.failures = FailureHandling(self.handlers, self._new_ticket)
        self.bindings = BindingCycles(
            view=lambda: self.cache.view,
            deadlines=self.deadlines,
            new_ticket=self._new_ticket,
            queue_done=self.queue.done,
            failed=self._binding_failed,
            bound=self._bound,
            nominated=self.failures.nomination_written,
            binders=tuple(extender for extender in extenders if extender.has_bind),
        )
        self.removals = Removals(
            known_pods=self.known_pods,
            nominator=self.nominator,
            bindings=self.bindings,
            new_ticket=self._new_ticket,
            activate=lambda info, now: self._activate((info.key,), now),
            nominated=self.failures.nomination_written,
            learned=lambda pod, now: self._apply_observed(Kind.POD, pod, now),
            refused=lambda info, node, now: self.policies.refused(info, node, now),
            settings=settings.preemption,
            limit=settings.running_preemptions,
        )
        self.policies = PreemptionPolicies(
            settings.preemption,
            own=profiles.keys(),
            nominator=self.nominator,
            deadlines=self.deadlines,
            has_budgets=lambda: bool(self.cache.objects.all(Kind.POD_DISRUPTION_BUDGET)),
            victims_in_flight=self.removals.victims_in_flight,
            is_clearing=self.removals.is_clearing,
            is_full=lambda: self.removals.is_full,
            activate=lambda info, now: self._activate((info.key,), now),
            report=self.facts.problem,
        )
        self.policies.govern(profiles.values())
        self._paused: _Paused | None = None
        self.attempts = AttemptMemory(settings.attempts_kept, lambda: self.cache.table.names)
        self._handlers: dict[type, Callable[[Any, Now], list[Command]]] = {
            ObjectObserved: self._object_observed,
            ObjectDeleted: self._object_deleted,
            Synced: self._synced,
            Tick: self._tick,
            WriteFinished: self._write_finished,
            PluginFinished: lambda outcome, now: self.bindings.plugin_finished(outcome, now),
            ExtenderAnswered: self._extender_answered,
            PermitDecided: lambda decision, now: self.bindings.permit_decided(decision, now),
            PodsActivated: self._pods_activated,
            ReconciliationStarted: self._reconciliation_started,
            Reconciled: self._reconciled,
            ShutdownRequested: self._shutdown,
        }

    # --- the door -----------------------------------------------------------------------------------------------------

    def handle(self, stimulus: Stimulus, now: Now) -> list[Command]:
        """Apply one stimulus; what is to be done about it comes back."""
        commands = self._handlers[type(stimulus)](stimulus, now)
        if self.queue.holds_in_error:
            for queued in self.queue.take_held():
                commands += self.failures.held_back(queued, now)
        return commands

    def schedule_one(self, now: Now) -> list[Command] | None:
        """Try the next pod. None: there is none, or the engine is not ready, stopping, or waits for an extender or for
        a synchronous preemption."""
        if not self.is_synced or self.is_stopping or self._paused is not None or self.removals.holds_up_scheduling:
            return None
        queued = self.queue.pop(now)
        if queued is None:
            return None
        return self._try(queued, now)

    def next_deadline(self) -> float | None:
        """The monotonic second at which a Tick is wanted; None while nothing waits."""
        dates = [date for date in (self.queue.next_deadline(), self.deadlines.next()) if date is not None]
        return min(dates) if dates else None

    def replace_profiles(self, profiles: Mapping[str, Profile], settings: EngineSettings, now: Now) -> bool:
        """Go on with other profiles and settings, from the next cycle on; bindings under way end by their own profile.

        False, and nothing has changed, while a cycle waits for an extender: ask again. The order of the queue, the
        extenders and the memory of attempts and classes stay as they were at the start.
        """
        if self._paused is not None:
            return False
        self.profiles = profiles
        self.settings = settings
        self.classes.clear()
        self._context.percentage_of_nodes_to_score = settings.percentage_of_nodes_to_score
        self.removals.configure(settings.preemption)
        self.policies.configure(settings.preemption, profiles.keys())
        self.policies.govern(profiles.values())
        self.queue.reconfigure(self._hints_of(profiles), self._gates_of(profiles), settings.queue, now)
        self.handlers.reconfigure(profiles.keys(), settings.counts_foreign_nominations, now)
        return True

    def _gates_of(self, profiles: Mapping[str, Profile]) -> Gates:
        return Gates(
            {name: profile.pre_enqueue_plugins for name, profile in profiles.items()},
            GateFacts(self.cache, lambda: self.removals),
            self.facts,
        )

    def _hints_of(self, profiles: Mapping[str, Profile]) -> HintMap:
        has_extenders = bool(self._context.extenders)
        registrations = {name: registrations_of(one.plugins, has_extenders) for name, one in profiles.items()}
        return HintMap(registrations, self.facts, self._context.stopwatch)

    # --- one pod ------------------------------------------------------------------------------------------------------

    def _try(self, queued: QueuedPod, now: Now) -> list[Command]:
        info = queued.info
        profile = self.profiles.get(info.pod.spec.scheduler_name)
        if profile is None:
            self.queue.done(info.uid)
            return []
        if info.is_terminating or self.cache.is_assumed(info.uid):
            return self._skip(info)
        info = self._as_nominated(info)
        self.removals.forget_old(now)
        self.removals.awaited.is_tried(info.uid)
        attempt = Attempt(
            pod=info.key,
            uid=info.uid,
            scheduler_name=profile.scheduler_name,
            number=queued.attempts,
            started_wall=now.wall,
            was_flushed=queued.was_flushed,
            queued_seconds=self.queue.seconds_since(queued.initial_attempt or queued.timestamp, now),
        )
        if self.queue.cycle % TIMED_CYCLES == 1:
            attempt.plugin_times = PluginTimes(self._context.stopwatch)
        cycle = scheduling_cycle(self._context, profile, info, attempt, now)
        return self._go_on(cycle, queued, profile, attempt, None, now)

    def _go_on(
        self,
        cycle: Cycle,
        queued: QueuedPod,
        profile: Profile,
        attempt: Attempt,
        answers: tuple[ExtenderAnswered, ...] | None,
        now: Now,
    ) -> list[Command]:
        """Run a cycle until it ends or asks extenders."""
        try:
            calls = next(cycle) if answers is None else cycle.send(answers)
        except StopIteration as done:
            return self._decided(done.value, queued, profile, attempt, now)
        self._paused = _Paused(cycle, queued, profile, attempt, calls, {})
        for call in calls:
            self.deadlines.set(("extender", call.ticket), now.monotonic + call.timeout_seconds + ANSWER_GRACE_SECONDS)
        return list(calls)

    def _decided(
        self, outcome: CycleOutcome, queued: QueuedPod, profile: Profile, attempt: Attempt, now: Now
    ) -> list[Command]:
        self.attempts.remember(attempt)
        if isinstance(outcome, Placed):
            return self.bindings.start(queued, profile, attempt, outcome, now)
        commands: list[Command] = []
        nomination = outcome.nomination
        victims = getattr(attempt.preemption, "victims", ())
        if self._is_pending(queued.info):
            self.policies.attempt_failed(queued.info, nomination, now)
            if nomination.mode is NominationMode.SET and victims:
                self.policies.started(queued.info, nomination.node_name, victims, now)
                commands = self.removals.start(queued.info, nomination.node_name, victims, now)
            elif getattr(attempt.preemption, "is_waiting", False):
                self.removals.awaited.waits(queued.info.uid)
            elif getattr(attempt.preemption, "is_put_off", False):
                self.removals.wait(queued.info)
        return self.failures.attempt_failed(queued, attempt, outcome, now) + commands

    def _is_pending(self, info: PodInfo) -> bool:
        """Nobody is removed for the sake of a pod that was deleted or bound while extenders were asked."""
        known = self.known_pods.by_uid(info.uid)
        return known is not None and not known.node_name and not known.is_terminating

    def _as_nominated(self, info: PodInfo) -> PodInfo:
        """The nominator leads: a nomination whose write has not come back yet counts as if it had."""
        nominated = self.nominator.nominated_node(info.uid)
        if not nominated or nominated == info.pod.nominated_node_name:
            return info
        return info.nominated_to(nominated)

    def _skip(self, info: PodInfo) -> list[Command]:
        self.queue.done(info.uid)
        if not info.is_terminating:
            return []
        return [
            WriteEvent(
                regarding=reference(info),
                type="Warning",
                reason="FailedScheduling",
                action="Scheduling",
                note=f"skip schedule deleting pod: {info.key}",
                reporting_controller=info.pod.spec.scheduler_name,
            )
        ]

    def _bound(self, binding: Binding, now: Now) -> list[Command]:
        self.failures.forget(binding.pod.uid)
        self.policies.placed(binding.pod.uid)
        return []

    def _binding_failed(self, binding: Binding, failure: NotPlaced, now: Now) -> list[Command]:
        unreserve(self._context, binding.profile, binding.pod, binding.states, binding.attempt.plugin_times)
        return self.failures.binding_failed(binding.queued, binding.pod, binding.attempt, failure, now)

    # --- stimuli ------------------------------------------------------------------------------------------------------

    def _object_observed(self, stimulus: ObjectObserved, now: Now) -> list[Command]:
        obj = stimulus.object
        self.documents.put(stimulus.kind, obj, stimulus.document)
        if isinstance(obj, Pod):
            self._forget_what_was_said(obj, now)
            obj = self.removals.as_leaving(obj)
        elif stimulus.kind is Kind.POD_DISRUPTION_BUDGET:
            self.removals.budget_seen(obj.metadata.namespace)
        return self._apply_observed(stimulus.kind, obj, now)

    def _forget_what_was_said(self, pod: Pod, now: Now) -> None:
        """Of a pod that is bound or over, and of a predecessor of its name."""
        known = self.known_pods.get(pod.key)
        if known is not None and known.uid != pod.metadata.uid:
            self.failures.forget(known.uid)
            self.removals.gone(known.uid, now)
            self.policies.gone(known.uid)
        if pod.status.phase == "Failed":
            self.policies.ended_in_failure(pod.metadata.uid)
        if pod.node_name or pod.is_finished:
            self.failures.forget(pod.metadata.uid)
        if pod.is_finished:
            self.removals.gone(pod.metadata.uid, now)

    def _apply_observed(self, kind: Kind, obj: ApiObject, now: Now) -> list[Command]:
        aftermath = self.handlers.on_observed(kind, obj, now)
        if aftermath.reject_waiting:
            return self.bindings.reject_waiting(aftermath.reject_waiting, "", "removed", now)
        return []

    def _object_deleted(self, stimulus: ObjectDeleted, now: Now) -> list[Command]:
        self.documents.remove(stimulus.kind, stimulus.object)
        if stimulus.kind is Kind.POD:
            self.removals.leaves(stimulus.object.metadata.uid)
        aftermath = self.handlers.on_deleted(stimulus.kind, stimulus.object, stimulus.is_stale, now)
        if stimulus.kind is Kind.POD:
            self.failures.forget(stimulus.object.metadata.uid)
            self.removals.gone(stimulus.object.metadata.uid, now)
            self.policies.gone(stimulus.object.metadata.uid)
        if aftermath.reject_waiting:
            return self.bindings.reject_waiting(aftermath.reject_waiting, "", "removed", now)
        return []

    def _synced(self, _stimulus: Synced, _now: Now) -> list[Command]:
        self.is_synced = True
        return []

    def _tick(self, _stimulus: Tick, now: Now) -> list[Command]:
        self.queue.tick(now)
        commands: list[Command] = []
        for key in self.deadlines.pop_due(now.monotonic):
            match key:
                case ("permit", str(uid), str(plugin)):
                    commands += self.bindings.permit_timed_out(uid, plugin, now)
                case ("pre-bind", str(uid)):
                    commands += self.bindings.poll(uid, now)
                case ("extender", int(ticket)):
                    commands += self._extender_answered(ExtenderAnswered(ticket, error="no answer in time"), now)
                case _:
                    self.policies.due(key, now)
        return commands

    def _write_finished(self, outcome: WriteFinished, now: Now) -> list[Command]:
        if self.bindings.knows(outcome.ticket):
            return self.bindings.write_finished(outcome, now)
        if self.removals.knows(outcome.ticket):
            return self.removals.finished_write(outcome, now)
        self.failures.status_written(outcome.ticket, outcome.is_done)
        return []

    def _extender_answered(self, answer: ExtenderAnswered, now: Now) -> list[Command]:
        self.deadlines.drop(("extender", answer.ticket))
        if self.bindings.knows(answer.ticket):
            return self.bindings.extender_answered(answer, now)
        paused = self._paused
        if paused is None or all(call.ticket != answer.ticket for call in paused.calls):
            return []
        paused.answers[answer.ticket] = answer
        if len(paused.answers) < len(paused.calls):
            return []
        self._paused = None
        answers = tuple(paused.answers[call.ticket] for call in paused.calls)
        return self._go_on(paused.cycle, paused.queued, paused.profile, paused.attempt, answers, now)

    def _pods_activated(self, stimulus: PodsActivated, now: Now) -> list[Command]:
        self._activate(stimulus.keys, now)
        return []

    def _activate(self, keys: Iterable[str], now: Now) -> None:
        self.queue.activate(keys, now)

    def _reconciliation_started(self, _stimulus: ReconciliationStarted, now: Now) -> list[Command]:
        self.removals.doubt(now)
        return [TellBelieved(*self._reconciliation.believed())]

    def _reconciled(self, stimulus: Reconciled, now: Now) -> list[Command]:
        repairs = self._reconciliation.mend(stimulus, now)
        return [ReportRepairs(repairs)] if repairs else []

    @property
    def _reconciliation(self) -> Reconciliation:
        def is_busy(uid: str) -> bool:
            return self.queue.is_in_flight(uid) or self.bindings.get(uid) is not None or self.cache.is_assumed(uid)

        def is_ours(pod: Pod) -> bool:
            return pod.spec.scheduler_name in self.profiles

        return Reconciliation(self.cache, self.known_pods, self.handlers, self.queue, is_busy, is_ours)

    def _shutdown(self, _stimulus: ShutdownRequested, now: Now) -> list[Command]:
        """Nothing more is taken. Pods that wait in Permit or PreBind give up their room; binds are settled."""
        self.is_stopping = True
        paused, self._paused = self._paused, None
        if paused is not None:
            paused.cycle.close()
            for call in paused.calls:
                self.deadlines.drop(("extender", call.ticket))
            self.queue.done(paused.queued.uid)
        for binding in self.bindings.under_way:
            if binding.state is not BindingState.BINDING:
                self.bindings.abandon(binding)
                unreserve(self._context, binding.profile, binding.pod, binding.states, binding.attempt.plugin_times)
                if self.cache.is_assumed(binding.pod.uid):
                    self.cache.forget(binding.pod.uid)
                self.queue.done(binding.pod.uid)
        return []

    def _apply_effects(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self.cache.apply(effect)

    # --- questions ----------------------------------------------------------------------------------------------------

    def preview(self, pod: Pod, now: Now, depth: Depth = Depth.PREVIEW) -> tuple[Attempt, CycleOutcome]:
        """What would become of a pod if it were tried now; nothing changes. Extenders are not asked.

        Raises KeyError for a scheduler name that is not ours.
        """
        profile = self.profiles[pod.spec.scheduler_name]
        info = PodInfo(pod, node_name="")
        attempt = Attempt(info.key, info.uid, profile.scheduler_name, number=0, started_wall=now.wall)
        context = replace(
            self._context, extenders=(), rng=Random(0), apply_effects=lambda effects: None, report=lambda message: None
        )
        return attempt, run_without_extenders(scheduling_cycle(context, profile, info, attempt, now, depth))

    def attempt_of(self, key: str) -> Attempt | None:
        """The last attempt at a pod (``namespace/name``), while it is remembered."""
        return self.attempts.of(key)

    def check(self) -> None:
        """Raise InvariantViolation unless every part, and what the parts know of each other, is consistent."""
        check_engine(self)

    def _waits_for_permit(self, uid: str) -> bool:
        binding = self.bindings.get(uid)
        return binding is not None and binding.state is BindingState.PERMIT_WAIT
