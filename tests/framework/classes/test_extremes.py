from __future__ import annotations

import msgspec
import numpy as np

from scheduler.framework.classes.extremes import Extremes


def _stays(
    extremes: Extremes, raw: list[int], codes: list[int], row: int, score: int, with_lowest: bool = True
) -> bool:
    """Whether the extremes stay when the row's raw score becomes this one."""
    before, raw[row] = raw[row], score
    scores, refusals = np.array(raw, np.int64), np.array(codes, np.int16)
    return extremes.stay([before], [score], scores, refusals, with_lowest=with_lowest)


def test_extremes_stay_while_a_row_that_fits_has_each() -> None:
    extremes, raw, codes = Extremes(1, 9), [1, 9, 9, 5, 9, 1], [0, 0, 0, 0, 1, 0]
    assert _stays(extremes, raw, codes, 3, 6)
    assert msgspec.structs.astuple(extremes) == (1, 9, None, None), "nothing had to be counted"
    assert _stays(extremes, raw, codes, 1, 2)
    assert msgspec.structs.astuple(extremes) == (1, 9, None, 1), "the row that does not fit is left out"
    assert _stays(extremes, raw, codes, 3, 9)
    assert _stays(extremes, raw, codes, 2, 8)
    assert _stays(extremes, raw, codes, 0, 4)
    assert not _stays(extremes, raw, codes, 3, 8), "it was the last that had the highest"


def test_extremes_do_not_stay_when_a_row_exceeds_them() -> None:
    assert not _stays(Extremes(1, 9), [1, 9, 5], [0, 0, 0], 2, 10)
    assert not _stays(Extremes(1, 9), [1, 9, 5], [0, 0, 0], 2, 0)


def test_the_lowest_may_go_where_nothing_reads_it() -> None:
    assert _stays(Extremes(1, 9), [1, 9, 5], [0, 0, 0], 2, 0, with_lowest=False)
    assert not _stays(Extremes(1, 9), [1, 9, 5], [0, 0, 0], 0, 4)
