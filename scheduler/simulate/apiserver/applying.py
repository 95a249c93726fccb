"""Server-side apply: merges a manager's fields into an object, and refuses to take over those of other managers."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scheduler.simulate.apiserver import failures, managed_fields, patches
from scheduler.simulate.apiserver.kinds import Kind
from scheduler.simulate.apiserver.managed_fields import APPLY, UPDATE, Manager, Ownership, Path, Paths
from scheduler.simulate.apiserver.registry import Registry, WriteOptions, shown_object
from scheduler.simulate.apiserver.store import Object, Stored

_BEFORE: Final = Manager("before-first-apply", UPDATE)
"""The owner of what an object held before its first apply."""


class Applied(msgspec.Struct, frozen=True):
    """A request to apply: the fields that this manager wants, and whether it takes over those of others."""

    document: Object
    manager: str
    force: bool = False
    subresource: str = ""


def apply(
    registry: Registry, kind: Kind, namespace: str, name: str, request: Applied, *, dry_run: bool = False
) -> tuple[Stored, bool]:
    """Creates the object or merges the request into it; the second value is whether it was created.

    Raises 409 with the conflicting fields if other managers own fields that would change.
    """
    _check(kind, name, request)
    manager = Manager(request.manager, APPLY, request.subresource)
    wanted = dict(managed_fields.fields(request.document))
    found = registry.store.collection(kind).get(namespace, name)
    own = Ownership(manager, kind.api_version, registry.timestamp(), frozenset(wanted))
    if found is None:
        if request.subresource:
            raise failures.not_found(kind, name)
        options = WriteOptions(dry_run=dry_run, managed=managed_fields.written([own]))
        return registry.create(kind, namespace, request.document, options), True
    live = shown_object(kind, found)
    entries = managed_fields.read(live["metadata"]) or [_first(kind, registry, live)]
    others = [one for one in entries if one.manager != manager]
    conflicts = _conflicts(live, wanted, others)
    if conflicts and not request.force:
        raise _refused(conflicts)
    taken = frozenset(path for _, path in conflicts)
    others = [msgspec.structs.replace(one, paths=one.paths - taken) for one in others]
    before = next((one for one in entries if one.manager == manager), None)
    merged = _merged(live, request.document)
    if before is not None:
        merged = _without(merged, _abandoned(before.paths, own.paths, others))
        if before.paths == own.paths:
            own = before
    options = WriteOptions(dry_run=dry_run, managed=managed_fields.written([own, *others]))
    stored, _ = registry.update(kind, namespace, name, merged, request.subresource, options)
    return stored, False


def _check(kind: Kind, name: str, request: Applied) -> None:
    if not request.manager:
        cause = failures.required("fieldManager", "is required for apply patch")
        raise failures.Failure(
            422, "Invalid", f'PatchOptions.meta.k8s.io "" is invalid: {cause.field}: {cause.message}',
            {"group": "meta.k8s.io", "kind": "PatchOptions",
             "causes": [{"reason": cause.reason, "message": cause.message, "field": cause.field}]},
        )  # fmt: skip
    metadata = request.document.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("name") != name:
        sent = metadata.get("name", "") if isinstance(metadata, dict) else ""
        text = f"the name of the object ({sent}) does not match the name on the URL ({name})"
        raise failures.bad_request(text)
    if metadata.get("managedFields"):
        raise failures.bad_request("metadata.managedFields must be nil")
    if request.document.get("apiVersion") != kind.api_version:
        raise failures.bad_request(f"the applied object must have apiVersion {kind.api_version}")


def _first(kind: Kind, registry: Registry, live: Object) -> Ownership:
    paths = frozenset(path for path, _ in managed_fields.fields(live))
    return Ownership(_BEFORE, kind.api_version, registry.timestamp(), paths)


# --- conflicts --------------------------------------------------------------------------------------------------------


def _conflicts(live: Object, wanted: dict[Path, Any], others: list[Ownership]) -> list[tuple[Ownership, Path]]:
    """The fields that would change although another manager owns them."""
    present = dict(managed_fields.fields(live))
    differing = {path for path, value in wanted.items() if path in present and present[path] != value}
    return [(one, path) for one in others for path in sorted(differing & one.paths)]


def _refused(conflicts: list[tuple[Ownership, Path]]) -> failures.Failure:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_named(one)}",
            "field": managed_fields.shown(path),
        }
        for one, path in conflicts
    ]
    if len(conflicts) == 1:
        text = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        by_manager: dict[str, list[str]] = {}
        for one, path in conflicts:
            by_manager.setdefault(_named(one), []).append(f"- {managed_fields.shown(path)}")
        parts = ["\n".join([f"conflicts with {name}:", *by_manager[name]]) for name in sorted(by_manager)]
        text = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(parts)
    return failures.Failure(409, "Conflict", text, {"causes": causes})


def _named(entry: Ownership) -> str:
    manager = entry.manager
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    return text if manager.operation == APPLY else f"{text} using {entry.api_version}"


# --- merging ----------------------------------------------------------------------------------------------------------


def _merged(live: Any, applied: Any, name: str = "") -> Any:
    """`live` with the applied fields: maps and lists with keys are merged, everything else is replaced."""
    if isinstance(live, dict) and isinstance(applied, dict):
        inner = {field: _merged(live.get(field), value, field) for field, value in applied.items()}
        return {**live, **inner}
    keys = managed_fields.keys_of(name, live)
    if keys is not None and (applied == [] or managed_fields.keys_of(name, applied) == keys):
        items = {managed_fields.item_step(keys, item): item for item in live}
        for item in applied:
            step = managed_fields.item_step(keys, item)
            items[step] = _merged(items.get(step), item)
        return list(items.values())
    if name in patches.SETS and isinstance(live, list) and isinstance(applied, list):
        return list(dict.fromkeys([*live, *applied]))
    return applied


def _abandoned(before: Paths, after: Paths, others: list[Ownership]) -> Paths:
    """The fields that the manager applied before and does not any more, and that are in no other manager's set."""
    kept: set[Path] = set()
    for paths in (after, *(one.paths for one in others)):
        for path in paths:
            kept.update(path[: length + 1] for length in range(len(path)))
    return frozenset(before - kept)


def _without(obj: Object, paths: Paths) -> Object:
    for path in sorted(paths, key=len):
        obj = _removed(obj, path, "")
    return obj


def _removed(value: Any, path: Path, name: str) -> Any:
    step, rest = path[0], path[1:]
    if isinstance(value, dict) and step.startswith("f:"):
        field = step.removeprefix("f:")
        if field not in value:
            return value
        inner = _removed(value[field], rest, field) if rest else None
        if inner is None or inner == {} or inner == []:
            return {key: one for key, one in value.items() if key != field}
        return {**value, field: inner}
    if not isinstance(value, list):
        return value
    if step.startswith("v:"):
        return [item for item in value if item != msgspec.json.decode(step[2:])]
    keys = managed_fields.keys_of(name, value)
    if keys is None:
        return value
    kept = []
    for item in value:
        if managed_fields.item_step(keys, item) != step:
            kept.append(item)
        elif rest:
            kept.append(_removed(item, rest, ""))
    return kept
