"""Pods, nodes and namespaces for tests: `pod("a", cpu="500m")`, `node("n1", taints=["dedicated=db:NoSchedule"])`.

Each is made as the API's JSON (``documents.py``) and goes through the scheduler's own decoder. The one builder of pods
and nodes: for authors of plugins, and for all tests of this repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import msgspec

from scheduler.objects.kinds import AnyObject, decode_as
from scheduler.objects.namespace import Namespace
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.testing.documents import NodeFields, PodFields, node_json, pod_json


def pod(name: str = "pod", **fields: Unpack[PodFields]) -> Pod:
    """A pod with one container that requests nothing unless stated; bound if ``node`` is given."""
    return build(Pod, pod_json(name, **fields))


def node(name: str = "node", **fields: Unpack[NodeFields]) -> Node:
    """A ready node with 4 CPUs, 8Gi of memory and room for 110 pods unless stated."""
    return build(Node, node_json(name, **fields))


def namespace(name: str, labels: Mapping[str, str] | None = None) -> Namespace:
    own_labels = {"kubernetes.io/metadata.name": name} | dict(labels or {})
    return build(Namespace, {"metadata": {"name": name, "uid": f"namespace-{name}", "labels": own_labels}})


def build(type_: type[AnyObject], document: Mapping[str, Any]) -> AnyObject:
    """An object of any kind from its JSON form, through the scheduler's decoder."""
    return decode_as(type_, msgspec.json.encode(document))
