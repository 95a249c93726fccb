"""What PreEnqueue plugins may ask when they decide whether a pod may enter the active queue."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from scheduler.cluster.groups.facts import Groups
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject


class EnqueueContext(Protocol):
    """What PreEnqueue plugins may ask."""

    def is_removing_victims_for(self, uid: str) -> bool: ...

    def preemptors_held_back(self) -> Collection[str]: ...

    def lookup(self, kind: Kind, key: str) -> ApiObject | None: ...

    @property
    def groups(self) -> Groups:
        """The groups of pods, and their members; not to be changed."""
        ...
