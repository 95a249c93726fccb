"""Small ids for values that many rows share, so that a column holds ints and a question is asked once a value."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", bound=Hashable)

ABSENT = 0
"""The id of "no value"; real ids start at 1, so that a table of answers by id has a place for it."""


class Interner(Generic[T]):
    """Values to ids 1, 2, 3 ... in order of first sight; never forgets."""

    __slots__ = ("_ids", "values")

    def __init__(self) -> None:
        self._ids: dict[T, int] = {}
        self.values: list[T | None] = [None]

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


class LabelValues(Interner[str]):
    """The values of one label key, with what Gt and Lt see in them."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        super().__init__()
        self._numbers: list[int | None] = [None]

    def number(self, value_id: int) -> int | None:
        """The value as a base-10 int64 as Go's ParseInt reads it; None where it is none."""
        while len(self._numbers) < len(self.values):
            self._numbers.append(_int64(self.values[len(self._numbers)] or ""))
        return self._numbers[value_id]

    def where(self, accepts: npt.NDArray[np.bool_], column: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """``accepts`` (bool, by id) read through ``column`` (int32 ids, one a row)."""
        return accepts[column]


def _int64(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
