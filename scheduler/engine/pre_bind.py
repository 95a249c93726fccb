"""PreBind: the plugins with work to do before a pod is bound, and the progress of that work."""

from __future__ import annotations

from scheduler.cluster.view import View
from scheduler.engine.binding import Binding
from scheduler.engine.error_texts import cause_of, failed_at
from scheduler.engine.outcome import NotPlaced
from scheduler.engine.reservation import state_of
from scheduler.framework.plugin import PreFlight
from scheduler.framework.plugin_times import timed
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
