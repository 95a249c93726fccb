"""Which rows have a thing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.rows_by_key import RowsByKey

steps = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=12)


def all_of(rows: RowsByKey[str]) -> dict[str, dict[int, int]]:
    return {key: dict(counts) for key, counts in rows.items()}


@given(steps, steps, steps)
def test_a_fork_and_its_original_go_their_own_ways(
    before: list[tuple[str, int]], here: list[tuple[str, int]], there: list[tuple[str, int]]
) -> None:
    def made_of(*parts: list[tuple[str, int]]) -> RowsByKey[str]:
        rows: RowsByKey[str] = RowsByKey()
        for key, row in [step for part in parts for step in part]:
            rows.add(key, row)
        return rows

    original = made_of(before)
    fork = original.fork()
    for key, row in here:
        original.add(key, row)
    for key, row in there:
        fork.add(key, row)
    assert all_of(original) == all_of(made_of(before, here))
    assert all_of(fork) == all_of(made_of(before, there))
    for key, row in here:
        original.remove(key, row)
    assert all_of(original) == all_of(made_of(before))
    assert all_of(fork) == all_of(made_of(before, there))


def test_rows_are_had_until_the_last_of_them_is_gone() -> None:
    rows: RowsByKey[str] = RowsByKey()
    for row in (3, 1, 3):
        rows.add("a", row)
    rows.add("b", 1)
    assert list(rows.having(["b", "a"])) == [1, 3]
    rows.remove("a", 3)
    assert dict(rows.of("a")) == {3: 1, 1: 1}
    rows.remove("a", 3)
    rows.remove("a", 1)
    assert list(rows.having(["a"])) == []
    with pytest.raises(KeyError):
        rows.remove("a", 1)
