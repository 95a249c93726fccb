"""Small ids for values that many rows share, so that a column holds ints and a question is asked once a value."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", bound=Hashable)

ABSENT = 0
"""The id of "no value"; real ids start at 1, so that a table of answers by id has a place for it."""

_FEW_IDS = 64
"""Interners with fewer ids are never compacted."""


class Interner(Generic[T]):
    """Values to ids 1, 2, 3 ... in order of first sight. An id means the same for as long as the interner lives: values
    are given back by going over to another interner (``compacted``)."""

    __slots__ = ("_ids", "_looked_at", "values")

    def __init__(self) -> None:
        self._ids: dict[T, int] = {}
        self.values: list[T | None] = [None]
        self._looked_at = _FEW_IDS
        """How many ids there were when ``compacted`` last counted those in use, at least."""

    def __len__(self) -> int:
        """How many ids there are, ABSENT included: the length of a table by id."""
        return len(self.values)

    def intern(self, value: T) -> int:
        found = self._ids.get(value)
        if found is None:
            found = self._ids[value] = len(self.values)
            self.values.append(value)
        return found

    def find(self, value: T) -> int:
        """The id of a value, ABSENT where it was never seen."""
        return self._ids.get(value, ABSENT)

    def copied(self) -> Interner[T]:
        other: Interner[T] = Interner()
        other._ids = dict(self._ids)
        other.values = list(self.values)
        other._looked_at = self._looked_at
        return other

    def compacted(self, column: npt.NDArray[np.int32]) -> tuple[Interner[T], npt.NDArray[np.int32]] | None:
        """Another interner with just the values that ``column`` has ids of, and the column in its ids; None while at
        least half of the ids are in use. Counts them only when there are twice as many as last time."""
        if len(self.values) <= 2 * self._looked_at:
            return None
        used = np.unique(column)
        used = used[used != ABSENT]
        self._looked_at = max(len(used), _FEW_IDS)
        if len(self.values) <= 2 * self._looked_at:
            return None
        other: Interner[T] = Interner()
        other._looked_at = self._looked_at
        new_ids = np.zeros(len(self.values), np.int32)
        for value_id in used.tolist():
            value = self.values[value_id]
            assert value is not None
            new_ids[value_id] = other.intern(value)
        return other, new_ids[column]


def int64(text: str) -> int | None:
    """The text as a base-10 int64 as Go's ParseInt reads it; None where it is none."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits.lstrip("0")) > 19:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
