"""An index of dependents by the UID of their owner, kept up to date from the store's changes."""

from __future__ import annotations

from typing import Any

from scheduler.simulate.apiserver import Change, Store
from scheduler.simulate.apiserver.kinds import PODS, Kind

Object = dict[str, Any]
Key = tuple[Kind, str, str]
"""Kind, namespace, name."""


def controller_of(obj: Object) -> Object | None:
    """The owner reference of the object's controller."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return None


def owner_reference(kind: Kind, owner: Object) -> Object:
    """The owner reference that a controller sets on objects it creates."""
    metadata = owner["metadata"]
    return {
        "apiVersion": kind.api_version, "kind": kind.kind, "name": metadata["name"], "uid": metadata["uid"],
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip


class Dependents:
    """The keys of all objects with owner references."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_owner: dict[str, dict[Key, None]] = {}

    def note(self, kind: Kind, change: Change) -> None:
        current = change.current
        key = (kind, current.namespace, current.name)
        if change.previous is not None:
            for owner in change.previous.object["metadata"].get("ownerReferences") or ():
                self._by_owner.get(owner["uid"], {}).pop(key, None)
        if change.type != "DELETED":
            self.add(key, current.object)

    def add(self, key: Key, obj: Object) -> None:
        for owner in obj["metadata"].get("ownerReferences") or ():
            self._by_owner.setdefault(owner["uid"], {})[key] = None

    def keys(self, uid: str) -> list[Key]:
        """The keys of all objects with a reference to this owner."""
        return list(self._by_owner.get(uid, ()))

    def forget(self, uid: str) -> None:
        self._by_owner.pop(uid, None)

    def of(self, owner: Object, kind: Kind = PODS) -> list[Object]:
        """The objects of one kind that this owner controls, by name."""
        uid = owner["metadata"]["uid"]
        found = []
        for one, namespace, name in sorted(self._by_owner.get(uid, ()), key=lambda key: key[2]):
            obj = self._store.get(one, namespace, name) if one is kind else None
            reference = None if obj is None else controller_of(obj)
            if obj is not None and reference is not None and reference["uid"] == uid:
                found.append(obj)
        return found
