"""OpenAPI v3 documents for ``kubectl explain`` and for field validation, made from the types that Tandem reads.

A schema has the fields that scheduling reads, not all that a cluster knows; its description says so. The operations
name the parameter by which kubectl finds out that the server validates fields, and the kind that explain looks up.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scheduler.objects import kinds as read
from scheduler.objects.meta import ObjectMeta
from scheduler.simulate.apiserver.kinds import BY_GROUP_VERSION, Kind

Object = dict[str, Any]

_REFERENCE: Final = "#/components/schemas/{name}"
_TYPES: Final = {(kind.entry.group, kind.entry.version, kind.entry.name): kind.entry.type for kind in read.Kind}
_FIELD_VALIDATION: Final = {
    "name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True},
}  # fmt: skip
_READ_TEXT: Final = (
    "A {kind} on Tandem's embedded API server, which keeps every field that it is sent. Listed are the fields that the "
    "scheduler reads; for all of them, ask a real cluster: kubectl explain with its kubeconfig."
)
_KEPT_TEXT: Final = (
    "A {kind} on Tandem's embedded API server, which keeps every field that it is sent. The scheduler reads nothing "
    "of it, so no fields are listed; for them, ask a real cluster: kubectl explain with its kubeconfig."
)
_PART_TEXT: Final = "The {kind}'s {part}, kept as it was sent; a real cluster's kubectl explain lists its fields."


def document(server_version: str, group: str, version: str) -> Object:
    """The document of one group version."""
    served = [kind for kind in BY_GROUP_VERSION[(group, version)].values() if kind.stored]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": server_version},
        "paths": {kind.path("{namespace}", "{name}"): _operations(kind) for kind in served},
        "components": {"schemas": _schemas(served)},
    }


def _identity(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _operations(kind: Kind) -> Object:
    identity = {"x-kubernetes-group-version-kind": _identity(kind), "responses": {}}
    return {
        "get": {**identity, "x-kubernetes-action": "get"},
        "patch": {**identity, "x-kubernetes-action": "patch", "parameters": [_FIELD_VALIDATION]},
    }


def _schemas(served: list[Kind]) -> Object:
    types = {kind: _TYPES.get((kind.group, kind.version, kind.kind)) for kind in served}
    known = [type_ for type_ in types.values() if type_ is not None]
    _, found = msgspec.json.schema_components(
        [ObjectMeta, *known], schema_hook=lambda _: {"type": "object"}, ref_template=_REFERENCE
    )
    schemas = {name: _plain(schema) for name, schema in found.items()}
    for kind, type_ in types.items():
        schema = schemas[type_.__name__] if type_ is not None else _unread(kind)
        heads = {name: {"type": "string"} for name in ("apiVersion", "kind")}
        schemas[type_.__name__ if type_ is not None else kind.kind] = {
            **schema,
            "description": (_READ_TEXT if type_ is not None else _KEPT_TEXT).format(kind=kind.kind),
            "properties": {**heads, **schema["properties"]},
            "x-kubernetes-group-version-kind": [_identity(kind)],
        }
    return schemas


def _unread(kind: Kind) -> Object:
    parts = ("spec", "status") if kind.subresources else ()
    kept = {part: {"type": "object", "description": _PART_TEXT.format(kind=kind.kind, part=part)} for part in parts}
    metadata = {"$ref": _REFERENCE.format(name=ObjectMeta.__name__)}
    return {"type": "object", "properties": {"metadata": metadata, **kept}}


def _plain(schema: Any) -> Any:
    """A schema in OpenAPI's terms: no null beside a type, no titles, defaults and docstrings of our classes."""
    if not isinstance(schema, dict):
        return schema
    choices = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if len(choices) == 1:
        return _plain(choices[0])
    if choices:
        # Quantities, and ports by number or name.
        return {"type": "string"}
    kept = {key: value for key, value in schema.items() if key not in ("title", "description", "default", "required")}
    if "properties" in kept:
        kept["properties"] = {name: _plain(value) for name, value in kept["properties"].items()}
    for field in ("items", "additionalProperties"):
        if field in kept:
            kept[field] = _plain(kept[field])
    return kept
