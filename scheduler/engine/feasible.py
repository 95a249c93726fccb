"""The feasible rows of a scheduling cycle."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from scheduler.messages.status import Refusal


class Feasible(msgspec.Struct, eq=False):
    """The rows that are still feasible, and the refusals of the others."""

    rows: npt.NDArray[np.int64]
    is_whole_class: bool
    """Whether these are exactly the rows on which the class fits: then its cached totals are valid."""
    refusals: dict[int, Refusal] = msgspec.field(default_factory=dict)
    """Signed refusals of this pod only, by row: nominated pods, extenders. They precede the class's."""
    rejectors: frozenset[str] = frozenset()
