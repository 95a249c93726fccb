from __future__ import annotations

import math

import numpy as np
import pytest

from scheduler.plugins.go_math import go_log, go_round


@pytest.mark.parametrize("x", [3, 14, 48, 74, 176])
def test_the_logarithm_of_some_numbers_is_one_bit_off_the_correctly_rounded_one(x: int) -> None:
    assert go_log(x) in (math.nextafter(math.log(x), 0), math.nextafter(math.log(x), math.inf))


@pytest.mark.parametrize("x", [2, 4, 5, 10, 1024, 5002])
def test_the_logarithm_of_most_numbers_is_the_correctly_rounded_one(x: int) -> None:
    assert go_log(x) == math.log(x)


def test_the_logarithm_of_one_is_zero() -> None:
    assert go_log(1) == 0.0


def test_198_of_the_first_20002_numbers_differ() -> None:
    assert sum(go_log(x) != math.log(x) for x in range(1, 20003)) == 198


def test_halves_are_rounded_away_from_zero() -> None:
    rounded = go_round(np.array([0.0, 0.4999, 0.5, 1.5, 2.5, 2.7726]))
    assert rounded.tolist() == [0, 0, 1, 2, 3, 3]
    assert rounded.dtype == np.int64
