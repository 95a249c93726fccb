from __future__ import annotations

import numpy as np

from scheduler.cluster.cache import ClusterCache
from scheduler.framework.classes.first_refusals import FITS, NO_NODE, OUTSIDE, FirstRefusals
from scheduler.testing.objects import node


def cluster(*names: str) -> ClusterCache:
    cache = ClusterCache()
    for name in names:
        cache.observe_node(node(name))
    return cache


def column(*codes: int) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    return np.array(codes, np.int16)


def test_the_first_plugin_in_order_gives_the_refusal() -> None:
    first = FirstRefusals()
    first.combine([column(0, 1, 0), column(2, 2, 0)], None, cluster("a", "b", "c").view)
    assert first.codes.tolist() == [2, 1, FITS]
    assert first.feasible_count == 1 and first.feasible_rows.tolist() == [2]


def test_rows_without_a_node_and_outside_of_the_search_have_codes_of_their_own() -> None:
    cache = cluster("a", "b", "c")
    cache.remove_node("b")
    first = FirstRefusals()
    first.combine([], frozenset({"c"}), cache.view)
    codes = dict(zip(cache.view.table.names, first.codes.tolist(), strict=False))
    assert codes["a"] == OUTSIDE and codes["c"] == FITS and NO_NODE in first.codes.tolist()


def test_a_reader_gets_just_the_rows_that_changed_since_it_looked() -> None:
    view = cluster("a", "b", "c").view
    first = FirstRefusals()
    columns = [column(0, 0, 0)]
    first.combine(columns, None, view)
    seen = first.version
    columns[0][1] = 1
    first.combine_rows({0, 1}, columns, None, view)
    assert first.changed_since(seen) == [1]
    assert first.changed_since(first.version) == []
    assert first.feasible_count == 2 and first.feasible_rows.tolist() == [0, 2]


def test_after_all_rows_were_combined_any_row_may_have_changed() -> None:
    view = cluster("a", "b").view
    first = FirstRefusals()
    first.combine([], None, view)
    seen = first.version
    first.combine([], None, view)
    assert first.changed_since(seen) is None


def test_the_log_of_changes_stays_shorter_than_the_table() -> None:
    view = cluster("a", "b", "c").view
    first = FirstRefusals()
    columns = [column(0, 0, 0)]
    first.combine(columns, None, view)
    seen = first.version
    for turn in range(1, 5):
        columns[0][0] = turn % 2
        first.combine_rows({0}, columns, None, view)
    assert first.changed_since(seen) is None, "four changes of three rows: looking at all is no more work"
