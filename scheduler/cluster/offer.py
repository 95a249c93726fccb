"""What is worked out once about the allocatable amounts of a resource."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class Offer:
    """What dividing by the allocatable amounts of a resource needs to know of them."""

    __slots__ = ("divisor", "is_everywhere", "largest", "node_version")

    def __init__(self, allocatable: npt.NDArray[np.int64], node_version: int) -> None:
        self.node_version = node_version
        self.divisor = np.maximum(allocatable, 1).astype(np.float64)
        """One a row; 1 where a node offers nothing."""
        self.is_everywhere = bool(allocatable.all())
        self.largest = int(allocatable.max(initial=0))
