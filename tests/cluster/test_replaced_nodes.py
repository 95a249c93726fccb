"""A node that changes leaves the table, the images and the journal as if each of its parts had been written again."""

from __future__ import annotations

import random
from typing import Any

import pytest

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.row_journal import NODE_CHANGED
from scheduler.cluster.table import NodeTable
from scheduler.objects.changes import DECISIVE, node_difference
from scheduler.testing.objects import node

COLUMNS = (
    "exists", "unschedulable", "allocatable_cpu", "allocatable_memory", "allocatable_storage", "allocatable_pods",
)  # fmt: skip
PARTS: dict[str, tuple[Any, ...]] = {
    "cpu": (None, "1", "1000m", "2"),
    "memory": ("1Gi", "2Gi"),
    "pods": (10, 110),
    "allocatable": ({}, {"example.com/gpu": "1"}, {"example.com/gpu": "2", "example.com/fpga": "1"}),
    "labels": ({}, {"a": "1"}, {"a": "2", "b": "1"}),
    "zone": (None, "one", "two"),
    "taints": ((), ("a:NoSchedule",), ("a:PreferNoSchedule", "b:NoExecute")),
    "unschedulable": (False, True),
    "images": ({}, {"i": 1}, {"i": 2, "j": 1}),
    "features": ((), ("A",), ("A", "B")),
    "ready": (True, False),
    "annotations": ({}, {"x": "y"}),
}


def shown(table: NodeTable, name: str) -> dict[str, Any]:
    """What the columns say of a node, in words that do not depend on ids."""
    row = table.row(name)
    assert row is not None
    said = {column: getattr(table, column).item(row) for column in COLUMNS}
    said |= {key: table.allocatable(key).item(row) for key in ("example.com/gpu", "example.com/fpga")}
    for key in ("a", "b", "topology.kubernetes.io/zone"):
        said[key] = table.label_values(key).value(table.label(key).item(row))
    said["taints"] = table.vocabulary.taints.values[table.taint_set.item(row)]
    said["features"] = table.vocabulary.features.values[table.feature_set.item(row)]
    return said


@pytest.mark.parametrize("seed", range(10))
def test_any_changes_of_nodes_lead_to_what_new_nodes_would_say(seed: int) -> None:
    chance = random.Random(seed)
    cache = ClusterCache()
    parts = {f"n{number}": {part: chance.choice(values) for part, values in PARTS.items()} for number in range(6)}
    for name in parts:
        cache.observe_node(node(name, **parts[name]))
    for _ in range(150):
        name = chance.choice(list(parts))
        before, entries = node(name, **parts[name]), cache.journal.version
        for part in chance.sample(list(PARTS), chance.choice((0, 1, 1, 1, 2, 5))):
            parts[name][part] = chance.choice(PARTS[part])
        after = node(name, **parts[name])
        node_version = cache.table.node_version
        cache.observe_node(after)
        decides = bool(node_difference(before, after) & DECISIVE)
        assert cache.table.node_version == node_version + decides
        row = cache.table.row(name)
        assert list(cache.journal.since(entries) or ()) == ([row] if decides else [])
        assert all(flags == NODE_CHANGED for flags in (cache.journal.since(entries) or {}).values())
        fresh = ClusterCache()
        for other in parts:
            fresh.observe_node(node(other, **parts[other]))
        assert cache.table.node(name) == after
        for other in parts:
            assert shown(cache.table, other) == shown(fresh.table, other)
        for image in ("i", "j"):
            found, expected = cache.images.get(image), fresh.images.get(image)
            assert (found and found.rows) == (expected and expected.rows)
        cache.check()
