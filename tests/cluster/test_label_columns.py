"""Columns of labels against the labels themselves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster import label_columns
from scheduler.cluster.label_columns import MAX_NARROW_ROWS, LabelColumns

KEYS = ("a", "b", "c")
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["", "x", "10", "-3"]), max_size=3)
ROWS = MAX_NARROW_ROWS + 4


def shown(columns: LabelColumns, key: str) -> list[str | None]:
    column = columns.column(key, ROWS)
    return [column.value(value_id) for value_id in column.ids[:ROWS].tolist()]


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(0, ROWS - 1), LABELS), max_size=40), st.sampled_from(KEYS))
def test_columns_are_what_the_labels_say(changes: list[tuple[int, Mapping[str, str]]], asked: str) -> None:
    columns = LabelColumns()
    labels: list[Mapping[str, str]] = [{}] * ROWS
    for row, now in changes:
        columns.put(row, now)
        labels[row] = now
        shown(columns, asked)
    assert columns.check(labels)
    for key in KEYS:
        expected = [each.get(key) for each in labels]
        assert shown(columns, key) == expected
        there = [row for row in range(ROWS) if key in labels[row]]
        assert columns.narrow_rows(key) in (tuple(there), None)
        assert columns.taken([3, 1]).column(key, 2).ids.tolist() == columns.column(key, ROWS).ids[[3, 1]].tolist()


def test_a_column_that_no_one_has_asked_for_since_rows_came_is_consistent() -> None:
    columns = LabelColumns()
    columns.put(0, {"a": "x"})
    before = columns.column("a", 1)
    columns.put(1, {"b": "x"})
    assert columns.check([{"a": "x"}, {"b": "x"}])
    assert columns.column("a", 1) is before
    assert not columns.check([{"a": "x"}, {"a": "x"}])


def test_the_same_labels_have_the_same_ids_however_they_came_about() -> None:
    one, other = LabelColumns(), LabelColumns()
    for row in range(ROWS):
        one.put(row, {"a": f"v{row % 3}"})
    for row in reversed(range(ROWS)):
        other.put(row, {"a": "before"})
        other.column("a", ROWS)
        other.put(row, {"a": f"v{row % 3}"})
    assert np.array_equal(one.column("a", ROWS).ids, other.column("a", ROWS).ids)


def test_keys_that_no_node_has_take_nothing_and_kept_columns_are_bounded() -> None:
    columns = LabelColumns()
    for row in range(5_000):
        columns.put(row, {f"wide-{key}": str(row) for key in range(60)})
    for number in range(10_000):
        assert columns.narrow_rows(f"none-{number}") == ()
        columns.column(f"none-{number}", 5_000)
    assert columns.nbytes == 0
    for key in range(60):
        assert len(columns.column(f"wide-{key}", 5_000)) == 5_001
        assert columns.nbytes <= label_columns.MAX_BYTES
    assert columns.nbytes > label_columns.MAX_BYTES // 2
    assert len(columns.column("wide-0", 5_000)) == 5_001


def test_columns_of_a_large_cluster_have_room_for_ten_keys_that_tell_all_nodes_apart() -> None:
    columns = LabelColumns()
    for row in range(30_000):
        columns.put(row, {f"wide-{key}": str(row) for key in range(10)})
    first = [columns.column(f"wide-{key}", 30_000) for key in range(10)]
    assert all(columns.column(f"wide-{key}", 30_000) is column for key, column in enumerate(first))
    assert columns.nbytes <= label_columns.MAX_BYTES_A_NODE * 30_000


@given(st.lists(LABELS, min_size=ROWS, max_size=ROWS))
def test_the_rows_of_each_value_are_found_by_its_id(labels: list[Mapping[str, str]]) -> None:
    columns = LabelColumns()
    for row, each in enumerate(labels):
        columns.put(row, each)
    # Rows that are not used yet lack all labels.
    column = columns.column("a", ROWS + 8)
    for value_id in range(1, len(column)):
        there = [row for row, each in enumerate(labels) if each.get("a") == column.value(value_id)]
        assert column.rows_with(value_id).tolist() == there
        some = column.of_rows(np.array([5, 2]))
        assert some.rows_with(value_id).tolist() == [place for place, row in enumerate((5, 2)) if row in there]


def test_a_column_whose_values_come_and_go_keeps_no_text_for_each() -> None:
    columns = LabelColumns()
    for row in range(100):
        columns.put(row, {"host": f"n{row}"})
    least = columns.column("host", 100).nbytes
    for number in range(1_000):
        columns.drop(number % 100)
        columns.put(number % 100, {"host": f"later-{number}"})
        assert len(columns.column("host", 100)) == 101
        assert columns.column("host", 100).nbytes < 4 * least


def test_a_fork_and_its_parent_change_a_column_each_in_its_own_way() -> None:
    columns = LabelColumns()
    for row in range(ROWS):
        columns.put(row, {"a": "x", "b": str(row)})
    columns.column("b", ROWS)
    fork = columns.fork()
    columns.put(3, {"b": "of the parent"})
    assert shown(columns, "b")[3] == "of the parent"
    fork.put(4, {"b": "of the fork"})
    assert shown(fork, "b")[3:5] == ["3", "of the fork"]
    assert columns.column("b", ROWS).find("of the fork") == 0
    assert shown(columns, "b")[3:5] == ["of the parent", "4"]
    assert fork.column("b", ROWS).find("of the parent") == 0
