"""A number per row, in an array of the narrowest type."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.row_counts import RowCounts

ROWS = 200
AMOUNTS = st.sampled_from([1, -1, 100, -100, 2**7, 2**15 - 1, -(2**15), 2**31, -(2**40)])


def full(*, is_wide: bool = False) -> RowCounts:
    """One on each row, in an array."""
    counts = RowCounts(is_wide=is_wide)
    for row in range(ROWS):
        counts.add(row, 1)
    return counts


@given(st.lists(st.tuples(st.integers(0, ROWS + 100), AMOUNTS)))
def test_numbers_are_kept_whatever_type_they_need(added: list[tuple[int, int]]) -> None:
    counts, expected = full(), dict.fromkeys(range(ROWS), 1)
    for row, amount in added:
        expected[row] = expected.get(row, 0) + amount
        assert counts.add(row, amount) == expected[row]
    assert counts.items() == {row: number for row, number in expected.items() if number}
    size = max(expected) + 1
    assert counts.array(size).tolist() == [expected.get(row, 0) for row in range(size)]
    assert counts.array(size).dtype == np.int64
    assert counts.copy().items() == counts.items()


def test_counts_of_pods_take_a_byte_a_row() -> None:
    counts = full()
    assert counts.nbytes == 256
    counts.add(3, 126)
    assert counts.nbytes == 256
    counts.add(3, 1)
    assert (counts.at(3), counts.nbytes) == (128, 512)
    assert full(is_wide=True).nbytes == 2048


def test_sums_by_value_are_those_of_wide_numbers() -> None:
    """Each of 200 rows has 100: a sum of them does not fit into the type that each fits into."""
    counts = full()
    for row in range(ROWS):
        counts.add(row, 99)
    ids = np.array([1] * 150 + [2] * 50, np.int32)
    assert counts.nbytes == 256
    assert counts.by_value(ids, 3)[1:].tolist() == [15_000, 5_000]
    each = np.arange(1, ROWS + 1, dtype=np.int32)
    assert counts.by_value(each, ROWS + 1, is_unique=True)[1:].tolist() == [100] * ROWS


def test_a_copy_widens_by_itself() -> None:
    counts = full()
    other = counts.copy()
    other.add(0, 1_000)
    assert (counts.at(0), other.at(0)) == (1, 1_001)
    assert (counts.nbytes, other.nbytes) == (256, 512)
