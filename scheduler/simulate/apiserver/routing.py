"""Resolves a URL path to a collection, an object, or a subresource of an object."""

from __future__ import annotations

import msgspec

from scheduler.simulate.apiserver import failures
from scheduler.simulate.apiserver.kinds import BY_GROUP_VERSION, NAMESPACES, Kind


class Target(msgspec.Struct, frozen=True):
    """The target of a request. `namespace` None means all namespaces (or a cluster-scoped kind)."""

    kind: Kind
    namespace: str | None
    name: str = ""
    subresource: str = ""

    @property
    def space(self) -> str:
        """The object's namespace in the store."""
        return self.namespace or ""


def resolve(path: str) -> Target | None:
    """The target of a resource path; None for other paths; raises 404 if the group version lacks the resource."""
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        kinds, rest = BY_GROUP_VERSION.get(("", parts[1])), parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        kinds, rest = BY_GROUP_VERSION.get((parts[1], parts[2])), parts[3:]
    else:
        return None
    if kinds is None:
        return None
    namespace: str | None = None
    if rest[0] == "namespaces" and len(rest) >= 3 and not (len(rest) == 3 and rest[2] in NAMESPACES.subresources):
        namespace, rest = rest[1], rest[2:]
    kind = kinds.get(rest[0])
    if kind is None or len(rest) > 3 or (namespace is not None and not kind.namespaced):
        raise not_served()
    subresource = rest[2] if len(rest) == 3 else ""
    if subresource and subresource not in kind.subresources:
        raise not_served()
    return Target(kind, namespace, rest[1] if len(rest) > 1 else "", subresource)


def not_served() -> failures.Failure:
    return failures.Failure(404, "NotFound", "the server could not find the requested resource", {})
