"""Nodes, pods and namespaces for tests, from the API's JSON, with defaults for all fields that a test does not set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from scheduler.objects.kinds import decode_as
from scheduler.objects.namespace import Namespace
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod

CREATED = "2026-01-01T00:00:00Z"


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
    allocatable: Mapping[str, str] | None = None,
) -> Node:
    """A ready node. ``taints`` are as in the API; ``allocatable`` is added to cpu, memory and pods."""
    offered = {"cpu": cpu, "memory": memory, "pods": str(pods), **(allocatable or {})}
    metadata = {
        "name": name,
        "uid": f"node-{name}",
        "creationTimestamp": CREATED,
        "labels": {"kubernetes.io/hostname": name, **(labels or {})},
        "annotations": dict(annotations or {}),
    }
    spec = {"taints": [dict(taint) for taint in taints], "unschedulable": unschedulable}
    ready = {"type": "Ready", "status": "True"}
    status = {"allocatable": offered, "capacity": offered, "conditions": [ready]}
    return decode_as(Node, msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status}))


def namespace(name: str, *, labels: Mapping[str, str] | None = None) -> Namespace:
    metadata = {"name": name, "uid": f"namespace-{name}", "creationTimestamp": CREATED, "labels": dict(labels or {})}
    return decode_as(Namespace, msgspec.json.encode({"metadata": metadata}))


def pod(
    name: str,
    *,
    namespace: str = "default",
    node: str = "",
    cpu: str = "100m",
    memory: str = "200Mi",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    scheduler: str = "tandem-scheduler",
    **spec: Any,
) -> Pod:
    """A pod with one container, bound if ``node`` is set. ``spec``: further fields by their API names."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"pod-{namespace}-{name}",
        "creationTimestamp": CREATED,
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
    }
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    fields = {"containers": [container], "schedulerName": scheduler, **spec}
    if node:
        fields["nodeName"] = node
    status = {"phase": "Running" if node else "Pending"}
    return decode_as(Pod, msgspec.json.encode({"metadata": metadata, "spec": fields, "status": status}))
