"""The gates and queueing hints of the profiles, and the facts that gates may read (``EnqueueContext``)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.groups.facts import Groups
from scheduler.engine.machine import ReadsRoom
from scheduler.framework.profile import Profile
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.queue.gates import Gates
from scheduler.queue.hints import HintMap, registrations_of
from scheduler.queue.metrics import QueueMetrics


class GateFacts:
    """The facts that PreEnqueue plugins may read: an ``EnqueueContext``."""

    def __init__(self, cache: ClusterCache, room: ReadsRoom) -> None:
        self._cache = cache
        self._room = room

    @property
    def groups(self) -> Groups:
        return self._cache.groups

    def lookup(self, kind: Kind, key: str) -> ApiObject | None:
        """An object by kind and key, or None."""
        found: ApiObject | None = self._cache.objects.get(kind, key)
        return found

    def is_removing_victims_for(self, uid: str) -> bool:
        """Whether a preemption for this pod is still running."""
        return self._room.is_removing_for(uid)

    def preemptors_held_back(self) -> Collection[str]:
        """UIDs of pods for which a preemption is certainly still running."""
        return self._room.held_back


def gates_of(profiles: Mapping[str, Profile], cache: ClusterCache, room: ReadsRoom, facts: QueueMetrics) -> Gates:
    """The PreEnqueue plugins of the profiles, with the facts that they read."""
    plugins = {name: profile.pre_enqueue_plugins for name, profile in profiles.items()}
    return Gates(plugins, GateFacts(cache, room), facts)


def hints_of(
    profiles: Mapping[str, Profile],
    cache: ClusterCache,
    facts: QueueMetrics,
    stopwatch: Callable[[], float],
    has_extenders: bool,
) -> HintMap:
    """The queueing hints that the plugins of the profiles registered."""
    classes = cache.devices.classes
    registrations = {name: registrations_of(one.plugins, has_extenders, classes) for name, one in profiles.items()}
    return HintMap(registrations, facts, stopwatch)
