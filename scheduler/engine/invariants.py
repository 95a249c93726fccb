"""Invariants between the engine's parts, valid after every stimulus and every step."""

from __future__ import annotations

from scheduler.cluster.cache import ClusterCache
from scheduler.engine.binding_cycle import BindingCycles
from scheduler.engine.making_room.room import MakingRoom
from scheduler.errors import InvariantViolation
from scheduler.queue.known_pods import KnownPods
from scheduler.queue.scheduling_queue import SchedulingQueue


def check_parts(
    cache: ClusterCache, queue: SchedulingQueue, known_pods: KnownPods, bindings: BindingCycles, room: MakingRoom
) -> None:
    """Raise InvariantViolation unless the parts are consistent, each by itself and with each other."""
    cache.check()
    queue.check()
    for uid in room.held_back:
        if not room.is_removing_for(uid):
            raise InvariantViolation(f"{uid} counts as held back, but no removal holds it back")
    for binding in bindings.under_way:
        uid, key = binding.pod.uid, binding.pod.key
        if queue.find(key) is binding.queued:
            raise InvariantViolation(f"pod {key} is being bound and waits in the queue")
        known = known_pods.by_uid(uid)
        if cache.placed(uid) is None and known is not None and not known.is_terminating:
            raise InvariantViolation(f"pod {key} is being bound but counts nowhere")
