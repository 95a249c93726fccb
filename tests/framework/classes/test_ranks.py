"""The best rows while totals change in rows and in blocks, against a look at all totals."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.classes.first_refusals import FirstRefusals
from scheduler.framework.classes.ranks import INFEASIBLE, MAX_LISTED_ROWS, Ranks

ROWS = 2 * MAX_LISTED_ROWS + 10
BLOCKS = 5


def ranks_of(column: np.ndarray[tuple[int], np.dtype[np.int16]]) -> Ranks:
    first = FirstRefusals()
    first.codes, first.feasible_count = np.zeros(ROWS, np.int16), ROWS
    ranks = Ranks(100)
    ranks.add_up(1, [column], first)
    return ranks


STEPS = st.one_of(
    st.tuples(st.just("row"), st.integers(0, ROWS - 1), st.integers(1, 5)),
    st.tuples(st.just("close"), st.integers(0, BLOCKS - 1), st.just(0)),
    st.tuples(st.just("open"), st.integers(0, BLOCKS - 1), st.just(0)),
)


@given(st.integers(1, 40), st.lists(STEPS, max_size=12))
def test_the_leaders_are_the_rows_with_the_best_total(kinds: int, steps: list[tuple[str, int, int]]) -> None:
    column = (np.arange(ROWS) % kinds % 5).astype(np.int16)
    ranks = ranks_of(column)
    totals = (column + 1).astype(np.int64)
    for step, number, total in steps:
        ranks.leaders()
        rows = np.arange(number, ROWS, BLOCKS)
        if step == "row" and totals[number] != INFEASIBLE:
            ranks.set_row(number, total)
            totals[number] = total
        elif step == "close":
            ranks.exclude(rows, forgets_levels=False)
            totals[rows] = INFEASIBLE
        elif step == "open":
            ranks.exclude(rows, forgets_levels=True)
            ranks.set_rows(rows, 1, [column])
            totals[rows] = column[rows] + 1
        if totals.max() == INFEASIBLE:
            break
        best, found = ranks.leaders()
        assert (best, [*found]) == (totals.max(), np.flatnonzero(totals == totals.max()).tolist())
        assert ranks.totals.tolist() == totals.tolist()
