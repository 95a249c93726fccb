"""Assumptions about objects of one kind, which take the place of the stored objects while they hold.

Volumes and claims are decided on before the API server knows. An assumption holds for the version that it was made
from, and no other: whatever the API server sends ends it, even a change by another client. The object then looks free
for a moment, but the write carries the old version, is refused as a conflict, and the attempt is made again
(docs/kube-scheduler/volumes.md §3).
"""

from __future__ import annotations

from typing import Generic, TypeVar, cast

from scheduler.cluster.object_store import ObjectStore
from scheduler.errors import SchedulerError
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject

AnyObject = TypeVar("AnyObject", bound=ApiObject)


class OutOfSync(SchedulerError):
    """The object that an assumption was made from has changed meanwhile, or is gone."""

    def __init__(self, key: str, stored: str | None, assumed: str) -> None:
        self.key = key
        self.stored = stored
        self.assumed = assumed
        super().__init__(key, stored, assumed)

    def __str__(self) -> str:
        if self.stored is None:
            return f'could not find "{self.key}"'
        return f'"{self.key}" is out of sync (stored: {self.stored}, assume: {self.assumed})'


class AssumedObjects(Generic[AnyObject]):
    """At most one assumption for each object of a kind."""

    __slots__ = ("_assumed", "_kind", "_objects")

    def __init__(self, kind: Kind, objects: ObjectStore) -> None:
        self._kind = kind
        self._objects = objects
        self._assumed: dict[str, AnyObject] = {}

    def get(self, key: str) -> AnyObject | None:
        """The assumed object while the assumption holds, else the stored one; None if there is none."""
        stored = self._stored(key)
        assumed = self._assumed.get(key)
        if assumed is not None and stored is not None and assumed.resource_version == stored.resource_version:
            return assumed
        return stored

    def assume(self, assumed: AnyObject) -> None:
        """Assume a changed object in place of the stored one; a later assumption replaces an earlier one.

        Raises OutOfSync if there is no such object, or the assumption does not hold.
        """
        stored = self._stored(assumed.key)
        if stored is None:
            raise OutOfSync(assumed.key, None, assumed.resource_version)
        if assumed.resource_version != stored.resource_version:
            raise OutOfSync(assumed.key, stored.resource_version, assumed.resource_version)
        self._assumed[assumed.key] = assumed

    def restore(self, assumed: AnyObject) -> None:
        """Drop the assumption, unless one made from another version has replaced it."""
        held = self._assumed.get(assumed.key)
        if held is not None and held.resource_version == assumed.resource_version:
            del self._assumed[assumed.key]

    def settle(self, key: str) -> None:
        """Drop the assumption for an object that the API server has just changed, unless it still holds."""
        held = self._assumed.get(key)
        if held is not None:
            stored = self._stored(key)
            if stored is None or held.resource_version != stored.resource_version:
                del self._assumed[key]

    def __len__(self) -> int:
        """How many assumptions are kept, those that no longer hold included."""
        return len(self._assumed)

    def fork(self, objects: ObjectStore) -> AssumedObjects[AnyObject]:
        """The same assumptions over another store; neither side sees what the other does from now on."""
        other: AssumedObjects[AnyObject] = AssumedObjects(self._kind, objects)
        other._assumed = dict(self._assumed)
        return other

    def _stored(self, key: str) -> AnyObject | None:
        return cast("AnyObject | None", self._objects.get(self._kind, key))
