"""Label and field selectors of query strings, and label selectors of objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from scheduler.simulate.apiserver import failures
from scheduler.simulate.apiserver.kinds import (
    CORE_EVENTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICATION_CONTROLLERS,
    RESOURCE_SLICES,
    SECRETS,
    Kind,
)

Operator = Literal["in", "notin", "exists", "!", "gt", "lt"]
Matcher = Callable[[Mapping[str, Any]], bool]

_TOKEN: Final = re.compile(r"\s*(==|!=|[(),=!<>]|[^\s(),=!<>]+)")


class Requirement(msgspec.Struct, frozen=True):
    """A requirement on one label. An absent label satisfies `notin`, as everywhere in Kubernetes."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "gt" | "lt":
                if value is None or not value.lstrip("-").isdigit():
                    return False
                return int(value) > int(self.values[0]) if self.operator == "gt" else int(value) < int(self.values[0])


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`; raises 400 for a malformed text."""
    tokens = _TOKEN.findall(text)
    found: list[Requirement] = []
    position = 0
    while position < len(tokens):
        requirement, position = _requirement(tokens, position)
        found.append(requirement)
        if position < len(tokens):
            if tokens[position] != ",":
                raise _unparsable(f"found '{tokens[position]}', expected: ',' or 'end of string'")
            position += 1
    return tuple(found)


def _requirement(tokens: list[str], position: int) -> tuple[Requirement, int]:
    if tokens[position] == "!":
        return Requirement(tokens[position + 1], "!"), position + 2
    key = tokens[position]
    position += 1
    if position >= len(tokens) or tokens[position] == ",":
        return Requirement(key, "exists"), position
    operator = tokens[position]
    position += 1
    if operator in ("in", "notin"):
        if position >= len(tokens) or tokens[position] != "(":
            raise _unparsable(f"found '{tokens[position] if position < len(tokens) else ''}', expected: '('")
        closing = tokens.index(")", position) if ")" in tokens[position:] else -1
        if closing < 0:
            raise _unparsable("found '', expected: ',' or ')'")
        values = tuple(token for token in tokens[position + 1 : closing] if token != ",")
        return Requirement(key, "in" if operator == "in" else "notin", values), closing + 1
    value = ""
    if position < len(tokens) and tokens[position] != ",":
        value = tokens[position]
        position += 1
    match operator:
        case "=" | "==":
            return Requirement(key, "in", (value,)), position
        case "!=":
            return Requirement(key, "notin", (value,)), position
        case ">":
            return Requirement(key, "gt", (value,)), position
        case "<":
            return Requirement(key, "lt", (value,)), position
    raise _unparsable(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")


def _unparsable(why: str) -> failures.Failure:
    return failures.bad_request(f"unable to parse requirement: {why}")


def labels_match(requirements: tuple[Requirement, ...], labels: Mapping[str, str]) -> bool:
    return all(requirement.matches(labels) for requirement in requirements)


def object_selector_matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a meta/v1 LabelSelector matches: None matches nothing, an empty one everything."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for expression in selector.get("matchExpressions") or ():
        value = labels.get(expression["key"])
        values = expression.get("values") or ()
        match expression["operator"]:
            case "In":
                fits = value is not None and value in values
            case "NotIn":
                fits = value is None or value not in values
            case "Exists":
                fits = value is not None
            case _:
                fits = value is None
        if not fits:
            return False
    return True


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A label selector as the text in a Scale's status."""
    parts = [f"{key}={value}" for key, value in sorted((selector or {}).get("matchLabels", {}).items())]
    for expression in (selector or {}).get("matchExpressions") or ():
        key, values = expression["key"], ",".join(sorted(expression.get("values") or ()))
        shapes = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        parts.append(shapes.get(expression["operator"], f"!{key}"))
    return ",".join(parts)


_INVOLVED: Final = {
    f"{prefix}.{field}": f"involvedObject.{field}"
    for prefix in ("involvedObject", "regarding")
    for field in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
}
_EVENT_FIELDS: Final = {
    **_INVOLVED,
    **{field: field for field in ("reason", "reportingComponent", "type")},
    "source": "source.component",
    "reportingController": "reportingComponent",
}
_FIELDS: Final[dict[str, dict[str, str]]] = {
    PODS.resource: {
        field: field
        for field in (
            "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
            "status.phase", "status.podIP", "status.nominatedNodeName",
        )
    },
    NODES.resource: {"spec.unschedulable": "spec.unschedulable"},
    NAMESPACES.resource: {"status.phase": "status.phase"},
    SECRETS.resource: {"type": "type"},
    REPLICATION_CONTROLLERS.resource: {"status.replicas": "status.replicas"},
    JOBS.resource: {"status.successful": "status.succeeded"},
    RESOURCE_SLICES.resource: {"spec.nodeName": "spec.nodeName", "spec.driver": "spec.driver"},
    CORE_EVENTS.resource: _EVENT_FIELDS,
    EVENTS.resource: _EVENT_FIELDS,
}  # fmt: skip
_BOOLEANS: Final = frozenset({"spec.hostNetwork", "spec.unschedulable"})
_NUMBERS: Final = frozenset({"status.replicas", "status.successful"})


class FieldRequirement(msgspec.Struct, frozen=True):
    """A requirement on one selectable field of the resource."""

    field: str
    path: tuple[str, ...]
    value: str
    equal: bool

    def matches(self, obj: Mapping[str, Any]) -> bool:
        found: Any = obj
        for step in self.path:
            found = found.get(step) if isinstance(found, Mapping) else None
        if found is None:
            shown = "false" if self.field in _BOOLEANS else "0" if self.field in _NUMBERS else ""
        else:
            shown = str(found).lower() if isinstance(found, bool) else str(found)
        return (shown == self.value) is self.equal


def parse_fields(text: str, kind: Kind) -> tuple[FieldRequirement, ...]:
    """Parses `metadata.name=a,spec.nodeName!=b`; raises 400 for a field that is not selectable."""
    found: list[FieldRequirement] = []
    for part in filter(None, (one.strip() for one in text.split(","))):
        split = re.match(r"([^=!]+)(==|!=|=)(.*)", part)
        if split is None:
            raise failures.bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        field, operator, value = split.groups()
        paths = {"metadata.name": "metadata.name", **_FIELDS.get(kind.resource, {})}
        if kind.namespaced:
            paths["metadata.namespace"] = "metadata.namespace"
        if field not in paths:
            raise failures.bad_request(f"field label not supported: {field}")
        found.append(FieldRequirement(field, tuple(paths[field].split(".")), value, operator != "!="))
    return tuple(found)


def matcher(labels: str, fields: str, kind: Kind) -> Matcher | None:
    """The predicate of a request's two selectors; None without selectors."""
    label_requirements = parse_labels(labels)
    field_requirements = parse_fields(fields, kind)
    if not label_requirements and not field_requirements:
        return None

    def matches(obj: Mapping[str, Any]) -> bool:
        object_labels = obj["metadata"].get("labels") or {}
        return labels_match(label_requirements, object_labels) and all(one.matches(obj) for one in field_requirements)

    return matches
