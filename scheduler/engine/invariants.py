"""What must hold between the engine's parts after every stimulus and every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.errors import InvariantViolation

if TYPE_CHECKING:
    from scheduler.engine.engine import Engine


def check_engine(engine: Engine) -> None:
    """Raise InvariantViolation unless every part, and what the parts know of each other, is consistent."""
    engine.cache.check()
    engine.queue.check()
    for uid in engine.removals.held_back:
        if not engine.removals.is_removing_for(uid):
            raise InvariantViolation(f"{uid} counts as held back, but no removal holds it back")
    for binding in engine.bindings.under_way:
        uid, key = binding.pod.uid, binding.pod.key
        if engine.queue.find(key) is binding.queued:
            raise InvariantViolation(f"pod {key} is being bound and waits in the queue")
        known = engine.known_pods.by_uid(uid)
        if engine.cache.placed(uid) is None and known is not None and not known.is_terminating:
            raise InvariantViolation(f"pod {key} is being bound but counts nowhere")
