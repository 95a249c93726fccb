"""What was decided about volumes and claims, kept over the API server's word until it says anything newer."""

from __future__ import annotations

from typing import Generic, TypeVar

from scheduler.cluster.object_store import ObjectStore
from scheduler.errors import SchedulerError
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject

AnyStorage = TypeVar("AnyStorage", bound=ApiObject)


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


class AssumedObjects(Generic[AnyStorage]):
    """At most one assumption an object, valid only while the stored object has the very same resourceVersion.

    Versions are compared for equality and never merged: whatever the API server sends ends the assumption, even a
    change by somebody else. The object then looks free for a moment, but the write carries the old version, is refused
    as a conflict, and the attempt is made again (reference volumes.md §3).
    """

    __slots__ = ("_assumed", "_kind", "_objects")

    def __init__(self, kind: Kind, objects: ObjectStore) -> None:
        self._kind = kind
        self._objects = objects
        self._assumed: dict[str, AnyStorage] = {}

    def get(self, key: str) -> AnyStorage | None:
        """The assumed object while it holds, else the stored one; None if there is none."""
        stored: AnyStorage | None = self._objects.get(self._kind, key)
        assumed = self._assumed.get(key)
        if assumed is not None and stored is not None and assumed.resource_version == stored.resource_version:
            return assumed
        return stored

    def assume(self, assumed: AnyStorage) -> None:
        """The last assumption counts. Raises OutOfSync unless it was made from the stored version."""
        stored: AnyStorage | None = self._objects.get(self._kind, assumed.key)
        if stored is None:
            raise OutOfSync(assumed.key, None, assumed.resource_version)
        if stored.resource_version != assumed.resource_version:
            raise OutOfSync(assumed.key, stored.resource_version, assumed.resource_version)
        self._assumed[assumed.key] = assumed

    def restore(self, assumed: AnyStorage) -> None:
        """Drop an assumption; one that was made from another version stays."""
        held = self._assumed.get(assumed.key)
        if held is not None and held.resource_version == assumed.resource_version:
            del self._assumed[assumed.key]

    def settle(self, key: str) -> None:
        """The API server spoke of the object: an assumption about another version is over."""
        held = self._assumed.get(key)
        if held is not None:
            stored: AnyStorage | None = self._objects.get(self._kind, key)
            if stored is None or stored.resource_version != held.resource_version:
                del self._assumed[key]

    def copy(self) -> AssumedObjects[AnyStorage]:
        other: AssumedObjects[AnyStorage] = AssumedObjects(self._kind, self._objects)
        other._assumed = dict(self._assumed)
        return other
