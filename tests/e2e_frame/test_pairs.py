"""Ratios of paired rounds: what a bench says of before and after."""

from __future__ import annotations

from typing import NamedTuple

from e2e.bench.pairs import lines, ratio


class Measured(NamedTuple):
    contender: str
    cpu_per_pod: float
    pods_per_second: float = 0.0


def test_each_round_is_compared_with_the_one_beside_it() -> None:
    """A machine that grows three times slower does so for both: the ratio stays."""
    assert str(ratio([1.0, 3.0, 9.0], [2.0, 6.0, 18.0])) == "0.50, pairs: 3"


def test_of_ten_pairs_the_interval_leaves_out_the_smallest_and_the_largest() -> None:
    found = ratio([float(value) for value in range(1, 11)], [10.0] * 10)
    assert (found.least, found.median, found.most) == (0.2, 0.55, 0.9)


def test_of_six_pairs_the_interval_has_all_and_of_five_there_is_none() -> None:
    assert ratio([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0] * 6)[1:3] == (1.0, 6.0)
    assert ratio([1.0, 2.0, 3.0, 4.0, 5.0], [1.0] * 5)[1:3] == (None, None)


def test_cpu_is_compared_with_other_checkouts_and_speed_with_the_null_scheduler() -> None:
    rounds = [
        ("plain", Measured("tandem", 1.0, 90.0)),
        ("plain", Measured("tandem@before", 4.0, 30.0)),
        ("plain", Measured("null", 0.5, 100.0)),
        ("plain", Measured("kube-scheduler", 9.0, 9.0)),
        ("arrival", Measured("null", 0.5, 100.0)),
    ]
    assert list(lines(rounds)) == [
        "plain: CPU a pod of tandem against tandem@before: 0.25, pairs: 1",
        "plain: pods a second of tandem against null: 0.90, pairs: 1",
    ]


def test_a_pair_of_which_one_run_failed_is_left_out() -> None:
    rounds = [
        ("plain", Measured("tandem", 0.0)),
        ("plain", Measured("tandem", 1.0)),
        ("plain", Measured("tandem@before", 9.0)),
        ("plain", Measured("tandem@before", 2.0)),
    ]
    assert list(lines(rounds)) == ["plain: CPU a pod of tandem against tandem@before: 0.50, pairs: 1"]
