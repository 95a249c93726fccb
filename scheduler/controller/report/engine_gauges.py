"""The engine's gauges and counters for the metrics page."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from scheduler.engine.engine import Engine
from scheduler.engine.making_room.policies import Suspension
from scheduler.engine.making_room.removal_times import RemovalTimes
from scheduler.queue.metrics import Durations

log = structlog.get_logger()


class GaugesOfEngine:
    """Read-only, except that logging the problems empties their list."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def pending_counts(self) -> Mapping[str, int]:
        return self._engine.queue.pending_counts()

    def cache_counts(self) -> Mapping[str, int]:
        cache = self._engine.cache
        nodes = sum(node is not None for node in cache.table.nodes)
        return {"nodes": nodes, "pods": len(cache.pods), "assumed_pods": cache.assumed_count}

    def unschedulable_counts(self) -> Mapping[tuple[str, str], int]:
        return self._engine.facts.unschedulable_pods

    def incoming_counts(self) -> Mapping[tuple[str, str], int]:
        return self._engine.facts.incoming

    def inflight_counts(self) -> Mapping[str, int]:
        return self._engine.queue.in_flight.lengths()

    def hint_durations(self) -> Mapping[tuple[str, str, str], Durations]:
        return self._engine.facts.hint_durations

    def event_durations(self) -> Mapping[str, Durations]:
        return self._engine.facts.event_durations

    def removal_times(self) -> Mapping[str, RemovalTimes]:
        return self._engine.removals.times

    def suspension_counts(self) -> Mapping[str, int]:
        counts = self._engine.policies.suspensions
        return {reason.value: counts[reason.value] for reason in Suspension}

    def log_problems(self) -> None:
        """Logs the queue's problems since the last call."""
        if self._engine.facts.problems:
            for problem in self._engine.facts.take_problems():
                log.warning("Queue reported a problem", problem=problem)
