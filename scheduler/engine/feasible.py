"""The feasible rows of a scheduling cycle."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scheduler.framework.classes.filters import ClassFilters
from scheduler.framework.classes.first_refusals import NO_ROWS, FirstRefusals
from scheduler.framework.classes.nominated_overlay import NO_REFUSALS, RowRefusals
from scheduler.messages.status import Refusal


class Feasible:
    """The rows that are still feasible, and the refusals of the others."""

    __slots__ = (
        *("_of_class", "_rows", "beside_nominated", "is_sample", "is_whole_class"),
        *("not_reached", "refusals", "rejectors"),
    )

    def __init__(self, rows: npt.NDArray[np.int64] | FirstRefusals, is_whole_class: bool) -> None:
        """``rows``: the rows, or those of a class, which are listed when they are asked for."""
        self._of_class: FirstRefusals | None = None
        self._rows: npt.NDArray[np.int64] | None = None
        if isinstance(rows, FirstRefusals):
            self._of_class = rows
        else:
            self._rows = rows
        self.is_whole_class = is_whole_class
        """Whether these are exactly the rows on which the class fits: then its cached totals are valid."""
        self.is_sample = False
        """Whether the search ended before it had found all of them: the next decision of the class compares others."""
        self.beside_nominated: RowRefusals = NO_REFUSALS
        """Refusals of the rows that refuse the pod beside those nominated there. They precede the class's."""
        self.refusals: dict[int, Refusal] = {}
        """Extenders' refusals by row, signed. They precede the class's, too."""
        self.rejectors: frozenset[str] = frozenset()
        self.not_reached: npt.NDArray[np.int64] = NO_ROWS
        """Rows that the search did not reach, of which nothing is known; set where extenders may drop all rows that it
        found."""

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """int64, ascending."""
        if self._rows is None:
            assert self._of_class is not None
            self._rows = self._of_class.feasible_rows
        return self._rows

    @rows.setter
    def rows(self, rows: npt.NDArray[np.int64]) -> None:
        self._rows = rows

    @property
    def count(self) -> int:
        """How many rows there are."""
        if self._rows is None:
            assert self._of_class is not None
            return self._of_class.feasible_count
        return len(self._rows)

    def error_rows(self, of_class: ClassFilters, placement: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int64]:
        """The rows, of ``placement`` if there is one, on which a filter ended in an error; ascending.

        A node that refuses the pod beside those nominated there is not asked whether it fits without them.
        """
        rows, beside = of_class.error_rows, self.beside_nominated
        if beside:
            rows = np.sort(np.concatenate((rows[beside.codes[rows] == 0], beside.error_rows)))
        return rows if placement is None or not len(rows) else rows[np.isin(rows, placement)]

    def error_on(self, of_class: ClassFilters, row: int) -> Refusal:
        """The error of one of ``error_rows``."""
        return self.beside_nominated.on(row) or of_class.refusals[of_class.codes.item(row)]

    def not_evaluated(self, refused_first: int) -> int:
        """How many of the rows that extenders were asked about do not count as evaluated, as in kube-scheduler: those
        that they dropped without a reason, and ``refused_first``, the nominated node, which counts already."""
        return sum(not refusal.reasons or row == refused_first for row, refusal in self.refusals.items())
