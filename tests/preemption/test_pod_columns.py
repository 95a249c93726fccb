"""The arrays of each row's pods."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.preemption.pod_columns import PodColumns
from scheduler.testing.objects import node, pod


def table_of(*rows: int) -> NodeTable:
    """A table whose rows have these numbers of pods, the later pods more important."""
    pods = [
        {f"{row}-{n}": PodInfo(pod(f"{row}-{n}", uid=f"{row}-{n}", priority=n)) for n in range(size)}
        for row, size in enumerate(rows)
    ]
    made = NodeTable()
    for row, infos in enumerate(pods):
        made.put_node(node(f"n{row}"))
        for info in infos.values():
            made.add_pod(info, f"n{row}")
    return made


def every_row(table: NodeTable) -> Any:
    return np.arange(table.size)


def names(columns: PodColumns, row: int) -> list[str]:
    return [info.key for info in columns.infos[row]]


def test_a_row_with_too_many_pods_is_not_sorted_and_its_version_still_changes_with_them() -> None:
    columns, table = PodColumns(), table_of(513, 2)
    columns.refresh(table, every_row(table))
    assert columns.is_kept.tolist() == [False, True]
    assert (columns.infos[0], names(columns, 1)) == ([], ["default/1-1", "default/1-0"])
    before = columns.versions.copy()
    table.replace_pod(0, PodInfo(pod("0-7", uid="0-7", priority=9)))
    columns.refresh(table, every_row(table))
    assert columns.versions[0] != before[0] and columns.versions[1] == before[1]


def test_a_row_that_lost_pods_is_kept_again() -> None:
    columns, table = PodColumns(), table_of(513)
    columns.refresh(table, every_row(table))
    for number in range(511):
        table.remove_pod(0, f"0-{number}")
    columns.refresh(table, every_row(table))
    assert columns.is_kept.tolist() == [True]
    assert names(columns, 0) == ["default/0-512", "default/0-511"]


@settings(max_examples=100)
@given(st.data())
def test_rows_whose_pods_come_go_and_change_are_as_if_they_were_sorted_at_once(data: st.DataObject) -> None:
    columns, table = PodColumns(), table_of(6, 0)

    def some_pod(number: int) -> PodInfo:
        priority, cpu = data.draw(st.integers(0, 3)), f"{data.draw(st.integers(0, 3))}"
        started = data.draw(st.sampled_from((None, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")))
        labels = {"app": data.draw(st.sampled_from("ab"))}
        one = pod(f"0-{number}", uid=f"0-{number}", priority=priority, cpu=cpu, started=started, labels=labels)
        return PodInfo(one)

    for _ in range(6):
        for number in data.draw(st.sets(st.integers(0, 9), max_size=4)):
            row = data.draw(st.integers(0, 1))
            for other in (0, 1):
                if f"0-{number}" in table.pods[other]:
                    table.remove_pod(other, f"0-{number}")
            if data.draw(st.booleans()):
                table.add_pod(some_pod(number), f"n{row}")
        at_once = PodColumns()
        for each in (columns, at_once):
            each.refresh(table, every_row(table))
        assert columns.infos == at_once.infos
        assert columns.last_start.tolist() == at_once.last_start.tolist()
        assert columns.priority.tolist() == at_once.priority.tolist()
        for row, infos in enumerate(columns.infos):
            count = len(infos)
            profiles = [columns.profiles.examples[number].labels for number in columns.profile[row, :count]]
            assert profiles == [info.labels for info in infos]
            charged = columns.charges["requested_cpu"][row, :count].tolist()
            assert charged == [info.charged.milli_cpu for info in infos]
