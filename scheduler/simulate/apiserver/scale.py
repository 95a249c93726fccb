"""The scale subresource: a workload's number of replicas."""

from __future__ import annotations

from typing import Any, Final

from scheduler.simulate.apiserver import failures, patches
from scheduler.simulate.apiserver.kinds import REPLICATION_CONTROLLERS, Kind
from scheduler.simulate.apiserver.registry import Registry, WriteOptions
from scheduler.simulate.apiserver.selectors import selector_text

Object = dict[str, Any]

_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(kind: Kind, workload: Object) -> Object:
    """The autoscaling/v1 Scale of a workload."""
    metadata, selector = workload["metadata"], workload["spec"].get("selector")
    if kind is REPLICATION_CONTROLLERS:
        selector = {"matchLabels": selector or {}}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: metadata[field] for field in _METADATA if field in metadata},
        "spec": {"replicas": workload["spec"].get("replicas", 0)},
        "status": {"replicas": workload.get("status", {}).get("replicas", 0), "selector": selector_text(selector)},
    }


def put_scale(
    registry: Registry, kind: Kind, namespace: str, name: str, scale: Object, options: WriteOptions
) -> Object:
    """Sets the replicas; raises 409 if the Scale is of another version of the workload."""
    current = registry.stored(kind, namespace, name)
    version = (scale.get("metadata") or {}).get("resourceVersion")
    if version and version != current.object["metadata"]["resourceVersion"]:
        raise failures.modified(kind, name)
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    workload = {**current.object, "spec": {**current.object["spec"], "replicas": replicas}}
    stored, _ = registry.update(kind, namespace, name, workload, "scale", options)
    return scale_of(kind, stored.object)


def patch_scale(
    registry: Registry, kind: Kind, namespace: str, name: str, content_type: str, patch: Any, options: WriteOptions
) -> Object:  # fmt: skip
    """Sets the replicas to those of the patched Scale."""
    scale = scale_of(kind, registry.stored(kind, namespace, name).object)
    return put_scale(registry, kind, namespace, name, patches.apply(content_type, scale, patch), options)
