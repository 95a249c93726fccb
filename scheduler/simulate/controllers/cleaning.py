"""Garbage collection: deletes dependents with their owner, and contents with their namespace."""

from __future__ import annotations

from typing import Any

from scheduler.simulate.apiserver import DeleteOptions, Failure, Registry
from scheduler.simulate.apiserver.deletion import FOREGROUND, ORPHAN
from scheduler.simulate.apiserver.kinds import KINDS, NAMESPACES, Kind
from scheduler.simulate.controllers.index import Dependents, Key

Object = dict[str, Any]


def owner_gone(registry: Registry, dependents: Dependents, uid: str) -> None:
    """Deletes dependents without other owners; removes the reference from the others."""
    for key in dependents.keys(uid):
        obj = registry.store.get(*key)
        if obj is None:
            continue
        others = [one for one in obj["metadata"].get("ownerReferences") or () if one["uid"] != uid]
        if others:
            _set_metadata(registry, key, "ownerReferences", others)
        else:
            _delete(registry, key, obj)
    dependents.forget(uid)


def owner_going(registry: Registry, dependents: Dependents, kind: Kind, obj: Object) -> None:
    """Handles the two finalizers of deletions: foreground (dependents first) and orphan."""
    metadata = obj["metadata"]
    finalizers = metadata.get("finalizers") or []
    if "deletionTimestamp" not in metadata or not {FOREGROUND, ORPHAN} & set(finalizers):
        return
    keys = [key for key in dependents.keys(metadata["uid"]) if registry.store.get(*key) is not None]
    if FOREGROUND in finalizers and keys:
        for key in keys:
            found = registry.store.get(*key)
            if found is not None and "deletionTimestamp" not in found["metadata"]:
                _delete(registry, key, found, "Foreground")
        return
    if ORPHAN in finalizers:
        for key in keys:
            found = registry.store.get(*key)
            owners = [] if found is None else found["metadata"].get("ownerReferences") or []
            _set_metadata(registry, key, "ownerReferences", [one for one in owners if one["uid"] != metadata["uid"]])
    left = [one for one in finalizers if one not in (FOREGROUND, ORPHAN)]
    _set_metadata(registry, (kind, metadata.get("namespace", ""), metadata["name"]), "finalizers", left)


def namespace(registry: Registry, _: Dependents, obj: Object) -> None:
    """Deletes the contents of a terminating namespace; once it is empty, removes its finalizer."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata:
        return
    name, left = metadata["name"], 0
    for kind in KINDS:
        if not (kind.namespaced and kind.stored):
            continue
        for one in registry.store.list(kind, name):
            if "deletionTimestamp" not in one["metadata"]:
                _delete(registry, (kind, name, one["metadata"]["name"]), one)
        left += len(registry.store.list(kind, name))
    if not left:
        registry.change(NAMESPACES, "", name, lambda old: {**old, "spec": {**old["spec"], "finalizers": []}})


def _delete(registry: Registry, key: Key, obj: Object, propagation: str = "Background") -> None:
    try:
        registry.delete(*key, DeleteOptions(uid=obj["metadata"]["uid"], propagation=propagation))
    except Failure as failure:
        if failure.code not in (404, 409):
            raise


def _set_metadata(registry: Registry, key: Key, field: str, value: list[Any]) -> None:
    def edited(old: Object) -> Object:
        metadata = {name: one for name, one in old["metadata"].items() if name != field}
        return {**old, "metadata": {**metadata, field: value} if value else metadata}

    registry.change(*key, edited)
