"""Discovery of groups, versions and resources, and the server's health pages."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from scheduler.simulate.apiserver import openapi
from scheduler.simulate.apiserver.kinds import BY_GROUP_VERSION, KINDS, Kind

Object = dict[str, Any]

GIT_VERSION: Final = "v1.36.3"
VERSION: Final[Object] = {
    "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36", "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35", "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64",
}  # fmt: skip

_STATUS_VERBS: Final = ["get", "patch", "update"]
_SUBRESOURCES: Final[dict[str, Object]] = {
    "binding": {"kind": "Binding", "verbs": ["create"]},
    "eviction": {"group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]},
    "finalize": {"kind": "Namespace", "verbs": ["update"]},
    "scale": {"group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": _STATUS_VERBS},
}


def document(path: str, absent: Collection[str] = ()) -> Object | None:
    """The discovery document at this path, or None. ``absent``: resources (``deviceclasses.resource.k8s.io``) that this
    server does not have; a group without other resources is left out, too."""
    found = _DOCUMENTS.get(path.rstrip("/"))
    if not absent or found is None:
        return found
    served = [kind for kind in KINDS if kind.resource not in absent]
    groups = {kind.group for kind in served}
    match found.get("kind"):
        case "APIGroupList":
            return {**found, "groups": [group for group in found["groups"] if group["name"] in groups]}
        case "APIGroup":
            return found if found["name"] in groups else None
        case "APIResourceList":
            names = {kind.plural for kind in served if kind.api_version == found["groupVersion"]}
            resources = [one for one in found["resources"] if one["name"].partition("/")[0] in names]
            return {**found, "resources": resources} if resources else None
    return found


def _group(group: str) -> Object:
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for name, version in BY_GROUP_VERSION
                if name == group]  # fmt: skip
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resources(group: str, version: str) -> Object:
    listed = []
    for kind in BY_GROUP_VERSION[(group, version)].values():
        listed.append(_resource(kind))
        for name in kind.subresources:
            more = _SUBRESOURCES.get(name, {"kind": kind.kind, "verbs": _STATUS_VERBS})
            entry = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
            listed.append({**entry, **more})
    group_version = f"{group}/{version}" if group else version
    shown: Object = {"kind": "APIResourceList"}
    if group:
        shown["apiVersion"] = "v1"
    return {**shown, "groupVersion": group_version, "resources": listed}


def _resource(kind: Kind) -> Object:
    shown: Object = {
        "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind,
        "verbs": list(kind.verbs),
    }  # fmt: skip
    if kind.short_names:
        shown["shortNames"] = list(kind.short_names)
    if kind.categories:
        shown["categories"] = list(kind.categories)
    return shown


def _build() -> dict[str, Object]:
    groups = list(dict.fromkeys(kind.group for kind in KINDS if kind.group))
    documents: dict[str, Object] = {
        "/version": VERSION,
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(group) for group in groups]},
    }
    for group in groups:
        documents[f"/apis/{group}"] = {"kind": "APIGroup", "apiVersion": "v1", **_group(group)}
    index: Object = {}
    for group, version in BY_GROUP_VERSION:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        documents[path] = _resources(group, version)
        documents[f"/openapi/v3{path}"] = openapi.document(GIT_VERSION, group, version)
        index[path[1:]] = {"serverRelativeURL": f"/openapi/v3{path}"}
    documents["/openapi/v3"] = {"paths": index}
    return documents


_DOCUMENTS: Final = _build()
