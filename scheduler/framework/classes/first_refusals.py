"""The first refusal of each row, combined from the filter plugins' columns, and a log of the rows that changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.longer import longer
from scheduler.cluster.view import View
from scheduler.framework.shortcuts import Flips

FITS = 0
NO_NODE = -1
"""Code of a row without a Node object."""
OUTSIDE = -2
"""Code of a row outside of a PreFilter plugin's node set."""

Codes = npt.NDArray[np.int16]
Rows = npt.NDArray[np.integer]


CodedRows = tuple[Rows, int]
"""A block of rows, and the code that one plugin gives all of them. Before, they all had one code, too."""

MAX_FLIPS = 30
"""Single rows up to which they are counted one by one: all of 5,000 rows are counted in 14 µs."""

NO_ROWS: Final[npt.NDArray[np.int64]] = np.zeros(0, np.int64)


class Block(Struct, frozen=True):
    """Rows that ceased and rows that began to fit at once: no row is in it twice."""

    before: int
    after: int
    """The ``fits_version`` before and after it."""
    ceased: Rows
    began: Rows


class FirstRefusals:
    """One int16 per row: FITS, NO_NODE, OUTSIDE, or a code of the class's `RefusalTable`.

    ``version`` grows with any change of a code; ``fits_version`` by one for each row that began or ceased to fit, and
    by one when all rows or a block of them are combined.
    """

    __slots__ = (
        "_block",
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
        self._block: Block | None = None
        """The last block that changed, after which ``_changed`` goes on."""
        self._rows: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._rows_version = -1

    @property
    def feasible_rows(self) -> npt.NDArray[np.int64]:
        """Rows that fit, int64, ascending."""
        if self._rows_version != self.fits_version:
            size = len(self.codes)
            self._rows = _all_rows(size) if self.feasible_count == size else np.flatnonzero(self.codes == FITS)
            self._rows_version = self.fits_version
        return self._rows

    @property
    def nbytes(self) -> int:
        """The size in bytes of its own arrays: where all rows fit, ``feasible_rows`` is one array for all classes."""
        return self.codes.nbytes + (self._rows.nbytes if len(self._rows) < len(self.codes) else 0)

    def grow(self, size: int) -> None:
        """Take in rows of which nothing is known yet: they count as without a node until they are combined."""
        self.codes = longer(self.codes, size, NO_NODE)

    def copied(self) -> FirstRefusals:
        other = FirstRefusals()
        other.codes = self.codes.copy()
        other.feasible_count, other.fits_version, other.version = self.feasible_count, self.fits_version, self.version
        other._changed, other._changed_from, other._block = self._changed[:], self._changed_from, self._block
        other._rows, other._rows_version = self._rows, self._rows_version
        return other

    def changed_since(self, fits_version: int) -> Sequence[int] | None:
        """Rows that began or ceased to fit since then, possibly repeated; None where any row may have."""
        if fits_version < self._changed_from:
            return None
        return self._changed[fits_version - self._changed_from :]

    def block_since(self, fits_version: int) -> Block | None:
        """The block that changed right after then, where rows changed in a block; ``changed_since`` says what changed
        after it."""
        block = self._block
        return block if block is not None and block.before == fits_version else None

    def flips_since(self, fits_version: int) -> Flips | None:
        """Rows that began or ceased to fit since then; None where any row may have, or they are many single ones."""
        block = self.block_since(fits_version)
        single = self.changed_since(fits_version if block is None else block.after)
        if single is None or len(single) > MAX_FLIPS:
            return None
        return Flips(NO_ROWS, NO_ROWS, single) if block is None else Flips(block.ceased, block.began, single)

    def combine(self, columns: Sequence[Codes], searched: Rows | slice, view: View) -> None:
        """Computes all rows. ``columns``: the plugins' codes in their order; ``searched``: all rows, or those that a
        PreFilter plugin's node set leaves."""
        table = view.table
        codes = columns[-1][searched] if columns else np.zeros(len(table.exists[searched]), np.int16)
        if isinstance(searched, slice):
            codes = codes.copy()
        for column in reversed(columns[:-1]):
            own = column[searched]
            np.copyto(codes, own, where=own != FITS)
        if not isinstance(searched, slice):
            inside, codes = codes, np.full(table.size, OUTSIDE, np.int16)
            codes[searched] = inside
        if table.node_count != table.size:
            codes[~table.exists] = NO_NODE
        self.codes = codes
        self.feasible_count = table.size - int(np.count_nonzero(codes))
        self.fits_version += 1
        self.version += 1
        self._forget_changes()

    def combine_blocks(self, blocks: Sequence[CodedRows], columns: Sequence[Codes], view: View) -> None:
        """The same for blocks of rows, where all nodes are searched."""
        table = view.table
        if len(columns) == 1 and table.node_count == table.size:
            ceased: list[Rows] = []
            began: list[Rows] = []
            for rows, code in blocks:
                before = self.codes.item(rows.item(0))
                self.codes[rows] = code
                if (before == FITS) != (code == FITS):
                    (began if code == FITS else ceased).append(rows)
            self._flip(_one(ceased), _one(began))
            return
        rows = _one([rows for rows, _ in blocks])
        if len(blocks) > 1:
            # blocks of two plugins may overlap
            rows = np.unique(rows)
        codes = columns[-1][rows]
        for column in reversed(columns[:-1]):
            own = column[rows]
            np.copyto(codes, own, where=own != FITS)
        if table.node_count != table.size:
            codes[~table.exists[rows]] = NO_NODE
        fitted, fits = self.codes[rows] == FITS, codes == FITS
        self.codes[rows] = codes
        self._flip(rows[fitted & ~fits], rows[fits & ~fitted])

    def _flip(self, ceased: Rows, began: Rows) -> None:
        self.version += 1
        if len(ceased) or len(began):
            self.feasible_count += len(began) - len(ceased)
            self.fits_version += 1
            self._forget_changes()
            self._block = Block(self.fits_version - 1, self.fits_version, ceased, began)

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
        self._block = None


@lru_cache(maxsize=2)
def _all_rows(size: int) -> npt.NDArray[np.int64]:
    rows = np.arange(size)
    rows.flags.writeable = False
    return rows


def _one(blocks: Sequence[Rows]) -> Rows:
    if len(blocks) == 1:
        return blocks[0]
    return np.concatenate(blocks) if blocks else NO_ROWS
