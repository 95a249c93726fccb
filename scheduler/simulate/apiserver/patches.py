"""The patch formats: JSON patch (RFC 6902), JSON merge patch (RFC 7386) and Kubernetes' strategic merge patch.

None of them mutates its input: unchanged parts are shared between the old object and the new one.
"""

from __future__ import annotations

from typing import Any, Final

from scheduler.simulate.apiserver import failures

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
"""Server-side apply, which is not a patch of the object alone: see `applying`."""
PATCH_TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH)

_MERGE_KEYS: Final[dict[str, str]] = {
    "conditions": "type",
    "addresses": "type",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "imagePullSecrets": "name",
    "secrets": "name",
    "schedulingGates": "name",
    "resourceClaims": "name",
    "resourceClaimStatuses": "name",
    "topologySpreadConstraints": "topologyKey",
    "hostAliases": "ip",
    "podIPs": "ip",
    "hostIPs": "ip",
    "ownerReferences": "uid",
    "reservedFor": "uid",
    "drivers": "name",
}
"""Lists of objects that a strategic patch merges by key; all other lists of objects are replaced as a whole."""

SETS: Final = frozenset({"finalizers", "podCIDRs"})
"""Lists of texts that are merged."""
_DIRECTIVE: Final = "$patch"


def apply(content_type: str, obj: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Applies a patch of this content type to `obj`."""
    if content_type == JSON_PATCH:
        return json_patch(obj, patch)
    if not isinstance(patch, dict):
        raise failures.bad_request("json: cannot unmarshal array into Go value of type map[string]interface {}")
    return merge_patch(obj, patch) if content_type == MERGE_PATCH else strategic_patch(obj, patch)


def merge_patch(target: Any, patch: Any) -> Any:
    """The object after a JSON merge patch. Other than in RFC 7386, a null deletes its field also within the items of a
    list, as in the API server."""
    if isinstance(patch, list) and not isinstance(target, dict):
        return [item if item is None else merge_patch(None, item) for item in patch]
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def strategic_patch(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Merges maps, deletes nulls, merges lists by their field's key, and applies the directives of kubectl."""
    if patch.get(_DIRECTIVE) == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if patch.get(_DIRECTIVE) == "delete":
        return {}
    merged = dict(target)
    for key, value in patch.items():
        if key.startswith("$"):
            _directive(merged, key, value)
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            current = merged.get(key)
            merged[key] = strategic_patch(current if isinstance(current, dict) else {}, value)
        elif isinstance(value, list):
            merged[key] = _merge_list(key, merged.get(key) or [], value, patch.get(f"$setElementOrder/{key}"))
        else:
            merged[key] = value
    return merged


def _directive(merged: dict[str, Any], key: str, value: Any) -> None:
    kind, _, field = key.partition("/")
    if kind == "$deleteFromPrimitiveList":
        merged[field] = [item for item in merged.get(field) or [] if item not in value]
    elif kind == "$retainKeys":
        for gone in [name for name in merged if name not in value]:
            del merged[gone]


def _merge_list(field: str, current: list[Any], patch: list[Any], order: list[Any] | None) -> list[Any]:
    if field in SETS:
        together = dict.fromkeys([*current, *patch])
        return _ordered({item: item for item in together}, list(dict.fromkeys(current)), order or patch)
    if not patch or not all(isinstance(item, dict) for item in patch):
        return patch
    key_field = merge_key(field, current, patch)
    if key_field is None:
        return patch
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if _DIRECTIVE not in item]
    merged = {item.get(key_field): item for item in current}
    for item in patch:
        key = item.get(key_field)
        if item.get(_DIRECTIVE) == "delete":
            merged.pop(key, None)
        else:
            merged[key] = strategic_patch(merged.get(key, {}), item)
    before = [item.get(key_field) for item in current]
    return _ordered(merged, before, [item.get(key_field) for item in order or patch])


def _ordered(merged: dict[Any, Any], before: list[Any], patched: list[Any]) -> list[Any]:
    """The items in the API server's order: those of the patch in the patch's order, others in their old order relative
    to them. A new item comes before an adjacent old one that the patch does not contain."""
    place = {key: index for index, key in enumerate(before)}
    named = [key for key in dict.fromkeys(patched) if key in merged]
    others = [key for key in before if key in merged and key not in named]
    result: list[Any] = []
    while others and named:
        old_first = named[0] in place and place[others[0]] < place[named[0]]
        result.append(merged[(others if old_first else named).pop(0)])
    return result + [merged[key] for key in (*others, *named)]


def merge_key(field: str, current: list[Any], patch: list[Any]) -> str | None:
    """The key by which the items of these lists are merged; None if the patch replaces the list."""
    if field == "ports":
        return "containerPort" if any("containerPort" in item for item in [*current, *patch]) else "port"
    return _MERGE_KEYS.get(field)


def json_patch(obj: dict[str, Any], operations: Any) -> dict[str, Any]:
    """Applies the operations in order; raises 422 if one of them fails."""
    if not isinstance(operations, list):
        raise failures.bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    result: Any = obj
    for operation in operations:
        try:
            result = _operate(result, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise _rejected() from error
    if not isinstance(result, dict):
        raise _rejected()
    return result


def _rejected() -> failures.Failure:
    message = "the server rejected our request due to an error in our request"
    return failures.Failure(422, "Invalid", message, {})


def _operate(document: Any, operation: dict[str, Any]) -> Any:
    path = _pointer(operation["path"])
    match operation["op"]:
        case "test":
            if _read(document, path) != operation.get("value"):
                raise ValueError(operation["path"])
            return document
        case "add":
            return _write(document, path, operation["value"], insert=True)
        case "replace":
            _read(document, path)
            return _write(document, path, operation["value"], insert=False)
        case "remove":
            return _remove(document, path)
        case "copy":
            return _write(document, path, _read(document, _pointer(operation["from"])), insert=True)
        case "move":
            source = _pointer(operation["from"])
            return _write(_remove(document, source), path, _read(document, source), insert=True)
    raise ValueError(operation["op"])


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise ValueError(text)
    return [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]


def _read(document: Any, path: list[str]) -> Any:
    for step in path:
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document


def _write(document: Any, path: list[str], value: Any, *, insert: bool) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(document, list):
        changed = list(document)
        place = len(changed) if step == "-" else int(step)
        if rest:
            changed[place] = _write(changed[place], rest, value, insert=insert)
        elif insert:
            if place > len(changed):
                raise IndexError(step)
            changed.insert(place, value)
        else:
            changed[place] = value
        return changed
    return {**document, step: _write(document[step], rest, value, insert=insert) if rest else value}


def _remove(document: Any, path: list[str]) -> Any:
    step, rest = path[0], path[1:]
    if isinstance(document, list):
        changed = list(document)
        if rest:
            changed[int(step)] = _remove(changed[int(step)], rest)
        else:
            del changed[int(step)]
        return changed
    if rest:
        return {**document, step: _remove(document[step], rest)}
    if step not in document:
        raise KeyError(step)
    return {key: value for key, value in document.items() if key != step}
