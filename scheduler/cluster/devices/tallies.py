"""How many devices of a class each node can reach, and how many of them are held: what scores of mapped resources use.

Completeness, generations and taints of pools play no part (docs/kube-scheduler/dra.md §13).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

import numpy as np
import numpy.typing as npt

from scheduler.cluster.devices.answers import MAX_SHAPES, UNKNOWN

Column = npt.NDArray[np.int64]


class Tally:
    """The devices of a class that each row can reach, and those that are held. ``versions``: of the row's devices when
    they were counted."""

    __slots__ = ("held", "stamp", "totals", "versions")

    def __init__(self) -> None:
        self.stamp: Hashable = None
        self.totals: Column = np.zeros(0, np.int64)
        self.held: Column = np.zeros(0, np.int64)
        self.versions: Column = np.zeros(0, np.int64)

    def update(self, stamp: Hashable, versions: Column, count: Callable[[int], tuple[int, int]]) -> None:
        """Count again on rows whose version is another one; on all with another ``stamp``."""
        size = len(versions)
        if self.stamp != stamp or len(self.versions) != size:
            self.stamp = stamp
            self.totals, self.held = np.zeros(size, np.int64), np.zeros(size, np.int64)
            self.versions = np.full(size, UNKNOWN, np.int64)
        for row in np.flatnonzero(self.versions != versions).tolist():
            self.totals[row], self.held[row] = count(row)
        self.versions = versions.copy()


class KeptTallies:
    """Class → its tally; the one used longest ago leaves first."""

    def __init__(self) -> None:
        self._by_class: OrderedDict[str, Tally] = OrderedDict()

    def of(self, device_class: str) -> Tally:
        found = self._by_class.setdefault(device_class, Tally())
        self._by_class.move_to_end(device_class)
        if len(self._by_class) > MAX_SHAPES:
            self._by_class.popitem(last=False)
        return found
