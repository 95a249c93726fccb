"""What the engine tells PreEnqueue plugins (``EnqueueContext``)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from scheduler.cluster.cache import ClusterCache
from scheduler.engine.making_room.removals import Removals
from scheduler.objects.kinds import Kind


class GateFacts:
    def __init__(self, cache: ClusterCache, removals: Callable[[], Removals]) -> None:
        self._cache = cache
        self._removals = removals

    def lookup(self, kind: Kind, key: str) -> Any:
        """An object by kind and key, or None."""
        return self._cache.objects.get(kind, key)

    def is_removing_victims_for(self, uid: str) -> bool:
        """Whether a preemption for this pod is still running."""
        return self._removals().is_removing_for(uid)

    def preemptors_held_back(self) -> Collection[str]:
        """UIDs of pods for which a preemption is still running, for sure."""
        return self._removals().held_back
