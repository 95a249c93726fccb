"""Binding cycles, from a chosen node to a bound pod, as states of the engine: a waiting pod blocks nothing.

The states and their changes are the table of ``binding.py``. A state is left only by a stimulus: a plugin's or
extender's answer, a write's outcome, a deadline, a deletion.

A bind with an unknown outcome may have been committed, or may still be: the pod stays assumed, and the bind is
repeated until an answer is conclusive (``is_undecided``). An earlier bind that arrives late can then only conflict,
since the pod has a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from scheduler.engine.attempt import Attempt, ExtenderFault
from scheduler.engine.attempt_end import was_placed
from scheduler.engine.binding import SENT, Binding, BindingState, is_undecided
from scheduler.engine.deadlines import BindAgain, Deadlines, PermitDeadline, PreBindPoll
from scheduler.engine.error_texts import go_duration
from scheduler.engine.internal import AttemptSettled, BindingFailed, CancelBinding, PodBound, Step
from scheduler.engine.machine import Claims, Part, ReadsView
from scheduler.engine.outcome import GroupPermitted, NotPlaced, Placed
from scheduler.engine.permit_waits import PermitWaits
from scheduler.engine.pre_bind import announce, ask_progress, nomination, pre_flight, refused, start_next, unannounced
from scheduler.engine.tickets import BindingTicket, Tickets
from scheduler.errors import failed_at
from scheduler.extenders.answers import ExtenderError
from scheduler.extenders.extender import Extender
from scheduler.framework.diagnosis import Diagnosis, fit_error_text
from scheduler.framework.plugin_ports import WaitingPod
from scheduler.framework.profile import Profile
from scheduler.messages.commands import BindPod, CallExtender, RunPlugin, StopPlugins, WriteEvent
from scheduler.messages.now import Now
from scheduler.messages.status import Code, failure, unschedulable
from scheduler.messages.stimuli import ExtenderAnswered, PermitDecided, PluginFinished, WriteFinished
from scheduler.queue.queued_pod import QueuedPod

POLL_SECONDS = 1.0
"""Seconds between two checks of whether a plugin's work before the bind is done."""

BIND_AGAIN_FIRST_SECONDS = 1.0
MAX_BIND_AGAIN_SECONDS = 16.0
"""Seconds before a bind with an unknown outcome is sent again: the first, doubled each time up to the second."""

DEFAULT_BINDER = "DefaultBinder"
PREEMPTED = "preempted by DefaultPreemption"
PREEMPTED_WAITING = "waiting on permit for pod: preempted"


class BindingCycles:
    """All binding cycles under way."""

    CLAIMS = Claims(
        writes=frozenset({Part.BINDINGS}),
        reads=frozenset({Part.CACHE}),
        tickets=frozenset({BindingTicket}),
        deadlines=frozenset({PermitDeadline, PreBindPoll, BindAgain}),
    )

    announces_nodes = True
    """Whether a pod's status names its node while it waits before its bind; set before the first binding."""

    def __init__(
        self, cache: ReadsView, tickets: Tickets, deadlines: Deadlines, binders: Sequence[Extender] = ()
    ) -> None:
        self._cache = cache
        self._tickets = tickets
        self._deadlines = deadlines
        self._binders = binders
        self._by_uid: dict[str, Binding] = {}
        self._permit_waits = PermitWaits()

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, uid: str) -> Binding | None:
        return self._by_uid.get(uid)

    @property
    def under_way(self) -> tuple[Binding, ...]:
        return tuple(self._by_uid.values())

    def waits_in_permit(self, uid: str) -> bool:
        """Whether the pod waits for Permit plugins."""
        binding = self._by_uid.get(uid)
        return binding is not None and binding.state is BindingState.PERMIT_WAIT

    def can_cancel(self, uid: str) -> bool:
        """Whether the pod is in a binding cycle and its bind has not been sent."""
        binding = self._by_uid.get(uid)
        return binding is not None and binding.state not in SENT

    def waiting_for(self, plugin: str) -> Sequence[WaitingPod]:
        """The pods that wait for this plugin in Permit, longest wait first."""
        waiting = [one for one in self._by_uid.values() if one.state is BindingState.PERMIT_WAIT]
        return [WaitingPod(one.pod, one.pod.node_name) for one in waiting if plugin in one.waits]

    # --- start --------------------------------------------------------------------------------------------------------

    def start(self, queued: QueuedPod, profile: Profile, attempt: Attempt, placed: Placed, now: Now) -> list[Step]:
        binding = Binding(queued, placed.pod, profile, attempt, placed.states, waits=placed.waits)
        self._by_uid[placed.pod.uid] = binding
        problem = pre_flight(binding, placed.unconcerned, self._cache.view)
        if problem is not None:
            return self._fail(binding, problem)
        steps = nomination(binding) if self.announces_nodes else unannounced(binding)
        if binding.waits:
            binding.become(BindingState.PERMIT_WAIT)
            binding.waits_since = now.monotonic
            self._permit_waits.add(self._cache.view.groups.key_of(binding.pod), binding.pod.uid)
            for plugin, seconds in binding.waits.items():
                self._deadlines.set(PermitDeadline(binding.pod.uid, plugin), now.monotonic + seconds)
            return steps
        settled = self._after_permit(binding, now)
        return [*steps, *settled] if steps else settled

    # --- Permit -------------------------------------------------------------------------------------------------------

    def permit_decided(self, decision: PermitDecided, now: Now) -> list[Step]:
        """Apply a Permit plugin's decision: its first one counts, and a rejection ends the wait at once."""
        binding = self._by_uid.get(decision.uid)
        if binding is None or binding.state is not BindingState.PERMIT_WAIT or decision.plugin not in binding.waits:
            return []
        if not decision.is_allowed:
            return self.reject_waiting(decision.uid, decision.plugin, decision.message, now)
        del binding.waits[decision.plugin]
        self._deadlines.drop(PermitDeadline(decision.uid, decision.plugin))
        if binding.waits:
            return []
        _note_wait(binding, Code.SUCCESS, now)
        self._permit_waits.drop(decision.uid)
        return self._after_permit(binding, now)

    def group_permitted(self, decision: GroupPermitted, now: Now) -> list[Step]:
        """Apply a Permit plugin's decision about all pods of a group that wait for it."""
        steps: list[Step] = []
        for uid in self._permit_waits.of(decision.group):
            steps += self.permit_decided(PermitDecided(uid, decision.plugin, True), now)
        return steps

    def reject_waiting(self, uid: str, plugin: str, message: str, now: Now) -> list[Step]:
        """End the wait of a pod in Permit: a plugin rejected it, or it was deleted meanwhile (``removed``)."""
        binding = self._by_uid.get(uid)
        if binding is None or binding.state is not BindingState.PERMIT_WAIT:
            return []
        refusal = unschedulable(message).by(plugin)
        rejectors = frozenset({plugin}) if plugin else frozenset(binding.waits)
        text = fit_error_text(1, Diagnosis.of_rows({0: refusal}, 1))
        _note_wait(binding, Code.UNSCHEDULABLE, now)
        return self._fail(binding, NotPlaced(text, unschedulable_plugins=rejectors))

    def cancel(self, step: CancelBinding, now: Now) -> list[Step]:
        """End the cycle of a pod that is not bound yet (``can_cancel``): a victim goes back to the queue instead of
        being deleted. A bind whose outcome is unknown is sent again, also where a bug has kept it from that."""
        binding = self._by_uid.get(step.uid)
        if binding is None or binding.state is BindingState.BINDING:
            return []
        if binding.state is BindingState.UNKNOWN:
            return self._bind_later(binding, now)
        if is_waiting := binding.state is BindingState.PERMIT_WAIT:
            _note_wait(binding, Code.ERROR, now)
        text = step.message or (PREEMPTED_WAITING if is_waiting else PREEMPTED)
        return self._fail(binding, NotPlaced(text, is_error=True))

    def permit_timed_out(self, deadline: PermitDeadline, now: Now) -> list[Step]:
        uid, plugin = deadline.uid, deadline.plugin
        binding = self._by_uid.get(uid)
        if binding is None:
            return []
        waited = go_duration(binding.waits.get(plugin, 0.0))
        message = f"rejected due to timeout after waiting {waited} at plugin {plugin}"
        return self.reject_waiting(uid, plugin, message, now)

    # --- PreBind ------------------------------------------------------------------------------------------------------

    def _after_permit(self, binding: Binding, now: Now) -> list[Step]:
        # From here on a failure is an error, never "unschedulable": no events need to be kept for the pod.
        return [AttemptSettled(binding.pod.uid), *self._next_pre_bind(binding, now)]

    def _next_pre_bind(self, binding: Binding, now: Now) -> list[Step]:
        """Start the next plugin, or the next group of plugins that may run in parallel; after the last one, bind."""
        if not binding.work:
            return self._bind(binding)
        binding.become(BindingState.PRE_BIND_WRITE)
        steps = start_next(binding, partial(self._ticket, binding), now)
        if not binding.tickets:
            steps += self._await_progress(binding, now)
        return steps

    def _await_progress(self, binding: Binding, now: Now) -> list[Step]:
        binding.become(BindingState.PRE_BIND_WAIT)
        self._deadlines.set(PreBindPoll(binding.pod.uid), now.monotonic + POLL_SECONDS)
        return announce(binding, now)

    def poll(self, deadline: PreBindPoll, now: Now) -> list[Step]:
        """Ask the running PreBind plugins, once a second, whether their work is done."""
        binding = self._by_uid.get(deadline.uid)
        if binding is None or binding.state is not BindingState.PRE_BIND_WAIT:
            return []
        problem = ask_progress(binding, self._cache.view, now)
        if problem is not None:
            return self._fail(binding, problem)
        if binding.running:
            return self._await_progress(binding, now)
        return self._next_pre_bind(binding, now)

    # --- Bind ---------------------------------------------------------------------------------------------------------

    def _bind(self, binding: Binding) -> list[Step]:
        binding.become(BindingState.BINDING)
        binding.binders = [plugin.name for plugin in binding.profile.bind_plugins]
        if self._binders:
            binding.binders[:0] = [each for each in self._binders if each.is_interested(binding.pod.pod)]
        return self._next_binder(binding)

    def _next_binder(self, binding: Binding) -> list[Step]:
        if not binding.binders:
            return self._fail(binding, NotPlaced("no bind plugin took the pod", is_error=True))
        binder = binding.binders.pop(0)
        binding.asked = None
        pod = binding.pod
        if isinstance(binder, Extender):
            binding.asked = binder
            verb = binder.configuration.bind_verb
            body = binder.bind_body(pod.namespace, pod.name, pod.uid, pod.node_name)
            ticket = self._ticket(binding, binder.name)
            # No deadline: the call may wait for a connection before its own time begins.
            binds = (binding.reference, pod.node_name)
            seconds = binder.timeout_seconds
            return [CallExtender(ticket, binder.number, verb, binder.url(verb), body, seconds, binds)]
        ticket = self._ticket(binding, binder)
        if binder == DEFAULT_BINDER:
            return [BindPod(ticket, binding.reference, pod.node_name)]
        return [RunPlugin(ticket, "Bind", binding.profile.scheduler_name, binder, pod, pod.node_name)]

    # --- answers ------------------------------------------------------------------------------------------------------

    def write_finished(self, owner: BindingTicket, outcome: WriteFinished, now: Now) -> list[Step]:
        binding = self._answered(owner, outcome.ticket)
        if binding is None:
            return []
        if binding.state is BindingState.BINDING:
            binding.attempt.bind_seconds = outcome.seconds
            if outcome.is_done:
                return self._succeed(binding, now)
            if is_undecided(binding, outcome, now):
                return self._wait_to_bind_again(binding, now)
            text = failed_at("Bind", owner.plugin, outcome.message)
            return self._fail(binding, NotPlaced(text, is_error=True))
        if not outcome.is_done:
            return self._fail(binding, refused("PreBind", owner.plugin, failure(outcome.message)))
        if not binding.tickets:
            steps = self._await_progress(binding, now)
            if all(flight.asks_at_once for _, flight in binding.running.values()):
                steps += self.poll(PreBindPoll(binding.pod.uid), now)
            return steps
        return []

    def plugin_finished(self, owner: BindingTicket, outcome: PluginFinished, now: Now) -> list[Step]:
        binding = self._answered(owner, outcome.ticket)
        if binding is None:
            return []
        plugin = owner.plugin
        if binding.state is BindingState.BINDING:
            if outcome.is_skip:
                return self._next_binder(binding)
            if outcome.refusal is None:
                return self._succeed(binding, now)
            return self._fail(binding, refused("Bind", plugin, outcome.refusal))
        binding.running.pop(plugin, None)
        if outcome.refusal is not None:
            return self._fail(binding, refused("PreBind", plugin, outcome.refusal))
        if binding.tickets:
            return []
        if binding.running:
            return self._await_progress(binding, now)
        return self._next_pre_bind(binding, now)

    def extender_answered(self, owner: BindingTicket, outcome: ExtenderAnswered, now: Now) -> list[Step]:
        """Apply an extender's answer to a bind. If an ignorable extender fails, the next binder is asked."""
        binding = self._answered(owner, outcome.ticket)
        if binding is None or binding.asked is None:
            return []
        extender = binding.asked
        try:
            if outcome.error:
                raise ExtenderError(outcome.error)
            extender.read_bind(outcome.body)
        except ExtenderError as error:
            fault = ExtenderFault(extender.name, "bind", str(error), extender.is_ignorable)
            binding.attempt.extender_faults += (fault,)
            if extender.is_ignorable:
                return self._next_binder(binding)
            return self._fail(binding, NotPlaced(str(error), is_error=True))
        return self._succeed(binding, now)

    def _answered(self, owner: BindingTicket, ticket: int) -> Binding | None:
        binding = self._by_uid.get(owner.uid)
        if binding is None or ticket not in binding.tickets:
            return None
        binding.tickets.discard(ticket)
        return binding

    # --- a bind whose outcome is unknown ------------------------------------------------------------------------------

    def _wait_to_bind_again(self, binding: Binding, now: Now) -> list[Step]:
        binding.become(BindingState.UNKNOWN)
        return self._bind_later(binding, now)

    def _bind_later(self, binding: Binding, now: Now) -> list[Step]:
        doubled = BIND_AGAIN_FIRST_SECONDS * 2 ** min(binding.unknown_outcomes, 10)
        binding.unknown_outcomes += 1
        self._deadlines.set(BindAgain(binding.pod.uid), now.monotonic + min(doubled, MAX_BIND_AGAIN_SECONDS))
        return []

    def bind_again(self, deadline: BindAgain, now: Now) -> list[Step]:
        """Send the same bind with a new ticket. A node that is gone has no room to keep: its pod is tried again."""
        binding = self._by_uid.get(deadline.uid)
        if binding is None or binding.state is not BindingState.UNKNOWN:
            return []
        if self._cache.view.table.existing_row(node := binding.pod.node_name) is None:
            text = failed_at("Bind", DEFAULT_BINDER, f'node "{node}" was removed')
            return self._fail(binding, NotPlaced(text, is_error=True))
        binding.become(BindingState.BINDING)
        return [BindPod(self._ticket(binding, DEFAULT_BINDER), binding.reference, node, is_again=True)]

    def shown(self, uid: str, node: str, now: Now) -> list[Step]:
        """The watch shows the pod on ``node``, or deleted (""): this settles a bind with an unknown outcome."""
        binding = self._by_uid.get(uid)
        if binding is None or binding.state is not BindingState.UNKNOWN:
            return []
        if node == binding.pod.node_name:
            return self._succeed(binding, now)
        key = binding.pod.key
        text = f"pod {key} is already assigned to node {node!r}" if node else f"pod {key} is gone"
        return self._fail(binding, NotPlaced(failed_at("Bind", DEFAULT_BINDER, text), is_error=True))

    # --- ends ---------------------------------------------------------------------------------------------------------

    def _succeed(self, binding: Binding, now: Now) -> list[Step]:
        self._drop(binding, BindingState.BOUND)
        pod = binding.pod
        name = binding.profile.scheduler_name
        steps: list[Step] = [
            WriteEvent(
                regarding=binding.reference,
                type="Normal",
                reason="Scheduled",
                action="Binding",
                note=f"Successfully assigned {pod.key} to {pod.node_name}",
                reporting_controller=name,
            ),
            was_placed(binding.attempt),
        ]
        for plugin in binding.profile.post_bind_plugins:
            steps.append(RunPlugin(0, "PostBind", name, plugin.name, pod, pod.node_name))
        steps.append(PodBound(pod.uid))
        return steps

    def abandon_unsent(self) -> tuple[Binding, ...]:
        """Drop and return the bindings of which nothing has been sent; for the end of the process."""
        abandoned = tuple(binding for binding in self.under_way if binding.state not in SENT)
        for binding in abandoned:
            self._drop(binding, BindingState.ABANDONED)
        return abandoned

    def _fail(self, binding: Binding, failure: NotPlaced) -> list[Step]:
        stops: list[Step] = [StopPlugins(binding.pod.uid)] if binding.runs_plugins else []
        binding.attempt.failed += tuple([("PreBind", name) for name in binding.running])
        self._drop(binding, BindingState.FAILED)
        return [*stops, BindingFailed(binding, failure)]

    def _drop(self, binding: Binding, end: BindingState) -> None:
        uid = binding.pod.uid
        if binding.state is BindingState.PERMIT_WAIT:
            self._permit_waits.drop(uid)
        binding.become(end)
        del self._by_uid[uid]
        for ticket in binding.tickets:
            self._tickets.drop(ticket)
        if not self._deadlines.due:
            return
        for plugin in binding.profile.permit_plugins:
            self._deadlines.drop(PermitDeadline(uid, plugin.name))
        self._deadlines.drop(PreBindPoll(uid))
        self._deadlines.drop(BindAgain(uid))

    def _ticket(self, binding: Binding, plugin: str) -> int:
        ticket = self._tickets.issue(BindingTicket(binding.pod.uid, plugin))
        binding.tickets.add(ticket)
        return ticket


def _note_wait(binding: Binding, code: Code, now: Now) -> None:
    binding.attempt.permit_wait = (code.value, now.monotonic - binding.waits_since)
