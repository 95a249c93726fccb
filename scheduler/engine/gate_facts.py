"""What the engine tells PreEnqueue plugins (``EnqueueContext``)."""

from __future__ import annotations

from collections.abc import Collection

from scheduler.cluster.cache import ClusterCache
from scheduler.engine.machine import ReadsRoom
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject


class GateFacts:
    def __init__(self, cache: ClusterCache, room: ReadsRoom) -> None:
        self._cache = cache
        self._room = room

    def lookup(self, kind: Kind, key: str) -> ApiObject | None:
        """An object by kind and key, or None."""
        found: ApiObject | None = self._cache.objects.get(kind, key)
        return found

    def is_removing_victims_for(self, uid: str) -> bool:
        """Whether a preemption for this pod is still running."""
        return self._room.is_removing_for(uid)

    def preemptors_held_back(self) -> Collection[str]:
        """UIDs of pods for which a preemption is still running, for sure."""
        return self._room.held_back
