"""Node sampling: the number of feasible nodes to find (docs/kube-scheduler/cycle.md §5, items 5 and 6)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MIN_NODES_TO_FIND = 100
MIN_PERCENTAGE = 5


def nodes_to_find(candidates: int, percentage: int) -> int:
    """The number of feasible nodes that ends the search. ``percentage`` 0 adapts to the size of the cluster."""
    if candidates < MIN_NODES_TO_FIND:
        return candidates
    if percentage == 0:
        percentage = max(MIN_PERCENTAGE, 50 - candidates // 125)
    return max(MIN_NODES_TO_FIND, candidates * percentage // 100)


def take_sample(
    candidates: npt.NDArray[np.int64], feasible: npt.NDArray[np.int64], start: int, wanted: int
) -> tuple[npt.NDArray[np.int64], int]:
    """The first ``wanted`` feasible rows from place ``start`` of ``candidates`` on, wrapping, and how many were seen.

    The rows come back in the order in which they are met. As in kube-scheduler the search ends when one more than
    wanted is met; the rows refused on the way up to it, and the wanted ones, count as seen.
    """
    if not len(candidates):
        return candidates, 0
    walk = np.roll(candidates, -(start % len(candidates)))
    fits = np.isin(walk, feasible, assume_unique=True)
    places = np.flatnonzero(fits)
    if len(places) <= wanted:
        return walk[places], len(walk)
    return walk[places[:wanted]], int(places[wanted])
