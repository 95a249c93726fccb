"""Amounts of scalar resources against plain sums."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.amounts import MAX_ASKED_BYTES, Amounts

STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 80), st.integers(-3, 3), st.booleans()), max_size=150)


@settings(max_examples=100)
@given(STEPS)
def test_amounts_are_the_sums_of_what_was_added(steps: list[tuple[str, int, int, bool]]) -> None:
    amounts = Amounts()
    sums: Counter[tuple[str, int]] = Counter()
    fork, then = amounts.fork(), sums.copy()
    for name, row, amount, forks in steps:
        if forks:
            fork, then = amounts.fork(), sums.copy()
        amounts.add(name, row, amount)
        sums[name, row] += amount
        assert amounts.column(name, 81)[row] == amounts.at(name, row) == sums[name, row]
    for name in "abc":
        assert amounts.column(name, 81).tolist() == [sums[name, row] for row in range(81)]
        assert fork.column(name, 81).tolist() == [then[name, row] for row in range(81)]
        assert (name in amounts) == any(sums[name, row] for row in range(81))
        assert amounts.taken([5, 0]).column(name, 2).tolist() == [sums[name, 5], sums[name, 0]]


def test_resources_that_are_asked_for_have_columns_within_the_bound() -> None:
    amounts = Amounts()
    for number in range(1_000):
        amounts.add(f"r{number}", number, 7)
    for number in range(1_000):
        assert amounts.column(f"r{number}", 5_000)[number] == 7
    dense = [counts for counts in amounts._by_name.values() if counts.is_dense]
    assert sum(counts.array(5_000).nbytes for counts in dense) <= MAX_ASKED_BYTES
    assert len(dense) > 50
    assert all(amounts.at(f"r{number}", number) == 7 for number in range(1_000))


def test_amounts_of_nothing_are_not_kept() -> None:
    amounts = Amounts()
    for number in range(2_000):
        amounts.add(f"r{number}", 0, 0)
    amounts.add("r", 0, 5)
    amounts.column("r", 10)
    amounts.add("r", 0, -5)
    assert amounts.names == []


def test_sums_beyond_int64_begin_again_at_the_other_end_and_come_back() -> None:
    amounts = Amounts()
    for row in (0, 70):
        for _ in range(3):
            amounts.add("r", row, 2**63 - 1)
    assert amounts.column("r", 80)[[0, 1, 70]].tolist() == [2**63 - 3, 0, 2**63 - 3]
    amounts.add("r", 0, 5)
    assert amounts.at("r", 0) == amounts.column("r", 80)[0] == -(2**63) + 2
    for row in (0, 70):
        for _ in range(3):
            amounts.add("r", row, -(2**63 - 1))
    assert (amounts.at("r", 0), amounts.at("r", 70)) == (5, 0)
