"""The total of each row for a class of pods, and the rows that have the best one."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.cluster.longer import longer
from scheduler.framework.classes.first_refusals import FirstRefusals

INFEASIBLE = -1
"""Total of a row that does not fit: below all others, which are never negative."""

MAX_LEVELS = 4
"""Number of totals whose rows are cached: the best total moves by a few steps as a class fills the nodes."""

MAX_LISTED_ROWS = 60
"""Rows of a cached total that are looked at one by one: the pass that finds those of the best total takes 6 µs."""


def total_dtype(max_total: int) -> type[np.int16] | type[np.int32] | type[np.int64]:
    """The narrowest type for totals: passes over them are quicker."""
    return np.int16 if max_total < 2**15 else np.int32 if max_total < 2**31 else np.int64


class Ranks:
    """``totals``: one per row, of the narrowest type that ``max_total`` fits into."""

    __slots__ = ("_best", "_dtype", "_levels", "totals")

    def __init__(self, max_total: int) -> None:
        self._dtype = total_dtype(max_total)
        self.totals: npt.NDArray[Any] = np.zeros(0, self._dtype)
        self._best = INFEASIBLE
        self._levels: dict[int, array[int]] = {}
        """Total → rows, ascending, for totals that were recently the best, updated while single rows change: finding
        them takes a pass over all rows."""

    @property
    def nbytes(self) -> int:
        return self.totals.nbytes + sum(len(rows) * rows.itemsize for rows in self._levels.values())

    def copied(self) -> Ranks:
        other = Ranks.__new__(Ranks)
        other._dtype, other._best = self._dtype, self._best
        other.totals = self.totals.copy()
        other._levels = {total: rows[:] for total, rows in self._levels.items()}
        return other

    def add_up(self, constant: int, columns: Sequence[npt.NDArray[np.integer]], first: FirstRefusals) -> None:
        """Computes all totals: the constant plus the columns, INFEASIBLE where a row does not fit."""
        size = len(first.codes)
        totals: npt.NDArray[Any] = np.empty(size, self._dtype)
        totals.fill(constant)
        for column in columns:
            totals += column
        if first.feasible_count != size:
            # INFEASIBLE has all bits set; this takes half the time of an assignment with a mask.
            totals |= -(first.codes != 0).astype(self._dtype)
        self.totals = totals
        self._levels = {}

    def grow(self, size: int) -> None:
        """Take in rows that do not fit yet."""
        self.totals = longer(self.totals, size, INFEASIBLE)

    def exclude(self, rows: npt.NDArray[np.integer], *, forgets_levels: bool) -> None:
        """These rows do not fit any more. ``forgets_levels``: other rows are going to be set at once."""
        self.totals[rows] = INFEASIBLE
        if forgets_levels:
            self._levels = {}
        levels, total_of = self._levels, self.totals.item
        for total, level in list(levels.items()):
            if len(level) <= MAX_LISTED_ROWS:
                levels[total] = array("i", [row for row in level if total_of(row) == total])
            else:
                del levels[total]

    def set_rows(
        self, rows: npt.NDArray[np.integer], constant: int, columns: Sequence[npt.NDArray[np.integer]]
    ) -> None:
        """Computes the totals of these rows, which fit; after ``forgets_levels``."""
        totals: npt.NDArray[Any] = np.full(len(rows), constant, self._dtype)
        for column in columns:
            totals += column[rows]
        self.totals[rows] = totals

    def set_row(self, row: int, total: int) -> None:
        """Replaces the total of one row."""
        before = self.totals.item(row)
        if total == before:
            return
        self.totals[row] = total
        levels = self._levels
        if not levels:
            return
        left = levels.get(before)
        if left is not None:
            del left[bisect_left(left, row)]
        joined = levels.get(total)
        if joined is not None:
            insort(joined, row)
        elif total > self._best:
            levels[total] = array("i", (row,))
        self._best = max(self._best, total)

    def leaders(self) -> tuple[int, Sequence[int]]:
        """The best total and its rows, ascending; valid until the next change. Don't mutate the rows."""
        found = self._levels.get(self._best)
        if not found:
            totals = self.totals
            self._best = best = totals.item(totals.argmax())
            found = self._levels.get(best)
            if found is None:
                if len(self._levels) >= MAX_LEVELS:
                    self._levels.clear()
                rows = (totals == best).nonzero()[0]
                found = self._levels[best] = array("i", rows.astype(np.int32).tobytes())
        return self._best, found
