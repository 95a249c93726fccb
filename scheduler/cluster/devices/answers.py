"""Answers kept per node for pods that ask for the same devices."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_SHAPES = 256
MAX_KEPT = 4096
"""Different outcomes of one shape, and looks that have one, beside two for each row: an error names its device, and
nodes come and go."""
UNKNOWN = -1


class NodeAnswers:
    """Which outcome holds for each row, and for which version of the row's devices it was found."""

    __slots__ = ("codes", "late", "numbers", "of_bare", "of_signature", "outcomes", "stamp", "versions")

    def __init__(self) -> None:
        self.codes: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        self.versions: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self.outcomes: list[Any] = []
        self.numbers: dict[Any, int] = {}
        self.of_signature: dict[Hashable, int] = {}
        """Number of a look of devices → code."""
        self.of_bare: dict[Hashable, int] = {}
        """Number of a look without what is held → code, or UNKNOWN where what is held makes a difference."""
        self.late: dict[int, int] = {}
        """Rows whose search ran out of time, and the version of their devices then."""
        self.stamp: Hashable = None
        """The stamp of what all rows depend on."""

    def reset(self, stamp: Hashable) -> None:
        self.stamp = stamp
        self.versions[:] = UNKNOWN
        # Rows without a node are asked for with the others and never answered: their codes must be those of an outcome.
        self.codes[:] = 0
        self.outcomes = []
        self.numbers = {}
        self.of_signature = {}
        self.of_bare = {}
        self.late = {}

    def is_crowded(self, rows: int) -> bool:
        """Whether more is kept than questions about this number of rows need."""
        return max(len(self.outcomes), len(self.of_signature)) > MAX_KEPT + 2 * rows

    def late_row(self, versions: npt.NDArray[np.int64]) -> int | None:
        """A row on which the search ran out of time and whose devices are the same by now. ``versions``: by row."""
        late = (row for row, version in self.late.items() if row < len(versions) and int(versions[row]) == version)
        return next(late, None)

    def grow(self, size: int) -> None:
        known = len(self.codes)
        if known < size:
            self.codes = np.append(self.codes, np.zeros(size - known, np.int32))
            self.versions = np.append(self.versions, np.full(size - known, UNKNOWN, np.int64))

    def number(self, outcome: Any) -> int:
        """The code of an outcome, which must be hashable."""
        found = self.numbers.get(outcome)
        if found is None:
            found = self.numbers[outcome] = len(self.outcomes)
            self.outcomes.append(outcome)
        return found


class KeptAnswers:
    """Shape → its answers; the one used longest ago leaves first."""

    def __init__(self) -> None:
        self._by_shape: OrderedDict[Hashable, NodeAnswers] = OrderedDict()
        self._questions = 0
        """The questions under way: one that pauses, and one that is asked meanwhile."""
        self.ahead: object = None
        """What the node that a pod is about to get has for it: the plugin's own, from one question to the next."""

    def of(self, shape: Hashable) -> NodeAnswers:
        found = self._by_shape.get(shape)
        if found is None:
            found = self._by_shape[shape] = NodeAnswers()
            if len(self._by_shape) > MAX_SHAPES:
                self._by_shape.popitem(last=False)
        else:
            self._by_shape.move_to_end(shape)
        return found

    @contextmanager
    def question(self) -> Iterator[bool]:
        """Around a question, which may pause. Yields whether it is the only one: else another one has codes and numbers
        of looks in hand, none of which may be forgotten."""
        self._questions += 1
        try:
            yield self._questions == 1
        finally:
            self._questions -= 1

    def __iter__(self) -> Iterator[NodeAnswers]:
        return iter(self._by_shape.values())


class KeptNeeds:
    """Cached needs of claims, by their specs; void when a DeviceClass changes."""

    def __init__(self) -> None:
        self._version = -1
        self._by_spec: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, version: int, spec: Hashable) -> Any | None:
        """The kept value, or None. ``version`` is that of the DeviceClasses: a new one empties the cache."""
        if version != self._version:
            self._version = version
            self._by_spec.clear()
        return self._by_spec.get(spec)

    def put(self, spec: Hashable, value: Any) -> None:
        """Keep a value for the version of the last ``get``; the oldest is evicted beyond ``MAX_SHAPES``."""
        self._by_spec[spec] = value
        if len(self._by_spec) > MAX_SHAPES:
            self._by_spec.popitem(last=False)
