"""PreBind: the plugins with work to do before a pod is bound, and the progress of that work."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from scheduler.cluster.devices.special_claims import special_claim_uid
from scheduler.cluster.view import View
from scheduler.engine.attempt import DeviceWait
from scheduler.engine.binding import Binding
from scheduler.engine.error_texts import cause_of
from scheduler.engine.internal import AllocationSent, NominationChanged, Step
from scheduler.engine.outcome import NotPlaced
from scheduler.engine.reservation import state_of
from scheduler.errors import failed_at
from scheduler.framework.plugin import PreFlight
from scheduler.framework.plugin_times import timed
from scheduler.messages.claim_commands import ClaimCommand, CreateClaim, ReserveClaim
from scheduler.messages.commands import RunPlugin, UpdateObject, WriteEvent
from scheduler.messages.now import Now
from scheduler.messages.status import Refusal, failure

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


def nomination(binding: Binding) -> list[Step]:
    """The write that shows autoscalers and other schedulers the pod's node while it waits before its bind."""
    pod = binding.pod
    if not (binding.work or binding.waits) or pod.pod.status.nominated_node_name == pod.node_name:
        return []
    return [NominationChanged(binding.reference, pod.node_name, not binding.waits and _carries_nomination(binding))]


def unannounced(binding: Binding) -> list[Step]:
    """Takes the node out of the pod's writes, where none may name it before the bind. Returns no steps."""
    for place, (plugin, flight) in enumerate(binding.work):
        writes = [replace(one, nominated_node="") if isinstance(one, CreateClaim) else one for one in flight.writes]
        binding.work[place] = plugin, replace(flight, writes=tuple(writes))
    return []


def _carries_nomination(binding: Binding) -> bool:
    """Whether a write of the plugins that start first names the pod's node in its status."""
    for _, flight in binding.work:
        if any(isinstance(write, CreateClaim) and write.nominated_node for write in flight.writes):
            return True
        if not flight.is_parallel:
            break
    return False


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
    """The write, preceded by the news that it allocates devices, if it does."""
    if isinstance(write, ReserveClaim) and write.allocation is not None:
        return [AllocationSent(write.ticket, write.claim.uid), write]
    if isinstance(write, CreateClaim):
        return [AllocationSent(write.ticket, special_claim_uid(write.pod.uid)), write]
    return [write]


def announce(binding: Binding, now: Now) -> list[Step]:
    """The events of waits that begin now."""
    steps: list[Step] = []
    for name, (_, flight) in binding.running.items():
        if flight.waiting is not None and name not in binding.waiting_since:
            binding.waiting_since[name] = now.monotonic
            steps.append(
                WriteEvent(
                    regarding=binding.reference,
                    type="Normal",
                    reason=flight.waiting.reason,
                    action="Scheduling",
                    note=flight.waiting.note,
                    reporting_controller=binding.profile.scheduler_name,
                )
            )
    return steps


def _note_end(binding: Binding, plugin: str, flight: PreFlight, message: str | None, now: Now) -> None:
    """``message``: of the failure that ended the wait; None for success."""
    waiting, since = flight.waiting, binding.waiting_since.pop(plugin, None)
    if waiting is None or since is None:
        return
    ending = "success"
    if message is not None:
        ending = next((kind for start, kind in waiting.endings if message.startswith(start)), "error")
    wait = DeviceWait(waiting.drivers, waiting.awaited, ending, now.monotonic - since)
    binding.attempt.device_waits += (wait,)


def ask_progress(binding: Binding, view: View, now: Now) -> NotPlaced | None:
    """Remove completed plugins from ``binding.running``; returns the failure that ends the binding, if any."""
    pod = binding.pod
    for name, (plugin, flight) in list(binding.running.items()):
        try:
            answer = plugin.pre_bind_progress(state_of(binding.states, name), pod, view, pod.node_name)
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own fault, and is named
            return refused("PreBind", name, failure(cause_of(error)))
        if isinstance(answer, Refusal):
            _note_end(binding, name, flight, answer.message, now)
            return refused("PreBind", name, answer)
        if answer:
            _note_end(binding, name, flight, None, now)
            del binding.running[name]
        elif now.monotonic >= binding.give_up_at.get(name, now.monotonic):
            text = f"{flight.doing}: {DEADLINE_EXCEEDED}" if flight.doing else DEADLINE_EXCEEDED
            _note_end(binding, name, flight, text, now)
            return refused("PreBind", name, failure(text))
    return None


def refused(point: str, plugin: str, refusal: Refusal) -> NotPlaced:
    """The end of a binding by a plugin's answer. A rejection is reported in the plugin's own words, as unschedulable;
    the queue takes it for an error, too, since no plugin of the scheduling cycle has rejected the pod."""
    if refusal.code.is_rejection:
        return NotPlaced(refusal.message)
    return NotPlaced(failed_at(point, plugin, refusal.message), is_error=True)
