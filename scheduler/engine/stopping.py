"""Shutdown: ends the cycles and waits that are under way."""

from __future__ import annotations

from scheduler.engine.cycle_context import CycleContext
from scheduler.engine.parts import EngineParts
from scheduler.engine.reservation import Reserved, unreserve


def stop(parts: EngineParts, context: CycleContext) -> None:
    """Abandon the cycles under way, and forget the pods that wait in Permit or PreBind."""
    paused = parts.cycles.abandon()
    if paused is not None:
        parts.queue.done(paused.uid)
    of_group, held = parts.group_cycles.abandon()
    for queued in of_group:
        parts.queue.done(queued.uid)
    given_up: list[Reserved] = [*held, *parts.bindings.abandon_unsent()]
    for each in given_up:
        unreserve(context, each)
        if parts.cache.is_assumed(each.pod.uid):
            parts.handlers.release(each.pod.uid)
        parts.queue.done(each.pod.uid)
