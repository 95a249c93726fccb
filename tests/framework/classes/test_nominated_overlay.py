"""Refusals beside nominated pods, by row."""

from __future__ import annotations

import numpy as np

from scheduler.framework.classes.nominated_overlay import NO_REFUSALS, RowRefusals
from scheduler.messages.status import failure, unschedulable

FULL, BROKEN, TORN = unschedulable("full").by("Fit"), failure("broken").by("Mine"), failure("torn").by("Mine")


def by_number(*codes: int) -> RowRefusals:
    return RowRefusals(np.array(codes, np.int32), (FULL, TORN, BROKEN))


def test_refusals_are_given_row_by_row() -> None:
    assert by_number(0, 1, 3, 2).by_row() == {1: FULL, 2: BROKEN, 3: TORN}
    assert bool(by_number(1, 2, 3))
    assert not NO_REFUSALS
    assert NO_REFUSALS.by_row() == {}


def test_the_rows_that_refuse_with_an_error_are_listed_and_each_says_which() -> None:
    refusals = by_number(0, 1, 3, 2)
    assert refusals.error_rows.tolist() == [2, 3]
    assert [refusals.on(row) for row in range(4)] == [None, FULL, BROKEN, TORN]
    assert RowRefusals(np.array([1, 0], np.int32), (FULL,)).error_rows.tolist() == []
    assert NO_REFUSALS.error_rows.tolist() == []
    assert NO_REFUSALS.on(0) is None
