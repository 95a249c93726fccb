"""What is worked out once about the allocatable amounts of a resource."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class Offer:
    """What dividing by the allocatable amounts of a resource needs to know of them."""

    __slots__ = ("divisor", "is_everywhere", "largest", "version")

    def __init__(self, allocatable: npt.NDArray[np.int64], version: int) -> None:
        self.version = version
        """The table's ``allocatable_version``."""
        self.divisor = np.maximum(allocatable, 1).astype(np.float64)
        """One a row; 1 where a node offers nothing."""
        self.is_everywhere = bool(allocatable.all())
        self.largest = int(allocatable.max(initial=0))
