"""Node sampling: the number of feasible nodes to find (docs/kube-scheduler/cycle.md §5, items 5 and 6)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scheduler.extenders.extender import Extender

MIN_NODES_TO_FIND = 100
MIN_PERCENTAGE = 5


def percentage_in_force(own: int | None, common: int | None, extenders: Sequence[Extender]) -> int | None:
    """``own``: of the profile; ``common``: of all. None: every node is looked at, but for extenders that filter."""
    percentage = common if own is None else own
    return 0 if percentage is None and any(extender.has_filter for extender in extenders) else percentage


def nodes_to_find(candidates: int, percentage: int) -> int:
    """The number of feasible nodes that ends the search. ``percentage`` 0 adapts to the size of the cluster."""
    if candidates < MIN_NODES_TO_FIND:
        return candidates
    if percentage == 0:
        percentage = max(MIN_PERCENTAGE, 50 - candidates // 125)
    return max(MIN_NODES_TO_FIND, candidates * percentage // 100)


def take_sample(
    candidates: npt.NDArray[np.int64], feasible: npt.NDArray[np.int64], start: int, wanted: int, refused_first: int = -1
) -> tuple[npt.NDArray[np.int64], int]:
    """The first ``wanted`` feasible rows from place ``start`` of ``candidates`` on, wrapping, and how many were seen.

    The rows come back in the order in which they are met. As in kube-scheduler the search ends when one more than
    wanted is met; the rows refused on the way up to it, and the wanted ones, count as seen. So does ``refused_first``,
    the row of the nominated node that was looked at before all others and refused; -1: there is none.
    """
    if not len(candidates):
        return candidates, int(refused_first >= 0)
    walk = np.roll(candidates, -(start % len(candidates)))
    fits = np.isin(walk, feasible, assume_unique=True)
    places = np.flatnonzero(fits)
    seen = len(walk) if len(places) <= wanted else int(places[wanted])
    is_met_again = refused_first in walk[:seen][~fits[:seen]]
    return walk[places[:wanted]], seen + (refused_first >= 0 and not is_met_again)
