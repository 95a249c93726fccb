from __future__ import annotations

import numpy as np
import pytest

from scheduler.plugins.normalization import default_normalize, normalize_few, shape_scores
from scheduler.plugins.resources.fit_args import UtilizationShapePoint


@pytest.mark.parametrize(
    ("scores", "forward", "backward"),
    [
        ([0, 1, 3], [0, 33, 100], [100, 67, 0]),
        ([0, 0], [0, 0], [100, 100]),
        ([7], [100], [0]),
        ([], [], []),
    ],
)
def test_scores_are_scaled_to_the_highest(scores: list[int], forward: list[int], backward: list[int]) -> None:
    array = np.array(scores, np.int64)
    assert default_normalize(array).tolist() == forward
    assert default_normalize(array, reverse=True).tolist() == backward


@pytest.mark.parametrize("scores", [[0, 1, 3], [0, 0], [7], [3, 2**40, 17]])
@pytest.mark.parametrize("reverse", [False, True])
def test_some_scores_are_scaled_as_all_are(scores: list[int], reverse: bool) -> None:
    whole = default_normalize(np.array(scores, np.int64), reverse).tolist()
    assert normalize_few(scores, max(scores), reverse) == whole
    assert normalize_few(scores[:1], max(scores), reverse) == whole[:1]


def test_a_falling_shape_truncates_towards_zero() -> None:
    points = (UtilizationShapePoint(0, 10), UtilizationShapePoint(30, 0))
    scores = shape_scores(points).tolist()
    assert scores[1] == 97
    assert (scores[0], scores[30], scores[100]) == (100, 0, 0)


def test_a_shape_is_level_before_its_first_point_and_after_its_last() -> None:
    scores = shape_scores((UtilizationShapePoint(20, 4), UtilizationShapePoint(60, 8))).tolist()
    assert scores[0] == scores[20] == 40
    assert scores[40] == 60
    assert scores[60] == scores[100] == 80


def test_the_usual_falling_shape_gives_two_thirds_of_its_points_at_a_third() -> None:
    assert shape_scores((UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0)))[33] == 67
