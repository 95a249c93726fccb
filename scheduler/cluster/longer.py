"""Columns, arrays with one entry a row, for more rows."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Item = TypeVar("Item", bound=np.generic)


def longer(column: npt.NDArray[Item], size: int, filler: int = 0) -> npt.NDArray[Item]:
    """A copy with ``size`` entries, which are not fewer; the new ones are ``filler``."""
    grown = np.full(size, filler, column.dtype)
    grown[: len(column)] = column
    return grown
