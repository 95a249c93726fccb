"""The nodes as plain values, ready for JSON: all of them in short, or one with its pods.

Amounts are in the scheduler's units: millicores of cpu, bytes of memory and storage, pieces of everything else.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.engine import Engine
from scheduler.objects.node import Node
from scheduler.objects.resources import allocatable_of

POOL_LABELS: Final = (
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "topology.kubernetes.io/zone",
)
"""The labels by which nodes are grouped where none is asked for: the first that some node has."""
COMMON: Final = ("cpu", "memory", "ephemeral-storage", "pods")
MAX_RESOURCES: Final = 20
"""Resources besides the common ones."""
MAX_NODES: Final = 20_000
MAX_PODS: Final = 1_000
"""Pods listed of one node, and as many nominated ones; the counts beside them are complete."""
MAX_LABEL_KEYS: Final = 100
_SLICE: Final = 200


def nodes_page_in_slices(engine: Engine, pool_label: str = "") -> Generator[None, None, dict[str, Any]]:
    """Every node with what it offers and what its pods take, in the order in which the scheduler walks the nodes.

    ``allocatable`` and ``requested`` of a node are in the order of ``resources``. ``pool_label``: the label whose value
    is a node's pool; "" takes the first of ``POOL_LABELS`` that some node has. Yields about every millisecond; the
    engine may run in between.
    """
    table = engine.cache.table
    rows = table.order.rows[:MAX_NODES].tolist()
    scalars: dict[str, None] = {}
    keys: dict[str, None] = {}
    for start in range(0, len(rows), _SLICE):
        for row in rows[start : start + _SLICE]:
            node = table.nodes[row] if row < table.size else None
            if node is not None:
                scalars.update(dict.fromkeys(allocatable_of(node).scalars))
                keys.update(dict.fromkeys(node.labels))
        yield
    label = pool_label or next((key for key in POOL_LABELS if key in keys), "")
    resources = (*COMMON, *sorted(scalars)[:MAX_RESOURCES])
    listed: list[dict[str, Any]] = []
    for start in range(0, len(rows), _SLICE):
        listed += _short(engine, rows[start : start + _SLICE], resources, label)
        yield
    return {
        "resources": list(resources),
        "poolLabel": label,
        "labelKeys": sorted(keys)[:MAX_LABEL_KEYS],
        "count": table.node_count,
        "nodes": listed,
    }


def _short(engine: Engine, rows: Sequence[int], resources: Sequence[str], label: str) -> list[dict[str, Any]]:
    table = engine.cache.table
    # The table may have shrunk since the rows were read.
    rows = [row for row in rows if row < table.size and table.nodes[row] is not None]
    offered = [table.allocatable(name)[rows].tolist() for name in resources]
    taken = [table.requested(name)[rows].tolist() for name in resources]
    pages: list[dict[str, Any]] = []
    for at, row in enumerate(rows):
        node = table.nodes[row]
        assert node is not None
        page: dict[str, Any] = {
            "node": node.name,
            "pool": node.labels.get(label, "") if label else "",
            "allocatable": [column[at] for column in offered],
            "requested": [column[at] for column in taken],
            "nominated": len(engine.nominator.pods_for_node(node.name)),
        }
        if node.unschedulable:
            page["unschedulable"] = True
        if node.taints:
            page["taints"] = len(node.taints)
        pages.append(page)
    return pages


def node_page(engine: Engine, name: str) -> dict[str, Any] | None:
    """One node: its room, labels and taints, the pods on it and those that are nominated to it, the most important
    first. None for a node that is not known."""
    table = engine.cache.table
    row = table.existing_row(name)
    node = table.nodes[row] if row is not None else None
    if row is None or node is None:
        return None
    resources = (*COMMON, *sorted(allocatable_of(node).scalars)[:MAX_RESOURCES])
    on_it = sorted(table.pods[row].values(), key=_by_importance)
    nominated = sorted(engine.nominator.pods_for_node(name), key=_by_importance)
    return {
        "node": name,
        "unschedulable": node.unschedulable,
        "labels": dict(sorted(node.labels.items())),
        "taints": [{"key": one.key, "value": one.value, "effect": one.effect} for one in node.taints],
        "resources": {
            resource: {
                "allocatable": int(table.allocatable(resource)[row]),
                "requested": int(table.requested(resource)[row]),
            }
            for resource in resources
        },
        "podCount": len(on_it),
        "pods": [_pod(engine, node, info) for info in on_it[:MAX_PODS]],
        "nominatedCount": len(nominated),
        "nominated": [_pod(engine, node, info) for info in nominated[:MAX_PODS]],
    }


def _pod(engine: Engine, node: Node, info: PodInfo) -> dict[str, Any]:
    requests = info.requests
    page: dict[str, Any] = {
        "pod": info.key,
        "priority": info.priority,
        "schedulerName": info.pod.spec.scheduler_name,
        "requests": {
            resource: amount for resource in (*COMMON, *requests.scalars) if (amount := requests.amount(resource))
        },
    }
    if info.node_name == node.name and engine.cache.is_assumed(info.uid):
        page["isAssumed"] = True
    return page


def _by_importance(info: PodInfo) -> tuple[int, str]:
    return -info.priority, info.key
