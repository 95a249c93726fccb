"""The public columns of a node table, read while rows come and go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.node_columns import COUNTABLE_RESOURCES, INT64_COLUMNS
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.cluster.taken_table import TakenTable
from scheduler.testing.objects import node, pod

COLUMNS = (*INT64_COLUMNS, "exists", "unschedulable", "taint_set", "feature_set", "row_version")


@given(st.lists(st.tuples(st.sampled_from(("node", "pod", "drop")), st.integers(0, 40), st.sampled_from(COLUMNS))))
def test_columns_are_those_of_a_table_that_was_never_read_before(steps: Sequence[tuple[str, int, str]]) -> None:
    read, unread = NodeTable(), NodeTable()
    for number, (what, name, column) in enumerate(steps):
        for table in (read, unread):
            if what == "node":
                table.put_node(node(f"n{name}", cpu=f"{number + 1}"))
            elif what == "pod":
                table.add_pod(PodInfo(pod(f"p{number}", cpu="1", node=f"n{name}")))
            else:
                table.drop_node(f"n{name}")
        assert len(getattr(read, column)) == read.size
        assert len(read.amounts("cpu")[0]) == read.size
    for column in COLUMNS:
        np.testing.assert_array_equal(getattr(read, column), getattr(unread, column))
        np.testing.assert_array_equal(getattr(read.fork(), column), getattr(unread, column))
    for found, expected in zip(read.amounts("memory"), unread.amounts("memory"), strict=True):
        np.testing.assert_array_equal(found, expected)


@given(st.lists(st.tuples(st.sampled_from(("node", "pod", "drop")), st.integers(0, 40)), min_size=1), st.data())
def test_lines_of_several_resources_are_those_of_their_columns(
    steps: Sequence[tuple[str, int]], data: st.DataObject
) -> None:
    table = NodeTable()
    for number, (what, name) in enumerate(steps):
        if what == "node":
            table.put_node(node(f"n{name}", cpu=f"{number + 1}"))
        elif what == "pod":
            table.add_pod(PodInfo(pod(f"p{number}", memory=str(number), node=f"n{name}")))
        else:
            table.drop_node(f"n{name}")
    some = np.array(data.draw(st.lists(st.integers(0, table.size - 1))) if table.size else [], np.int64)
    for seen, rows in (
        (table, some),
        (table.fork(), slice(0, table.size)),
        (TakenTable(table, some.tolist()), slice(0, len(some))),
    ):
        offered, taken = seen.countable_at(rows)
        for place, resource in enumerate(COUNTABLE_RESOURCES):
            np.testing.assert_array_equal(offered[place], seen.allocatable(resource)[rows])
            np.testing.assert_array_equal(taken[place], seen.requested(resource)[rows])
        with_defaults = seen.usual_at(rows, with_defaults=True)[1]
        np.testing.assert_array_equal(with_defaults, [seen.non_zero_cpu[rows], seen.non_zero_memory[rows]])
        for found, expected in zip(seen.usual_at(rows, with_defaults=False), (offered[:2], taken[:2]), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_column_is_another_once_a_row_has_come_and_the_same_until_then() -> None:
    table = NodeTable()
    table.put_node(node("a", cpu="1"))
    before = table.allocatable_cpu
    assert table.allocatable_cpu is before
    table.put_node(node("b", cpu="2"))
    assert before.tolist() == [1000]
    assert table.allocatable_cpu.tolist() == [1000, 2000]


def test_what_pods_take_beyond_int64_begins_again_at_the_other_end_and_comes_back() -> None:
    table = NodeTable()
    table.put_node(node("a", cpu="4", memory="8Gi"))
    pods = [PodInfo(pod(f"p{number}", memory=str(2**63 - 1), cpu="9e15", node="a")) for number in range(3)]
    for info in pods:
        table.add_pod(info)
    assert table.requested_memory.tolist() == table.non_zero_memory.tolist() == [2**63 - 3]
    assert table.requested_cpu.tolist() == [27 * 10**18 - 2**64]
    for info in pods:
        table.remove_pod(0, info.uid)
    assert table.requested_memory.tolist() == table.requested_cpu.tolist() == [0]
