"""The arrays of each row's pods."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.preemption.pod_columns import PodColumns
from tests.builders import pod


def table_of(*rows: int) -> NodeTable:
    """A table whose rows have these numbers of pods, the later pods more important."""
    pods = [
        {f"{row}-{n}": PodInfo(pod(f"{row}-{n}", priority=n)) for n in range(size)} for row, size in enumerate(rows)
    ]
    made = SimpleNamespace(size=len(rows), pods=pods, nodes=[object() for _ in rows], pod_count=np.array(rows))
    return cast(NodeTable, made)


def names(columns: PodColumns, row: int) -> list[str]:
    return [info.key for info in columns.infos[row]]


def test_a_row_with_too_many_pods_is_not_sorted_and_its_version_still_changes_with_them() -> None:
    columns, table = PodColumns(), table_of(513, 2)
    columns.refresh(table, (0, 1))
    assert columns.is_kept.tolist() == [False, True]
    assert (columns.infos[0], names(columns, 1)) == ([], ["default/1-1", "default/1-0"])
    before = columns.versions.copy()
    table.pods[0]["0-7"] = PodInfo(pod("0-7", priority=9))
    columns.refresh(table, (0, 1))
    assert columns.versions[0] != before[0] and columns.versions[1] == before[1]


def test_a_row_that_lost_pods_is_kept_again() -> None:
    columns, table = PodColumns(), table_of(513)
    columns.refresh(table, (0,))
    for number in range(511):
        del table.pods[0][f"0-{number}"]
    columns.refresh(table, (0,))
    assert columns.is_kept.tolist() == [True]
    assert names(columns, 0) == ["default/0-512", "default/0-511"]
