"""The objects of every kind that a decision reads but that are neither nodes nor pods, with a version for each kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from scheduler.cluster.forkable import ForkableDict
from scheduler.objects.kinds import AnyObject, Kind, kind_of_type
from scheduler.objects.meta import ApiObject


class ObjectStore:
    """Kind → key → object. ``version(kind)`` grows with each change of the kind, so that answers can be kept."""

    __slots__ = ("__weakref__", "_objects", "_versions", "changes")

    def __init__(self) -> None:
        self._objects: dict[Kind, ForkableDict[str, ApiObject]] = {kind: ForkableDict() for kind in Kind}
        self._versions: dict[Kind, int] = dict.fromkeys(Kind, 0)
        self.changes = 0
        """Grows with each change of any kind."""

    def put(self, kind: Kind, key: str, value: ApiObject) -> ApiObject | None:
        """Keep the newest object; the one it replaces is returned, or None."""
        old = self._objects[kind].get(key)
        self._objects[kind][key] = value
        self._versions[kind] += 1
        self.changes += 1
        return old

    def drop(self, kind: Kind, key: str) -> ApiObject | None:
        old: ApiObject | None = self._objects[kind].pop(key, None)
        if old is not None:
            self._versions[kind] += 1
            self.changes += 1
        return old

    def get(self, kind: Kind, key: str) -> ApiObject | None:
        """The object, or None. ``key``: ``namespace/name``, or the name of what has no namespace."""
        return self._objects[kind].get(key)

    def all(self, kind: Kind) -> Mapping[str, ApiObject]:
        return self._objects[kind]

    def find(self, type_: type[AnyObject], key: str) -> AnyObject | None:
        """The object, or None, as ``get`` by the kind's type."""
        return cast("AnyObject | None", self._objects[kind_of_type(type_)].get(key))

    def all_of(self, type_: type[AnyObject]) -> Mapping[str, AnyObject]:
        """All objects of a kind by key, as ``all`` by the kind's type."""
        return cast("Mapping[str, AnyObject]", self._objects[kind_of_type(type_)])

    def version(self, kind: Kind) -> int:
        return self._versions[kind]

    def fork(self) -> ObjectStore:
        """The same objects; neither side sees what the other puts or drops from now on."""
        other = ObjectStore.__new__(ObjectStore)
        other._objects = {kind: objects.fork() for kind, objects in self._objects.items()}
        other._versions = dict(self._versions)
        other.changes = self.changes
        return other
