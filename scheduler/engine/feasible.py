"""The rows that are left while a scheduling cycle narrows the nodes down."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from scheduler.messages.status import Refusal


class Feasible(msgspec.Struct, eq=False):
    """The rows that are left, and how they came to be so few."""

    rows: npt.NDArray[np.int64]
    is_whole_class: bool
    """They are exactly the rows on which the class fits: its kept totals hold."""
    refusals: dict[int, Refusal] = msgspec.field(default_factory=dict)
    """Signed refusals of this pod alone, by row: nominated pods, extenders. They come before the class's."""
    rejectors: frozenset[str] = frozenset()
