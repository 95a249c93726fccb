"""Node labels by key: which nodes have a key, and for the keys that are asked about a column of value ids.

Of every key only the rows that have it are kept while these are few, else their number. A column is made when its key
is asked for, from the labels themselves or, where the label of some rows has changed, from the column before. Ids of
values are given in the order of the rows, so the same nodes have the same ids, however often a column was made.

At most MAX_BYTES of columns are kept, or MAX_BYTES_A_NODE for each node where that is more; beyond that they are made
each time (0.5 ms for 5,000 nodes that all have the key, 50 to 100 ms for 100,000). Keys that no node has cost nothing,
keys that few nodes have are never looked for in the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import repeat

import numpy as np

from scheduler.cluster.forkable import ForkableDict
from scheduler.cluster.label_column import LabelColumn

Labels = Mapping[str, str]

MAX_BYTES = 32 * 2**20
"""Bytes of kept columns: some 40 keys whose values differ on all of 5,000 nodes, or hundreds of keys with few
values."""
MAX_BYTES_A_NODE = 1_600
"""Bytes of kept columns for each node, where that is more: ten keys whose values differ on all nodes, 160 MB with
100,000 nodes. If columns are asked for in turn, a limit without room for the last of them keeps none."""
MAX_NARROW_ROWS = 16
"""Rows that are listed one by one, for a key that no more rows have."""

_NO_LABELS: dict[str, str] = {}


_EMPTY_COLUMN = LabelColumn.of(np.zeros(0, np.int32), ())


class LabelColumns:
    """The labels of the rows of a table."""

    def __init__(self) -> None:
        self._labels: list[Labels] = []
        """One a row; rows without a node have none."""
        self._rows_of: ForkableDict[str, tuple[int, ...]] = ForkableDict()
        """Key → the rows that have it, ascending, of the keys that few rows have."""
        self._wide: dict[str, int] = {}
        """Key → how many rows have it, of the others: those that more had at some time. Copied by a fork, as the list
        of labels is: each stands for many rows."""
        self._columns: dict[str, LabelColumn] = {}
        """In the order in which they are looked at when room is needed."""
        self._changed: dict[str, dict[int, None]] = {}
        """Key → the rows whose label has changed since its column was made."""
        self._bytes = 0
        self._absent = _EMPTY_COLUMN

    def put(self, row: int, labels: Labels) -> None:
        """Note that the node of a row has these labels now."""
        while len(self._labels) <= row:
            self._labels.append(_NO_LABELS)
        before = self._labels[row]
        if before == labels:
            return
        self._labels[row] = labels
        for key in before:
            if key not in labels:
                self._leave(key, row)
        wide, columns = self._wide, self._columns
        for key, value in labels.items():
            known = before.get(key)
            if known is None:
                if key in wide:
                    wide[key] += 1
                else:
                    self._join(key, row)
            if known != value and key in columns:
                self._note_change(key, row)

    def drop(self, row: int) -> None:
        """Note that the row has no node any more."""
        self.put(row, _NO_LABELS)

    def narrow_rows(self, key: str) -> tuple[int, ...] | None:
        """The rows that have the key, where they are few; None where they are many."""
        if key in self._wide:
            return None
        rows: tuple[int, ...] = self._rows_of.get(key, ())
        return rows

    def column(self, key: str, capacity: int) -> LabelColumn:
        """The column of a key, with room for ``capacity`` rows at least."""
        column = self._columns.get(key)
        if column is not None and len(column.ids) >= capacity and key not in self._changed:
            column.was_asked = True
            return column
        rows, changed = self.narrow_rows(key), self._changed.get(key)
        if column is not None:
            self._drop(key)
        if rows == ():
            if len(self._absent.ids) < capacity:
                self._absent = LabelColumn.of(np.zeros(capacity, np.int32), ())
            return self._absent
        newer = None if column is None else self._renewed(key, column, changed, capacity)
        if newer is None:
            newer = self._made(key, rows, capacity)
        self._keep(key, newer)
        return newer

    def taken(self, rows: Sequence[int]) -> LabelColumns:
        """The labels of these rows, as rows 0, 1, ..., with the same ids, for as long as nothing changes here."""
        return _Taken(self, rows)

    def fork(self) -> LabelColumns:
        """The same labels; neither side sees what the other changes from now on."""
        return self._with(self._rows_of.fork())

    def copied(self) -> LabelColumns:
        """As ``fork``, with no layer over this one's maps: for what is copied again and again."""
        return self._with(self._rows_of.copied())

    def _with(self, rows_of: ForkableDict[str, tuple[int, ...]]) -> LabelColumns:
        other = LabelColumns()
        other._labels = self._labels[:]
        other._wide = dict(self._wide)
        other._rows_of = rows_of
        other._columns = dict(self._columns)
        other._changed = {key: dict(rows) for key, rows in self._changed.items()}
        other._bytes = self._bytes
        other._absent = self._absent
        return other

    @property
    def nbytes(self) -> int:
        """The size in bytes of the kept columns."""
        return self._bytes

    def check(self, labels: Sequence[Labels | None]) -> bool:
        """Whether rows and columns agree with these labels, one a row."""
        for row, expected in enumerate(labels):
            found = self._labels[row] if row < len(self._labels) else _NO_LABELS
            if found != (expected or _NO_LABELS):
                return False
        for key, kept in self._columns.items():
            column = self._renewed(key, kept, self._changed.get(key), 0)
            if column is not None and not column.equals(self._made(key, None, len(column.ids))):
                return False
        counts = Counter([key for each in self._labels for key in each])
        narrow = {key: len(rows) for key, rows in self._rows_of.items()}
        return narrow | self._wide == counts and not narrow.keys() & self._wide.keys()

    def _join(self, key: str, row: int) -> None:
        """Note that the row has a key that is not wide."""
        rows: tuple[int, ...] = self._rows_of.get(key, ())
        if len(rows) < MAX_NARROW_ROWS:
            self._rows_of[key] = tuple(sorted((*rows, row)))
        else:
            del self._rows_of[key]
            self._wide[key] = len(rows) + 1

    def _leave(self, key: str, row: int) -> None:
        if key in self._columns:
            self._note_change(key, row)
        if key in self._wide:
            self._wide[key] -= 1
            if not self._wide[key]:
                del self._wide[key]
            return
        left = tuple([other for other in self._rows_of[key] if other != row])
        if left:
            self._rows_of[key] = left
        else:
            del self._rows_of[key]

    def _note_change(self, key: str, row: int) -> None:
        changed = self._changed.setdefault(key, {})
        changed[row] = None
        if 2 * len(changed) > len(self._labels):
            # To look at all rows is no more work than to look at most of them.
            self._drop(key)

    def _drop(self, key: str) -> None:
        self._changed.pop(key, None)
        column = self._columns.pop(key, None)
        if column is not None:
            self._bytes -= column.nbytes

    def _renewed(
        self, key: str, column: LabelColumn, changed: Collection[int] | None, capacity: int
    ) -> LabelColumn | None:
        """The column with room for more rows and with their labels of now; None where it is to be made again."""
        capacity = max(capacity, len(self._labels))
        if not changed:
            return column.grown(capacity)
        return column.changed({row: self._labels[row].get(key) for row in changed}, capacity)

    def _made(self, key: str, rows: tuple[int, ...] | None, capacity: int) -> LabelColumn:
        """``rows``: those that have the key; None where all of them are to be looked at."""
        ids = np.zeros(max(capacity, len(self._labels)), np.int32)
        if rows is not None:
            narrow = [self._labels[row][key] for row in rows]
            id_of = {value: number for number, value in enumerate(dict.fromkeys(narrow), start=1)}
            for row, value in zip(rows, narrow, strict=True):
                ids[row] = id_of[value]
            return LabelColumn.of(ids, id_of)
        wide: list[str | None] = list(map(dict.get, self._labels, repeat(key)))  # type: ignore[arg-type]
        distinct = [value for value in dict.fromkeys(wide) if value is not None]
        numbers: dict[str | None, int] = {value: number for number, value in enumerate([None, *distinct])}
        ids[: len(wide)] = np.fromiter(map(numbers.__getitem__, wide), np.int32, len(wide))
        return LabelColumn.of(ids, distinct)

    def _keep(self, key: str, column: LabelColumn) -> None:
        limit = max(MAX_BYTES, MAX_BYTES_A_NODE * len(self._labels))
        if column.nbytes > limit:
            return
        while self._bytes + column.nbytes > limit:
            first = next(iter(self._columns))
            looked_at = self._columns.pop(first)
            if looked_at.was_asked:
                # Asked for since it was looked at last: it stays another round.
                looked_at.was_asked = False
                self._columns[first] = looked_at
            else:
                self._changed.pop(first, None)
                self._bytes -= looked_at.nbytes
        column.was_asked = False
        self._columns[key] = column
        self._bytes += column.nbytes


class _Taken(LabelColumns):
    """The labels of a few rows of another one, which does not change while this is used."""

    def __init__(self, source: LabelColumns, rows: Sequence[int]) -> None:
        super().__init__()
        self._source = source
        self._listed = rows

    def narrow_rows(self, key: str) -> tuple[int, ...] | None:
        """No rows where no node has the key; else they are looked at one and all."""
        return () if self._source.narrow_rows(key) == () else None

    def column(self, key: str, capacity: int) -> LabelColumn:
        column = self._columns.get(key)
        if column is None:
            rows = np.array(self._listed, np.int64)
            column = self._source.column(key, int(rows.max(initial=-1)) + 1).of_rows(rows)
            self._columns[key] = column
        return column if len(column.ids) >= capacity else column.grown(capacity)
