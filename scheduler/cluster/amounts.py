"""Amounts of extended and other scalar resources: by name and row, of nodes or of the pods on them.

A resource that few rows have is kept sparsely: a cluster where each node has a resource of its own costs a small map a
resource. One that a pod of ours asks about gets a column, of which at most MAX_ASKED_BYTES are kept; then the first
asked goes back to its sparse form, from which the same answer is made each time. Amounts of 0 are not kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scheduler.cluster.forkable import ForkableDict
from scheduler.cluster.row_counts import RowCounts
from scheduler.objects.quantity import MAX_INT64, MIN_INT64

Column = npt.NDArray[np.int64]

MAX_ASKED_BYTES = 8 * 2**20
"""Bytes of columns that are kept because they were asked for: 128 resources on 8,192 rows. Making a column from at most
64 rows takes 4 µs; a cycle asks for each resource of its pod some four times."""

_TURN = 2**64
"""The modulus of int64 arithmetic."""


class Amounts:
    """int64 by name and row, 0 where nothing was added."""

    def __init__(self) -> None:
        self._by_name: ForkableDict[str, RowCounts] = ForkableDict()
        self._asked: dict[str, int] = {}
        """Names whose sparse amounts have a column because they were asked for → its bytes; first asked first."""
        self._asked_bytes = 0
        self._zeros = _NO_ZEROS

    @property
    def names(self) -> list[str]:
        """The resources that some row has."""
        return list(self._by_name)

    def add(self, name: str, row: int, amount: int) -> None:
        """Add to the amount of one row, which may be negative. Sums wrap around as int64 in Go."""
        if not amount:
            return
        if name in self._by_name:
            counts = self._by_name.writable(name, RowCounts.copy)
        else:
            counts = self._by_name[name] = RowCounts(is_wide=True)
        total = counts.at(row) + amount
        if not MIN_INT64 <= total <= MAX_INT64:
            # The sum of what several pods ask for begins again at the other end, as in kube-scheduler 1.36.
            amount += _TURN if total < 0 else -_TURN
        if not counts.add(row, amount) and counts.is_zero:
            del self._by_name[name]
            self._asked_bytes -= self._asked.pop(name, 0)

    def __contains__(self, name: str) -> bool:
        """Whether any row has some of it."""
        return name in self._by_name

    def put(self, name: str, row: int, amount: int) -> None:
        """Set the amount of one row."""
        self.add(name, row, amount - self.at(name, row))

    def at(self, name: str, row: int) -> int:
        counts: RowCounts | None = self._by_name.get(name)
        return 0 if counts is None else counts.at(row)

    def column(self, name: str, size: int) -> Column:
        """One amount a row: int64, ``size`` long, read-only. It may go on changing: use it at once."""
        counts: RowCounts | None = self._by_name.get(name)
        if counts is None:
            if len(self._zeros) != size:
                self._zeros = _zeros(size)
            return self._zeros
        if not counts.is_dense:
            self._make_dense(name, size)
            counts = self._by_name[name]
        return counts.array(size)

    def taken(self, rows: Sequence[int]) -> Amounts:
        """The amounts of these rows, as rows 0, 1, ..., looked up here when a resource is first asked for."""
        return _Taken(self, rows)

    def fork(self) -> Amounts:
        other = Amounts()
        other._by_name = self._by_name.fork()
        other._asked = dict(self._asked)
        other._asked_bytes = self._asked_bytes
        return other

    def _make_dense(self, name: str, size: int) -> None:
        nbytes = self._by_name.writable(name, RowCounts.copy).make_dense(size)
        while self._asked and self._asked_bytes + nbytes > MAX_ASKED_BYTES:
            first = next(iter(self._asked))
            self._asked_bytes -= self._asked.pop(first)
            self._by_name.writable(first, RowCounts.copy).make_sparse()
        self._asked[name] = nbytes
        self._asked_bytes += nbytes


class _Taken(Amounts):
    """The amounts of a few rows of a larger table, which does not change while this is used."""

    def __init__(self, source: Amounts, rows: Sequence[int]) -> None:
        super().__init__()
        self._source = source
        self._rows = rows
        self._known: set[str] = set()

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys([*self._source.names, *self._by_name]))

    def add(self, name: str, row: int, amount: int) -> None:
        self._look_up(name)
        super().add(name, row, amount)

    def __contains__(self, name: str) -> bool:
        self._look_up(name)
        return super().__contains__(name)

    def at(self, name: str, row: int) -> int:
        self._look_up(name)
        return super().at(name, row)

    def column(self, name: str, size: int) -> Column:
        self._look_up(name)
        return super().column(name, size)

    def _look_up(self, name: str) -> None:
        if name not in self._known:
            self._known.add(name)
            for place, row in enumerate(self._rows):
                super().add(name, place, self._source.at(name, row))


def _zeros(size: int) -> Column:
    zeros = np.zeros(size, np.int64)
    zeros.flags.writeable = False
    return zeros


_NO_ZEROS = _zeros(0)
