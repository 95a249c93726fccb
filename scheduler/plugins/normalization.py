"""Arithmetic shared by several score plugins (docs/kube-scheduler/plugins.md §2.8, §2.9)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.config.validators import ShapePoint
from scheduler.framework.plugin import MAX_NODE_SCORE, Scores

_SHAPE_SCORE_FACTOR = 10
"""Shapes are configured with scores from 0 to 10."""


def default_normalize(scores: Scores, reverse: bool = False) -> Scores:
    """Scales raw scores (int64, at least 0) to 0..100: the highest becomes 100, or 0 if ``reverse``.

    If no score is above 0, all become 100 if ``reverse`` and stay 0 otherwise.
    """
    highest = int(scores.max()) if len(scores) else 0
    if highest <= 0:
        return np.full(len(scores), MAX_NODE_SCORE, np.int64) if reverse else scores
    scaled: Scores = scores * MAX_NODE_SCORE // highest
    return MAX_NODE_SCORE - scaled if reverse else scaled


def normalize_few(raws: Sequence[int], highest: int, reverse: bool = False) -> list[int]:
    """What ``default_normalize`` says of some of the raw scores of which this is the highest."""
    if highest <= 0:
        return [MAX_NODE_SCORE] * len(raws) if reverse else list(raws)
    scaled = [raw * MAX_NODE_SCORE // highest for raw in raws]
    return [MAX_NODE_SCORE - score for score in scaled] if reverse else scaled


def shape_scores(points: Sequence[ShapePoint]) -> Scores:
    """A score's shape as a table: the score (0..100, int64) for each utilization of 0..100 percent.

    Interpolates linearly between the points, truncating divisions towards zero as Go does; constant outside of them.
    """
    return np.array([_shape_score(points, utilization) for utilization in range(101)], np.int64)


def _shape_score(points: Sequence[ShapePoint], utilization: int) -> int:
    for index, point in enumerate(points):
        if utilization > point.utilization:
            continue
        high = point.score * _SHAPE_SCORE_FACTOR
        if index == 0:
            return high
        before = points[index - 1]
        low = before.score * _SHAPE_SCORE_FACTOR
        rise = (high - low) * (utilization - before.utilization)
        run = point.utilization - before.utilization
        return low + (rise // run if rise >= 0 else -(-rise // run))
    return points[-1].score * _SHAPE_SCORE_FACTOR
