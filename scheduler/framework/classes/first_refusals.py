"""The first refusal of each row, combined from the filter plugins' columns, and a log of the rows that changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scheduler.cluster.view import View

FITS = 0
NO_NODE = -1
"""Code of a row without a Node object."""
OUTSIDE = -2
"""Code of a row outside of a PreFilter plugin's node set."""

Codes = npt.NDArray[np.int16]


class FirstRefusals:
    """One int16 per row: FITS, NO_NODE, OUTSIDE, or a code of the class's `RefusalTable`.

    ``version`` grows with any change of a code; ``fits_version`` by one for each row that began or ceased to fit, and
    by one when all rows are combined.
    """

    __slots__ = (
        "_changed",
        "_changed_from",
        "_rows",
        "_rows_version",
        "codes",
        "feasible_count",
        "fits_version",
        "version",
    )

    def __init__(self) -> None:
        self.codes: Codes = np.zeros(0, np.int16)
        self.feasible_count = 0
        self.fits_version = 0
        self.version = 0
        self._changed: list[int] = []
        """The changed row of each ``fits_version`` since ``_changed_from``."""
        self._changed_from = 0
        self._rows: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._rows_version = -1

    @property
    def feasible_rows(self) -> npt.NDArray[np.int64]:
        """Rows that fit, int64, ascending."""
        if self._rows_version != self.fits_version:
            self._rows = np.flatnonzero(self.codes == FITS)
            self._rows_version = self.fits_version
        return self._rows

    def copied(self) -> FirstRefusals:
        other = FirstRefusals()
        other.codes = self.codes.copy()
        other.feasible_count, other.fits_version, other.version = self.feasible_count, self.fits_version, self.version
        other._changed, other._changed_from = self._changed[:], self._changed_from
        other._rows, other._rows_version = self._rows, self._rows_version
        return other

    def changed_since(self, fits_version: int) -> Sequence[int] | None:
        """Rows that began or ceased to fit since then, possibly repeated; None where any row may have."""
        if fits_version < self._changed_from:
            return None
        return self._changed[fits_version - self._changed_from :]

    def combine(self, columns: Sequence[Codes], only: frozenset[str] | None, view: View) -> None:
        """Computes all rows. ``columns``: the plugins' codes in their order; ``only``: names of the nodes searched."""
        table = view.table
        codes = columns[-1].copy() if columns else np.zeros(table.size, np.int16)
        for column in reversed(columns[:-1]):
            np.copyto(codes, column, where=column != FITS)
        if only is not None:
            inside = np.zeros(table.size, np.bool_)
            for name in only:
                row = table.existing_row(name)
                if row is not None:
                    inside[row] = True
            codes[~inside] = OUTSIDE
        if table.node_count != table.size:
            codes[~table.exists] = NO_NODE
        self.codes = codes
        self.feasible_count = table.size - int(np.count_nonzero(codes))
        self.fits_version += 1
        self.version += 1
        self._forget_changes()

    def combine_rows(self, rows: set[int], columns: Sequence[Codes], only: frozenset[str] | None, view: View) -> None:
        """The same for single rows."""
        table = view.table
        for row in rows:
            code = FITS
            if not table.exists[row]:
                code = NO_NODE
            elif only is not None and table.names[row] not in only:
                code = OUTSIDE
            else:
                for column in columns:
                    code = column.item(row)
                    if code != FITS:
                        break
            before = self.codes.item(row)
            if before == code:
                continue
            self.codes[row] = code
            self.version += 1
            if (before == FITS) != (code == FITS):
                self.feasible_count += 1 if code == FITS else -1
                self.fits_version += 1
                self._changed.append(row)
        if len(self._changed) > len(self.codes):
            # Combining all rows is no more work than combining these.
            self._forget_changes()

    def _forget_changes(self) -> None:
        self._changed = []
        self._changed_from = self.fits_version
