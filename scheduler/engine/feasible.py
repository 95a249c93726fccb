"""The feasible rows of a scheduling cycle."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from scheduler.framework.classes.nominated_overlay import NO_REFUSALS, RowRefusals
from scheduler.messages.status import Refusal


class Feasible(msgspec.Struct, eq=False):
    """The rows that are still feasible, and the refusals of the others."""

    rows: npt.NDArray[np.int64]
    is_whole_class: bool
    """Whether these are exactly the rows on which the class fits: then its cached totals are valid."""
    beside_nominated: RowRefusals = NO_REFUSALS
    """Refusals of the rows that refuse the pod beside those nominated there. They precede the class's, ..."""
    refusals: dict[int, Refusal] = msgspec.field(default_factory=dict)
    """... and so do these, of extenders: signed, by row."""
    rejectors: frozenset[str] = frozenset()
