"""PreBind: the plugins with work to do before a pod is bound, and the progress of that work."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.cluster.devices.facts import special_claim_uid
from scheduler.cluster.view import View
from scheduler.engine.binding import Binding
from scheduler.engine.error_texts import cause_of, failed_at
from scheduler.engine.internal import AllocationSent, Step
from scheduler.engine.outcome import NotPlaced
from scheduler.engine.reservation import state_of
from scheduler.framework.plugin import PreFlight
from scheduler.framework.plugin_times import timed
from scheduler.messages.claim_commands import ClaimCommand, CreateClaim, ReserveClaim
from scheduler.messages.commands import RunPlugin, UpdateObject
from scheduler.messages.now import Now
from scheduler.messages.status import Refusal

DEADLINE_EXCEEDED = "context deadline exceeded"


def pre_flight(binding: Binding, unconcerned: frozenset[str], view: View) -> NotPlaced | None:
    """Fill ``binding.work``; returns the failure that ends the binding, if any. ``unconcerned`` plugins are not
    asked."""
    pod, times = binding.pod, binding.attempt.plugin_times
    for plugin in binding.profile.pre_bind_plugins:
        if plugin.name in unconcerned:
            continue
        try:
            ask = timed(times, plugin.pre_bind_pre_flight, plugin.name, "PreBindPreFlight")
            answer = ask(state_of(binding.states, plugin.name), pod, view, pod.node_name)
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own fault, and is named
            return NotPlaced(failed_at("PreBindPreFlight", plugin.name, cause_of(error)), is_error=True)
        if isinstance(answer, Refusal):
            return NotPlaced(failed_at("PreBindPreFlight", plugin.name, answer.message), is_error=True)
        if isinstance(answer, PreFlight):
            binding.work.append((plugin, answer))
    return None


def start_next(binding: Binding, new_ticket: Callable[[str], int], now: Now) -> list[Step]:
    """Start the next plugin of ``binding.work``, or the next group of plugins that may run in parallel.

    ``new_ticket``: issues one for an answer that is for the plugin of this name.
    """
    group = [binding.work.pop(0)]
    while group[0][1].is_parallel and binding.work and binding.work[0][1].is_parallel:
        group.append(binding.work.pop(0))
    steps: list[Step] = []
    pod = binding.pod
    for plugin, flight in group:
        name = plugin.name
        binding.running[name] = (plugin, flight)
        if flight.wait_seconds is not None:
            binding.give_up_at[name] = now.monotonic + flight.wait_seconds
        if not flight.writes and flight.wait_seconds is None:
            scheduler_name = binding.profile.scheduler_name
            steps.append(RunPlugin(new_ticket(name), "PreBind", scheduler_name, name, pod, pod.node_name))
        for write in flight.writes:
            steps += _sent(write.with_ticket(new_ticket(name)))
    return steps


def _sent(write: UpdateObject | ClaimCommand) -> list[Step]:
    """The write, after word of the devices that it gives to its claim."""
    if isinstance(write, ReserveClaim) and write.allocation is not None:
        return [AllocationSent(write.ticket, write.claim.uid), write]
    if isinstance(write, CreateClaim):
        return [AllocationSent(write.ticket, special_claim_uid(write.pod.uid)), write]
    return [write]


def ask_progress(binding: Binding, view: View, now: Now) -> NotPlaced | None:
    """Remove completed plugins from ``binding.running``; returns the failure that ends the binding, if any."""
    pod = binding.pod
    for name, (plugin, flight) in list(binding.running.items()):
        try:
            answer = plugin.pre_bind_progress(state_of(binding.states, name), pod, view, pod.node_name)
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own fault, and is named
            return pre_bind_failed(name, cause_of(error))
        if isinstance(answer, Refusal):
            return pre_bind_failed(name, answer.message)
        if answer:
            del binding.running[name]
        elif now.monotonic >= binding.give_up_at.get(name, now.monotonic):
            return pre_bind_failed(name, f"{flight.doing}: {DEADLINE_EXCEEDED}" if flight.doing else DEADLINE_EXCEEDED)
    return None


def pre_bind_failed(plugin: str, message: str) -> NotPlaced:
    return NotPlaced(failed_at("PreBind", plugin, message), is_error=True)
