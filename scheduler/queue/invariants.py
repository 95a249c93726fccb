"""Invariants across the queue's places."""

from __future__ import annotations

from collections import Counter

from scheduler.errors import InvariantViolation
from scheduler.queue.active import ActiveQueue
from scheduler.queue.backoff import BackoffQueues
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.pool import UnschedulablePool


def check_places(active: ActiveQueue, backoff: BackoffQueues, pool: UnschedulablePool, facts: QueueMetrics) -> None:
    """Raises InvariantViolation unless every pod is in exactly one place that fits its state, and the gauge of rejected
    pods agrees with a recount."""
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
