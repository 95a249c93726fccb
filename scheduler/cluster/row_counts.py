"""A number per row: kept sparsely while few rows have one, as an array from then on.

An array has the narrowest type that its numbers have fitted into so far: a count of pods takes one byte a row, and a
cluster of 100,000 nodes has as many counts as selectors and affinity terms.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from scheduler.cluster.longer import longer

_MAX_SPARSE = 64

Numbers = npt.NDArray[np.signedinteger[Any]]
_Type = type[np.int8 | np.int16 | np.int32 | np.int64]
_NARROW_TYPES: Final[tuple[_Type, ...]] = (np.int8, np.int16, np.int32)


class RowCounts:
    """Zero everywhere at first. int64 arithmetic. ``is_wide``: the array is int64 from the start, so that ``array``
    never copies it."""

    __slots__ = ("_dense", "_is_wide", "_most", "_sparse")

    def __init__(self, *, is_wide: bool = False) -> None:
        self._is_wide = is_wide
        self._sparse: dict[int, int] = {}
        self._dense: Numbers | None = None
        self._most = 0
        """What the array can hold of either sign."""

    def add(self, row: int, amount: int) -> int:
        """Returns what the row has now."""
        dense = self._dense
        if dense is not None:
            if row >= len(dense):
                dense = self._dense = longer(dense, 1 << row.bit_length())
            total: int = dense.item(row) + amount
            if not -self._most <= total <= self._most:
                dense = self._hold(dense.astype(self._type_for(total)))
            dense[row] = total
            return total
        sparse = self._sparse
        total = sparse.get(row, 0) + amount
        if total:
            sparse[row] = total
        else:
            sparse.pop(row, None)
            if not sparse:
                # An emptied dict keeps its memory, a new one has none.
                self._sparse = {}
        if len(sparse) > _MAX_SPARSE:
            self._fill(1 << max(sparse).bit_length())
        return total

    def at(self, row: int) -> int:
        dense = self._dense
        if dense is None:
            return self._sparse.get(row, 0)
        return dense.item(row) if row < len(dense) else 0

    @property
    def is_zero(self) -> bool:
        """Whether no row has anything."""
        return not self._sparse if self._dense is None else not self._dense.any()

    @property
    def nbytes(self) -> int:
        """The size in bytes of the array; there is little else."""
        return 0 if self._dense is None else self._dense.nbytes

    @property
    def is_dense(self) -> bool:
        return self._dense is not None

    def make_dense(self, size: int) -> int:
        """Keep an array for at least ``size`` rows, however few have a number. Returns its bytes."""
        dense = self._dense
        if dense is None:
            dense = self._fill(1 << max(size - 1, max(self._sparse, default=0), 1).bit_length())
        return dense.nbytes

    def make_sparse(self) -> None:
        """Give the array back if few rows have a number."""
        if self._dense is not None and np.count_nonzero(self._dense) <= _MAX_SPARSE:
            self._sparse, self._dense = self.items(), None

    def by_value(
        self,
        ids: npt.NDArray[np.int32],
        length: int,
        mask: npt.NDArray[np.bool_] | None = None,
        *,
        is_unique: bool = False,
    ) -> npt.NDArray[np.int64]:
        """Sums by the value that each row has: int64, ``length`` long, index = value id; what entry 0 has is undefined.

        ``ids``: int32, the value of each row; rows that it does not reach have nothing to add. ``mask``: bool, the rows
        that count. ``is_unique``: no two rows have the same value, but for 0.
        """
        if self._dense is None:
            rows = np.fromiter(self._sparse.keys(), np.int64, len(self._sparse))
            amounts = np.fromiter(self._sparse.values(), np.float64, len(self._sparse))
            if mask is not None:
                counts = mask[rows]
                rows, amounts = rows[counts], amounts[counts]
            return np.bincount(ids[rows], amounts, length).astype(np.int64)
        size = min(len(ids), len(self._dense))
        ids, dense = ids[:size], self._dense[:size]
        if mask is not None:
            ids, dense = ids[mask[:size]], dense[mask[:size]]
        if is_unique:
            # Each id occurs once: assigning takes a third of the time of adding.
            sums = np.zeros(length, np.int64)
            sums[ids] = dense
            return sums
        return np.bincount(ids, dense, length).astype(np.int64)

    def array(self, size: int) -> npt.NDArray[np.int64]:
        """One number a row: int64, ``size`` long, read-only. It may go on changing with this object."""
        dense = self._dense
        if dense is None:
            shown = np.zeros(size, np.int64)
            if self._sparse:
                shown[list(self._sparse)] = list(self._sparse.values())
        else:
            if len(dense) < size:
                dense = self._dense = longer(dense, 1 << (size - 1).bit_length())
            shown = dense[:size].astype(np.int64, copy=False)
        shown.flags.writeable = False
        return shown

    def items(self) -> dict[int, int]:
        """Row -> number, where it is not zero."""
        if self._dense is None:
            return dict(self._sparse)
        return {int(row): int(self._dense[row]) for row in np.flatnonzero(self._dense)}

    def copy(self) -> RowCounts:
        other = RowCounts(is_wide=self._is_wide)
        other._sparse = dict(self._sparse)
        other._dense = None if self._dense is None else self._dense.copy()
        other._most = self._most
        return other

    def _fill(self, size: int) -> Numbers:
        """Puts the numbers into an array of this size."""
        sparse = self._sparse
        widest = max(map(abs, sparse.values()), default=0)
        dense = self._hold(np.zeros(size, self._type_for(widest)))
        for row, number in sparse.items():
            dense[row] = number
        self._sparse = {}
        return dense

    def _hold(self, dense: Numbers) -> Numbers:
        self._dense = dense
        self._most = int(np.iinfo(dense.dtype).max)
        return dense

    def _type_for(self, number: int) -> _Type:
        """The narrowest type for a number of either sign."""
        types = _NARROW_TYPES if not self._is_wide else ()
        return next((one for one in types if abs(number) <= np.iinfo(one).max), np.int64)
