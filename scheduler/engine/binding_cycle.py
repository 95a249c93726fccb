"""From a chosen node to a bound pod, as states of the engine: nothing is held up while a pod waits.

    start ──► PERMIT_WAIT ──► PRE_BIND_WRITE ──► PRE_BIND_WAIT ──► BINDING ──► bound
                  │                  │                 │              │
                  └──────────────────┴─────────────────┴──────────────┴──► failed: unreserve, forget, requeue

A state is left only by a stimulus: a plugin's or extender's answer, a write's outcome, a deadline, a deletion. Each
binding holds at most a handful of tickets, and an outcome whose ticket is no longer known is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import SCHEDULED, Attempt, ExtenderFault
from scheduler.engine.commands import Command, RecordAttempt
from scheduler.engine.deadlines import Deadlines
from scheduler.engine.error_texts import cause_of, failed_at
from scheduler.engine.outcome import NotPlaced, Placed
from scheduler.engine.reservation import state_of
from scheduler.extenders.answers import ExtenderError
from scheduler.extenders.extender import Extender
from scheduler.framework.diagnosis import Diagnosis, fit_error_text
from scheduler.framework.plugin import PreBindPlugin, PreFlight, State
from scheduler.framework.plugin_times import timed
from scheduler.framework.profile import Profile
from scheduler.messages.commands import BindPod, CallExtender, PatchPodStatus, RunPlugin, WriteEvent
from scheduler.messages.now import Now
from scheduler.messages.references import PodReference
from scheduler.messages.status import Code, Refusal, Skip, unschedulable
from scheduler.messages.stimuli import ExtenderAnswered, PermitDecided, PluginFinished, WriteFinished
from scheduler.queue.queued_pod import QueuedPod

ANSWER_GRACE_SECONDS = 5.0
"""So much later than its own time-out an extender call counts as failed, whatever became of it."""

POLL_SECONDS = 1.0
"""How often a plugin is asked whether what it set going before the bind is done."""

DEADLINE_EXCEEDED = "context deadline exceeded"
PREEMPTED = "preempted by DefaultPreemption"
PREEMPTED_WAITING = "waiting on permit for pod: preempted"


class BindingState(Enum):
    PERMIT_WAIT = "PermitWait"
    PRE_BIND_WRITE = "PreBindWrite"
    PRE_BIND_WAIT = "PreBindWait"
    BINDING = "Binding"


class Binding(msgspec.Struct, eq=False):
    """One pod on its way to its node."""

    queued: QueuedPod
    pod: PodInfo
    profile: Profile
    attempt: Attempt
    states: dict[str, State | Skip]
    state: BindingState = BindingState.BINDING
    waits: dict[str, float] = msgspec.field(default_factory=dict)
    """Permit plugins still to be heard → seconds they asked for."""
    work: list[tuple[PreBindPlugin, PreFlight]] = msgspec.field(default_factory=list)
    """PreBind plugins still to be run, in order."""
    running: dict[str, tuple[PreBindPlugin, PreFlight]] = msgspec.field(default_factory=dict)
    """PreBind plugins at work, by name."""
    tickets: dict[int, str] = msgspec.field(default_factory=dict)
    """Outstanding answers → plugin name ("" for the Binding itself)."""
    binders: list[Extender | str] = msgspec.field(default_factory=list)
    """Who is still to be asked to bind: extenders, then Bind plugins by name."""
    asked: Extender | None = None
    """The extender that is binding the pod."""
    give_up_at: dict[str, float] = msgspec.field(default_factory=dict)
    """PreBind plugin → monotonic second at which its wait ends."""

    waits_since: float = 0.0
    """Monotonic second at which the wait in Permit began."""

    @property
    def reference(self) -> PodReference:
        return PodReference(self.pod.namespace, self.pod.name, self.pod.uid)


Failed = Callable[[Binding, NotPlaced, Now], list[Command]]
"""What the engine does when a binding fails: unreserve, forget, requeue, tell."""


class BindingCycles:
    """All bindings under way."""

    def __init__(
        self,
        view: Callable[[], Any],
        deadlines: Deadlines,
        new_ticket: Callable[[], int],
        queue_done: Callable[[str], None],
        failed: Failed,
        bound: Callable[[Binding, Now], list[Command]],
        nominated: Callable[[str, str], None],
        binders: Sequence[Extender] = (),
    ) -> None:
        self._view = view
        self._deadlines = deadlines
        self._new_ticket = new_ticket
        self._queue_done = queue_done
        self._failed = failed
        self._bound = bound
        self._nominated = nominated
        self._binders = binders
        self._by_uid: dict[str, Binding] = {}
        self._by_ticket: dict[int, Binding] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, uid: str) -> Binding | None:
        return self._by_uid.get(uid)

    @property
    def under_way(self) -> tuple[Binding, ...]:
        return tuple(self._by_uid.values())

    # --- start --------------------------------------------------------------------------------------------------------

    def start(self, queued: QueuedPod, profile: Profile, attempt: Attempt, placed: Placed, now: Now) -> list[Command]:
        binding = Binding(queued, placed.pod, profile, attempt, placed.states, waits=placed.waits)
        self._by_uid[placed.pod.uid] = binding
        commands: list[Command] = []
        problem = self._pre_flight(binding, placed.unconcerned)
        if problem is not None:
            return self._fail(binding, problem, now)
        if (binding.work or binding.waits) and self._nomination_differs(binding):
            # So that autoscalers and other schedulers see where the pod will be while it waits.
            self._nominated(binding.pod.uid, binding.pod.node_name)
            commands.append(PatchPodStatus(0, binding.reference, nominated_node_name=binding.pod.node_name))
        if binding.waits:
            binding.state = BindingState.PERMIT_WAIT
            binding.waits_since = now.monotonic
            for plugin, seconds in binding.waits.items():
                self._deadlines.set(("permit", binding.pod.uid, plugin), now.monotonic + seconds)
            return commands
        return commands + self._after_permit(binding, now)

    def _pre_flight(self, binding: Binding, unconcerned: frozenset[str]) -> NotPlaced | None:
        states, pod, view = binding.states, binding.pod, self._view()
        times = binding.attempt.plugin_times
        for plugin in binding.profile.pre_bind_plugins:
            if plugin.name in unconcerned:
                continue
            try:
                ask = timed(times, plugin.pre_bind_pre_flight, plugin.name, "PreBindPreFlight")
                answer = ask(state_of(states, plugin.name), pod, view, pod.node_name)
            except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own fault, and is named
                return NotPlaced(failed_at("PreBindPreFlight", plugin.name, cause_of(error)), is_error=True)
            if isinstance(answer, Refusal):
                return NotPlaced(failed_at("PreBindPreFlight", plugin.name, answer.message), is_error=True)
            if isinstance(answer, PreFlight):
                binding.work.append((plugin, answer))
        return None

    @staticmethod
    def _nomination_differs(binding: Binding) -> bool:
        return binding.pod.pod.status.nominated_node_name != binding.pod.node_name

    # --- Permit -------------------------------------------------------------------------------------------------------

    def permit_decided(self, decision: PermitDecided, now: Now) -> list[Command]:
        """The first word of each plugin counts; a rejection ends the wait at once."""
        binding = self._by_uid.get(decision.uid)
        if binding is None or binding.state is not BindingState.PERMIT_WAIT or decision.plugin not in binding.waits:
            return []
        if not decision.is_allowed:
            return self.reject_waiting(decision.uid, decision.plugin, decision.message, now)
        del binding.waits[decision.plugin]
        self._deadlines.drop(("permit", decision.uid, decision.plugin))
        if binding.waits:
            return []
        _note_wait(binding, Code.SUCCESS, now)
        return self._after_permit(binding, now)

    def reject_waiting(self, uid: str, plugin: str, message: str, now: Now) -> list[Command]:
        """A pod that waits in Permit will not be bound: rejected by a plugin, or deleted meanwhile (``removed``)."""
        binding = self._by_uid.get(uid)
        if binding is None or binding.state is not BindingState.PERMIT_WAIT:
            return []
        refusal = unschedulable(message).by(plugin)
        rejectors = frozenset({plugin}) if plugin else frozenset(binding.waits)
        text = fit_error_text(1, Diagnosis.of_rows({0: refusal}, 1))
        _note_wait(binding, Code.UNSCHEDULABLE, now)
        return self._fail(binding, NotPlaced(text, unschedulable_plugins=rejectors), now)

    def cancel(self, uid: str, now: Now) -> list[Command] | None:
        """Preemption wants the room of a pod that is not bound yet: it goes back to the queue instead of being deleted.

        None when it is too late (the Binding is under way) or the pod is not here.
        """
        binding = self._by_uid.get(uid)
        if binding is None or binding.state is BindingState.BINDING:
            return None
        if binding.state is not BindingState.PERMIT_WAIT:
            return self._fail(binding, NotPlaced(PREEMPTED, is_error=True), now)
        _note_wait(binding, Code.ERROR, now)
        return self._fail(binding, NotPlaced(PREEMPTED_WAITING, is_error=True), now)

    def permit_timed_out(self, uid: str, plugin: str, now: Now) -> list[Command]:
        binding = self._by_uid.get(uid)
        if binding is None:
            return []
        waited = go_duration(binding.waits.get(plugin, 0.0))
        return self.reject_waiting(
            uid, plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}", now
        )

    # --- PreBind ------------------------------------------------------------------------------------------------------

    def _after_permit(self, binding: Binding, now: Now) -> list[Command]:
        # From here on a failure is an error and never "unschedulable": events need not be kept for the pod.
        self._queue_done(binding.pod.uid)
        return self._next_pre_bind(binding, now)

    def _next_pre_bind(self, binding: Binding, now: Now) -> list[Command]:
        """Start the next plugin, or the next group of plugins that may run in parallel; after the last one, bind."""
        if not binding.work:
            return self._bind(binding, now)
        group = [binding.work.pop(0)]
        while group[0][1].is_parallel and binding.work and binding.work[0][1].is_parallel:
            group.append(binding.work.pop(0))
        commands: list[Command] = []
        binding.state = BindingState.PRE_BIND_WRITE
        for plugin, flight in group:
            binding.running[plugin.name] = (plugin, flight)
            if flight.wait_seconds is not None:
                binding.give_up_at[plugin.name] = now.monotonic + flight.wait_seconds
            if not flight.writes and flight.wait_seconds is None:
                ticket = self._ticket(binding, plugin.name)
                commands.append(
                    RunPlugin(
                        ticket,
                        "PreBind",
                        binding.profile.scheduler_name,
                        plugin.name,
                        binding.pod,
                        binding.pod.node_name,
                    )
                )
            for write in flight.writes:
                commands.append(write.with_ticket(self._ticket(binding, plugin.name)))
        if not binding.tickets:
            self._await_progress(binding, now)
        return commands

    def _await_progress(self, binding: Binding, now: Now) -> None:
        binding.state = BindingState.PRE_BIND_WAIT
        self._deadlines.set(("pre-bind", binding.pod.uid), now.monotonic + POLL_SECONDS)

    def poll(self, uid: str, now: Now) -> list[Command]:
        """A second has passed: ask the plugins whether what they set going is done."""
        binding = self._by_uid.get(uid)
        if binding is None or binding.state is not BindingState.PRE_BIND_WAIT:
            return []
        for name, (plugin, flight) in list(binding.running.items()):
            try:
                answer = plugin.pre_bind_progress(
                    state_of(binding.states, name), binding.pod, self._view(), binding.pod.node_name
                )
            except Exception as error:  # noqa: BLE001
                return self._fail(binding, _pre_bind_failed(name, cause_of(error)), now)
            if isinstance(answer, Refusal):
                return self._fail(binding, _pre_bind_failed(name, answer.message), now)
            if answer:
                del binding.running[name]
            elif now.monotonic >= binding.give_up_at.get(name, now.monotonic):
                text = f"{flight.doing}: {DEADLINE_EXCEEDED}" if flight.doing else DEADLINE_EXCEEDED
                return self._fail(binding, _pre_bind_failed(name, text), now)
        if binding.running:
            self._await_progress(binding, now)
            return []
        return self._next_pre_bind(binding, now)

    # --- Bind ---------------------------------------------------------------------------------------------------------

    def _bind(self, binding: Binding, now: Now) -> list[Command]:
        binding.state = BindingState.BINDING
        binding.binders = [plugin.name for plugin in binding.profile.bind_plugins]
        if self._binders:
            binding.binders[:0] = [each for each in self._binders if each.is_interested(binding.pod.pod)]
        return self._next_binder(binding, now)

    def _next_binder(self, binding: Binding, now: Now) -> list[Command]:
        if not binding.binders:
            return self._fail(binding, NotPlaced("no bind plugin took the pod", is_error=True), now)
        binder = binding.binders.pop(0)
        binding.asked = None
        pod = binding.pod
        if isinstance(binder, Extender):
            binding.asked = binder
            verb = binder.configuration.bind_verb
            body = binder.bind_body(pod.namespace, pod.name, pod.uid, pod.node_name)
            ticket = self._ticket(binding, binder.name)
            # The call ends by its own time-out; should that be lost too, the deadline ends it.
            self._deadlines.set(("extender", ticket), now.monotonic + binder.timeout_seconds + ANSWER_GRACE_SECONDS)
            binds = (binding.reference, pod.node_name)
            seconds = binder.timeout_seconds
            return [CallExtender(ticket, binder.number, verb, binder.url(verb), body, seconds, binds)]
        ticket = self._ticket(binding, binder)
        if binder == "DefaultBinder":
            return [BindPod(ticket, binding.reference, pod.node_name)]
        return [RunPlugin(ticket, "Bind", binding.profile.scheduler_name, binder, pod, pod.node_name)]

    # --- answers ------------------------------------------------------------------------------------------------------

    def knows(self, ticket: int) -> bool:
        return ticket in self._by_ticket

    def write_finished(self, outcome: WriteFinished, now: Now) -> list[Command]:
        binding = self._by_ticket.pop(outcome.ticket, None)
        if binding is None:
            return []
        plugin = binding.tickets.pop(outcome.ticket)
        if binding.state is BindingState.BINDING:
            if outcome.is_done:
                return self._succeed(binding, now)
            return self._fail(binding, NotPlaced(failed_at("Bind", plugin, outcome.message), is_error=True), now)
        if not outcome.is_done:
            return self._fail(binding, _pre_bind_failed(plugin, outcome.message), now)
        if not binding.tickets:
            self._await_progress(binding, now)
        return []

    def plugin_finished(self, outcome: PluginFinished, now: Now) -> list[Command]:
        binding = self._by_ticket.pop(outcome.ticket, None)
        if binding is None:
            return []
        plugin = binding.tickets.pop(outcome.ticket)
        if binding.state is BindingState.BINDING:
            if outcome.is_skip:
                return self._next_binder(binding, now)
            if outcome.refusal is None:
                return self._succeed(binding, now)
            failure = NotPlaced(failed_at("Bind", plugin, outcome.refusal.message), is_error=True)
            return self._fail(binding, failure, now)
        if outcome.refusal is not None:
            return self._fail(binding, _pre_bind_failed(plugin, outcome.refusal.message), now)
        binding.running.pop(plugin, None)
        if binding.tickets:
            return []
        if binding.running:
            self._await_progress(binding, now)
            return []
        return self._next_pre_bind(binding, now)

    def extender_answered(self, outcome: ExtenderAnswered, now: Now) -> list[Command]:
        """The extender has bound the pod itself, or not; if its failures are ignored the next binder is asked."""
        binding = self._by_ticket.pop(outcome.ticket, None)
        if binding is None:
            return []
        del binding.tickets[outcome.ticket]
        extender = binding.asked
        assert extender is not None
        try:
            if outcome.error:
                raise ExtenderError(outcome.error)
            extender.read_bind(outcome.body)
        except ExtenderError as error:
            fault = ExtenderFault(extender.name, "bind", str(error), extender.is_ignorable)
            binding.attempt.extender_faults += (fault,)
            if extender.is_ignorable:
                return self._next_binder(binding, now)
            return self._fail(binding, NotPlaced(f"binding by extender {extender.name}: {error}", is_error=True), now)
        return self._succeed(binding, now)

    # --- ends ---------------------------------------------------------------------------------------------------------

    def _succeed(self, binding: Binding, now: Now) -> list[Command]:
        self._drop(binding)
        attempt = binding.attempt
        attempt.result = SCHEDULED
        attempt.finished_monotonic = now.monotonic
        pod = binding.pod
        name = binding.profile.scheduler_name
        commands: list[Command] = [
            WriteEvent(
                regarding=binding.reference,
                type="Normal",
                reason="Scheduled",
                action="Binding",
                note=f"Successfully assigned {pod.key} to {pod.node_name}",
                reporting_controller=name,
            ),
            RecordAttempt(attempt),
        ]
        commands.extend(
            RunPlugin(0, "PostBind", name, plugin.name, pod, pod.node_name)
            for plugin in binding.profile.post_bind_plugins
        )
        return commands + self._bound(binding, now)

    def abandon(self, binding: Binding) -> None:
        """Forget a binding without a word: the process is about to end, and nothing has been written."""
        self._drop(binding)

    def _fail(self, binding: Binding, failure: NotPlaced, now: Now) -> list[Command]:
        self._drop(binding)
        return self._failed(binding, failure, now)

    def _drop(self, binding: Binding) -> None:
        uid = binding.pod.uid
        del self._by_uid[uid]
        for ticket in binding.tickets:
            self._by_ticket.pop(ticket, None)
            self._deadlines.drop(("extender", ticket))
        for plugin in binding.profile.permit_plugins:
            self._deadlines.drop(("permit", uid, plugin.name))
        self._deadlines.drop(("pre-bind", uid))

    def _ticket(self, binding: Binding, plugin: str) -> int:
        ticket = self._new_ticket()
        binding.tickets[ticket] = plugin
        self._by_ticket[ticket] = binding
        return ticket


def _note_wait(binding: Binding, code: Code, now: Now) -> None:
    binding.attempt.permit_wait = (code.value, now.monotonic - binding.waits_since)


def _pre_bind_failed(plugin: str, message: str) -> NotPlaced:
    return NotPlaced(failed_at("PreBind", plugin, message), is_error=True)


def go_duration(seconds: float) -> str:
    """``10s``, ``1m0s``, ``15m0s``, ``1h0m0s``, as Go writes a duration."""
    total = round(seconds * 1000)
    whole, milliseconds = divmod(total, 1000)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{milliseconds:03d}".rstrip("0") if milliseconds else ""
    if not whole and milliseconds:
        return f"{milliseconds}ms"
    text = f"{rest}{fraction}s"
    if minutes or hours:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text
