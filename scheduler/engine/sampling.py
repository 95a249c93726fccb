"""Node sampling: the number of feasible nodes to find (docs/kube-scheduler/cycle.md §5, items 5 and 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.extenders.extender import Extender
from scheduler.framework.classes.first_refusals import NO_ROWS
from scheduler.framework.profile import Profile

MIN_NODES_TO_FIND = 100
MIN_PERCENTAGE = 5


def percentage_in_force(own: int | None, common: int | None, extenders: Sequence[Extender]) -> int | None:
    """The percentage of nodes to score: the profile's (``own``), else that of all profiles (``common``). None: all
    nodes are scored; where an extender filters, 0 (adaptive) takes its place."""
    percentage = common if own is None else own
    return 0 if percentage is None and any(extender.has_filter for extender in extenders) else percentage


def nothing_scores(profile: Profile, extenders: Sequence[Extender]) -> bool:
    """Whether nothing compares feasible nodes, so that the first one found is taken, as in kube-scheduler; an extender
    that filters may leave it out, and is asked about more."""
    return not profile.score_plugins and not any(each.has_filter or each.has_prioritize for each in extenders)


def nodes_to_find(candidates: int, percentage: int) -> int:
    """The number of feasible nodes that ends the search. ``percentage`` 0 adapts to the size of the cluster."""
    if candidates < MIN_NODES_TO_FIND:
        return candidates
    if percentage == 0:
        percentage = max(MIN_PERCENTAGE, 50 - candidates // 125)
    return max(MIN_NODES_TO_FIND, candidates * percentage // 100)


class Sample(NamedTuple):
    """The result of a search for a sample."""

    rows: npt.NDArray[np.int64]
    """The feasible rows that it found."""
    seen: int
    """How many rows were looked at."""
    failed: int = -1
    """The row on which a filter ended in an error; -1: there was none. It does not count as seen."""
    reached: int = 0
    """How many candidates the search has passed, from its start on."""


def take_sample(
    candidates: npt.NDArray[np.int64],
    feasible: npt.NDArray[np.int64],
    start: int,
    wanted: int,
    refused_first: int = -1,
    failing: npt.NDArray[np.int64] = NO_ROWS,
) -> Sample:
    """What a search from place ``start`` of ``candidates`` on, wrapping, comes to.

    No more than ``wanted`` feasible rows come back as they are, more of them as the first ``wanted``, in the order in
    which they are met. As in kube-scheduler the search ends when one more than wanted is met; the rows refused on the
    way up to it, and the wanted ones, count as seen. So does ``refused_first``, the row of the nominated node that was
    looked at before all others and refused; -1: there is none. It also ends at the first of ``failing``, the rows on
    which a filter ends in an error; those that it does not reach do not matter. ``feasible`` and ``failing``: some of
    the candidates, ascending, and none in both.
    """
    count = len(candidates)
    if not count:
        return Sample(candidates, int(refused_first >= 0))
    start %= count
    found, seen, failed = feasible, count, -1
    if wanted < len(feasible) == count:
        found, seen = candidates[start : start + wanted], wanted
        found = np.concatenate((found, candidates[: wanted - len(found)]))
    elif len(feasible) > wanted:
        places = _places_of(feasible, candidates)
        first = int(places.searchsorted(start))
        met = places[first : first + wanted + 1]
        met = np.concatenate((met, places[: wanted + 1 - len(met)]))
        found, seen = candidates[met[:wanted]], (int(met[wanted]) - start) % count
    if len(failing):
        first_failing = int(((_places_of(failing, candidates) - start) % count).min())
        if first_failing < seen:
            seen, failed = first_failing, candidates.item((start + first_failing) % count)
    is_one_more = refused_first >= 0 and not _is_met(candidates, feasible, start, seen, refused_first)
    return Sample(found, seen + is_one_more, failed, seen)


def not_reached(candidates: npt.NDArray[np.int64], start: int, reached: int) -> npt.NDArray[np.int64]:
    """The candidates that a search from place ``start`` on, wrapping, that came by ``reached`` of them did not see."""
    return np.roll(candidates, -(start % len(candidates)))[reached:]


def _places_of(rows: npt.NDArray[np.int64], candidates: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The places of these rows among the candidates, ascending."""
    is_one = np.zeros(int(candidates.max()) + 1, dtype=np.bool_)
    is_one[rows] = True
    return np.flatnonzero(is_one[candidates])


def _is_met(
    candidates: npt.NDArray[np.int64], feasible: npt.NDArray[np.int64], start: int, seen: int, refused: int
) -> bool:
    """Whether this row is among those ``seen`` that are not feasible."""
    places = np.flatnonzero(candidates == refused)
    return len(places) > 0 and (int(places[0]) - start) % len(candidates) < seen and refused not in feasible
