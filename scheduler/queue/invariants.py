"""What must hold between the queue's places, whatever happens."""

from __future__ import annotations

from collections import Counter

from scheduler.errors import InvariantViolation
from scheduler.queue.active import ActiveQueue
from scheduler.queue.backoff import BackoffQueues
from scheduler.queue.facts import QueueFacts
from scheduler.queue.pool import UnschedulablePool


def check_places(active: ActiveQueue, backoff: BackoffQueues, pool: UnschedulablePool, facts: QueueFacts) -> None:
    """Raise InvariantViolation unless every pod waits in one place that suits it, and the gauge of rejected pods agrees
    with a recount."""
    seen: set[str] = set()
    gauge: Counter[tuple[str, str]] = Counter()
    for place in (active, backoff.rejected, backoff.errors, pool):
        for record in place:
            if record.key in seen:
                raise InvariantViolation(f"pod {record.key} is in two places")
            seen.add(record.key)
            if record.is_gated and place is not pool:
                raise InvariantViolation(f"pod {record.key} is gated but not in the pool")
            if record.rejectors and place is backoff.errors:
                raise InvariantViolation(f"pod {record.key} was rejected, yet waits as after an error")
            gauge.update((plugin, record.profile) for plugin in record.rejectors)
    if gauge != facts.unschedulable_pods:
        raise InvariantViolation("the gauge unschedulable_pods differs from a recount")
