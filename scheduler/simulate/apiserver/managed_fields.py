"""Managed fields: which manager set which field of an object, as metadata.managedFields records it.

A field's path is a tuple of the steps of FieldsV1: ``f:name`` of a map, ``k:{"name":"c"}`` of a list with keys,
``v:"x"`` of a list that is a set. All other lists, and selectors, are one field each.
Recorded from an object's first server-side apply on; objects without one have no managed fields here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from scheduler.simulate.apiserver import patches
from scheduler.simulate.apiserver.kinds import Kind

Object = dict[str, Any]
Path = tuple[str, ...]
Paths = frozenset[Path]

APPLY: Final = "Apply"
UPDATE: Final = "Update"

_ATOMIC: Final = frozenset({"selector", "nodeSelector", "labelSelector"})
_TWO_KEYS: Final[dict[str, tuple[str, str]]] = {
    "containerPort": ("containerPort", "protocol"),
    "port": ("port", "protocol"),
    "topologyKey": ("topologyKey", "whenUnsatisfiable"),
}
"""Lists whose items apply tells apart by a second key, by their key in strategic patches."""
_KEY_DEFAULTS: Final = {"protocol": "TCP"}
_OWN: Final = frozenset(
    {
        "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink",
        "deletionTimestamp", "deletionGracePeriodSeconds", "generateName",
    }
)  # fmt: skip
"""Fields of the metadata that no manager owns: they identify the object, or the server sets them."""


class Manager(msgspec.Struct, frozen=True):
    """A writer: its name, how it writes (`APPLY` or `UPDATE`), and the subresource through which it does."""

    name: str
    operation: str = UPDATE
    subresource: str = ""


class Ownership(msgspec.Struct, frozen=True):
    """One entry of metadata.managedFields."""

    manager: Manager
    api_version: str
    time: str
    paths: Paths

    def document(self) -> Object:
        shown: Object = {
            "manager": self.manager.name, "operation": self.manager.operation, "apiVersion": self.api_version,
            "time": self.time, "fieldsType": "FieldsV1", "fieldsV1": _nested(self.paths),
        }  # fmt: skip
        return {**shown, "subresource": self.manager.subresource} if self.manager.subresource else shown


def read(metadata: Object) -> list[Ownership]:
    """The entries of an object's metadata."""
    return [
        Ownership(
            Manager(one["manager"], one["operation"], one.get("subresource", "")), one["apiVersion"], one["time"],
            frozenset(_flat(one["fieldsV1"], ())),
        )
        for one in metadata.get("managedFields") or ()
    ]  # fmt: skip


def written(entries: Iterable[Ownership]) -> list[Object]:
    """The value of metadata.managedFields; entries that own nothing are left out."""
    return [one.document() for one in entries if one.paths]


def tracked(kind: Kind, old: Object, new: Object, manager: Manager, now: str) -> list[Object]:
    """The entries after an update: what the manager changed is its own, and no other manager's."""
    before, after = dict(fields(old)), dict(fields(new))
    changed = frozenset(path for path, value in after.items() if path not in before or before[path] != value)
    gone = before.keys() - after.keys()
    entries, found = [], False
    for one in read(old["metadata"]):
        if one.manager == manager:
            found = True
            paths = (one.paths - gone) | changed
            entries.append(Ownership(manager, kind.api_version, now if paths != one.paths else one.time, paths))
        else:
            entries.append(msgspec.structs.replace(one, paths=one.paths - gone - changed))
    if changed and not found:
        entries.append(Ownership(manager, kind.api_version, now, changed))
    return written(entries)


def fields(obj: Object) -> Iterator[tuple[Path, Any]]:
    """The paths of all fields that managers can own, with their values; None for an item of a list with keys."""
    for name, value in obj.items():
        if name in ("kind", "apiVersion"):
            continue
        if name == "metadata":
            for field, inner in value.items():
                if field not in _OWN:
                    yield from _fields(field, inner, ("f:metadata", f"f:{field}"))
        else:
            yield from _fields(name, value, (f"f:{name}",))


def _fields(name: str, value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value and name not in _ATOMIC:
        for field, inner in value.items():
            yield from _fields(field, inner, (*path, f"f:{field}"))
        return
    keys = keys_of(name, value)
    if keys is not None:
        for item in value:
            step = item_step(keys, item)
            yield (*path, step), None
            for field, inner in item.items():
                yield from _fields(field, inner, (*path, step, f"f:{field}"))
    elif name in patches.SETS and isinstance(value, list):
        yield from (((*path, "v:" + _text(item)), None) for item in value)
    else:
        yield path, value


def keys_of(name: str, value: Any) -> tuple[str, ...] | None:
    """The fields that tell the items of this list apart; None if it is one field as a whole."""
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        return None
    key = patches.merge_key(name, value, [])
    if key is None or not all(key in item for item in value):
        return None
    return _TWO_KEYS.get(key, (key,))


def item_step(keys: tuple[str, ...], item: Object) -> str:
    """The step of a path to this item."""
    named = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in sorted(keys)}
    return "k:" + _text({key: value for key, value in named.items() if value is not None})


def shown(path: Path) -> str:
    """A path as kube-apiserver's messages have it: ``.spec.containers[name="c"].image``."""
    text = ""
    for step in path:
        kind, _, rest = step.partition(":")
        match kind:
            case "f":
                text += f".{rest}"
            case "k":
                pairs = msgspec.json.decode(rest).items()
                text += f"[{','.join(f'{key}={_text(value)}' for key, value in pairs)}]"
            case _:
                text += f"[={rest}]"
    return text


def _nested(paths: Paths) -> Object:
    tree: Object = {}
    for path in sorted(paths):
        place = tree
        for step in path:
            place = place.setdefault(step, {})
        if path[-1].startswith("k:"):
            place["."] = {}
    return tree


def _flat(tree: Object, path: Path) -> Iterator[Path]:
    if not tree:
        yield path
    for step, inner in tree.items():
        if step == ".":
            yield path
        else:
            yield from _flat(inner, (*path, step))


def _text(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
