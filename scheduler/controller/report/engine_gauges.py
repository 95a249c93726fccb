"""The engine's gauges and counters for the metrics page."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.engine.engine import Engine
from scheduler.engine.making_room.policies import Suspension
from scheduler.engine.making_room.removal_times import RemovalTimes
from scheduler.queue.in_flight import POD_MARKER
from scheduler.queue.metrics import Durations


class GaugesOfEngine:
    """Reads; never changes anything."""

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
        return {POD_MARKER: 0} | self._engine.queue.in_flight.lengths()

    def hint_durations(self) -> Mapping[tuple[str, str, str], Durations]:
        return self._engine.facts.hint_durations

    def event_durations(self) -> Mapping[str, Durations]:
        return self._engine.facts.event_durations

    def removal_times(self) -> Mapping[str, RemovalTimes]:
        return self._engine.room.times

    def suspension_counts(self) -> Mapping[str, int]:
        counts = self._engine.room.suspensions
        return {reason.value: counts[reason.value] for reason in Suspension}
