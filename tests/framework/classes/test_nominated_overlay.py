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


def test_the_error_of_the_first_row_that_has_one_is_the_attempts() -> None:
    assert by_number(0, 1, 3, 2).error() == BROKEN
    assert by_number(2, 1, 3, 2).error() == TORN
    assert RowRefusals(np.array([1, 0], np.int32), (FULL,)).error() is None
    assert NO_REFUSALS.error() is None
