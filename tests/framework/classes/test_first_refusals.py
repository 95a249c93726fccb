from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.cache import ClusterCache
from scheduler.framework.classes.first_refusals import FITS, MAX_FLIPS, NO_NODE, OUTSIDE, FirstRefusals
from scheduler.framework.shortcuts import Fitting
from scheduler.testing.objects import node

ALL = slice(None)


def cluster(*names: str) -> ClusterCache:
    cache = ClusterCache()
    for name in names:
        cache.observe_node(node(name))
    return cache


def column(*codes: int) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    return np.array(codes, np.int16)


def test_the_first_plugin_in_order_gives_the_refusal() -> None:
    first = FirstRefusals()
    first.combine([column(0, 1, 0), column(2, 2, 0)], ALL, cluster("a", "b", "c").view)
    assert first.codes.tolist() == [2, 1, FITS]
    assert first.feasible_count == 1 and first.feasible_rows.tolist() == [2]


def test_rows_without_a_node_and_outside_of_the_search_have_codes_of_their_own() -> None:
    cache = cluster("a", "b", "c")
    cache.remove_node("b")
    first = FirstRefusals()
    first.combine([], np.array([cache.view.table.existing_row("c")]), cache.view)
    codes = dict(zip(cache.view.table.names, first.codes.tolist(), strict=False))
    assert codes["a"] == OUTSIDE and codes["c"] == FITS and NO_NODE in first.codes.tolist()


def test_a_reader_gets_just_the_rows_that_changed_since_it_looked() -> None:
    view = cluster("a", "b", "c").view
    first = FirstRefusals()
    columns = [column(0, 0, 0)]
    first.combine(columns, ALL, view)
    seen = first.version
    columns[0][1] = 1
    first.combine_rows({0, 1}, columns, None, view)
    assert first.changed_since(seen) == [1]
    assert first.changed_since(first.version) == []
    assert first.feasible_count == 2 and first.feasible_rows.tolist() == [0, 2]


def test_after_all_rows_were_combined_any_row_may_have_changed() -> None:
    view = cluster("a", "b").view
    first = FirstRefusals()
    first.combine([], ALL, view)
    seen = first.version
    first.combine([], ALL, view)
    assert first.changed_since(seen) is None


def test_the_log_of_changes_stays_shorter_than_the_table() -> None:
    view = cluster("a", "b", "c").view
    first = FirstRefusals()
    columns = [column(0, 0, 0)]
    first.combine(columns, ALL, view)
    seen = first.version
    for turn in range(1, 5):
        columns[0][0] = turn % 2
        first.combine_rows({0}, columns, None, view)
    assert first.changed_since(seen) is None, "four changes of three rows: looking at all is no more work"


BLOCK_CODES = st.lists(st.integers(0, 2), min_size=4, max_size=4)


@given(BLOCK_CODES, BLOCK_CODES, st.lists(st.integers(0, 2), min_size=12, max_size=12), st.booleans())
def test_blocks_come_to_the_same_as_all_rows_and_say_which_began_and_ceased_to_fit(
    before: list[int], after: list[int], others: list[int], has_others: bool
) -> None:
    view = cluster(*[f"n{number:02}" for number in range(12)]).view
    columns = [column(*[before[row % 4] for row in range(12)])]
    if has_others:
        columns.insert(0, column(*others))
    first, whole = FirstRefusals(), FirstRefusals()
    first.combine(columns, ALL, view)
    seen, fitted = first.fits_version, set(first.feasible_rows.tolist())
    blocks = [(np.arange(value, 12, 4), after[value]) for value in range(4) if before[value] != after[value]]
    for rows, code in blocks:
        columns[-1][rows] = code
    if blocks:
        first.combine_blocks(blocks, columns, view)
    whole.combine(columns, ALL, view)
    assert first.codes.tolist() == whole.codes.tolist()
    assert first.feasible_count == whole.feasible_count
    fits = set(first.feasible_rows.tolist())
    flips = first.flips_since(seen)
    assert flips is not None and not flips.single
    assert set(flips.ceased.tolist()) == fitted - fits and set(flips.began.tolist()) == fits - fitted


@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 1)), max_size=8), st.integers(0, 3))
def test_members_of_groups_are_counted_from_what_flipped(changes: list[tuple[int, int]], closed: int) -> None:
    view = cluster(*[f"n{number:02}" for number in range(12)]).view
    groups = np.arange(12, dtype=np.int16) % 3
    columns = [column(*[0] * 12)]
    first = FirstRefusals()
    first.combine(columns, ALL, view)
    seen, before = first.fits_version, Fitting(first.codes, 12, first.fits_version).members(groups, 3)
    rows = np.arange(closed, 12, 4)
    columns[0][rows] = 1
    first.combine_blocks([(rows, 1)], columns, view)
    for row, code in changes:
        columns[0][row] = code
        first.combine_rows({row}, columns, None, view)
    flips = first.flips_since(seen)
    assert flips is not None
    now = Fitting(first.codes, first.feasible_count, first.fits_version).members(groups, 3)
    assert flips.members(before, groups, first.codes).tolist() == now.tolist()
    assert first.flips_since(seen - 1) is None


def test_after_many_single_rows_members_are_counted_again() -> None:
    view = cluster(*[f"n{number:02}" for number in range(MAX_FLIPS + 10)]).view
    columns = [column(*[0] * (MAX_FLIPS + 10))]
    first = FirstRefusals()
    first.combine(columns, ALL, view)
    seen = first.fits_version
    columns[0][: MAX_FLIPS + 1] = 1
    first.combine_rows(set(range(MAX_FLIPS + 1)), columns, None, view)
    assert first.flips_since(seen) is None
    assert len(first.changed_since(seen) or ()) == MAX_FLIPS + 1
