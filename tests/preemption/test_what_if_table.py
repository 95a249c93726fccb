"""What the table of many what-ifs knows, and what it refuses to answer."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.preemption.what_if_table import Inexact, WhatIfTable
from scheduler.testing.objects import node, pod


def test_pods_that_are_taken_away_are_gone_from_what_is_requested_and_defaults_are_not_known() -> None:
    table = NodeTable()
    for name in ("a", "b"):
        table.put_node(node(name, cpu="4", memory="8Gi", pods=10))
        table.add_pod(PodInfo(pod(f"on-{name}", cpu="1", memory="1Gi", node=name)))
    rows = np.array([1], np.int64)
    charges = {"requested_cpu": np.array([[1000]]), "requested_memory": np.array([[2**30]])}
    what_if = WhatIfTable(table, rows, charges, {})
    what_if.take_away(np.array([[True]]))
    offered, taken = what_if.countable_at(slice(0, 1))
    assert offered.tolist() == [[4000], [8 * 2**30], [0], [10]]
    assert taken.tolist() == [[0], [0], [0], [0]]
    assert [column.tolist() for column in what_if.usual_at(rows - 1, with_defaults=False)[1]] == [[0], [0]]
    assert table.countable_at(rows)[1].tolist() == [[1000], [2**30], [0], [1]]
    with pytest.raises(Inexact):
        what_if.usual_at(rows - 1, with_defaults=True)
