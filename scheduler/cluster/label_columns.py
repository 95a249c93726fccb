"""Node labels by key: which nodes have a key, and for the keys that are asked about a column of value ids.

Of every key only the rows that have it are kept while these are few, else their number. A column is made when its key
is asked for, from the labels themselves; it never changes: what changes a label of the key drops it. Ids of values are
given in the order of the rows, so the same nodes have the same ids, however often a column was dropped and made.

At most MAX_BYTES of columns are kept; beyond that they are made each time (0.5 ms for 5,000 nodes that all have the
key). Keys that no node has cost nothing, keys that few nodes have are never looked for in the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat

import numpy as np
import numpy.typing as npt

from scheduler.cluster.forkable import ForkableDict
from scheduler.cluster.interning import ABSENT, int64

Ids = npt.NDArray[np.int32]
Labels = Mapping[str, str]

MAX_BYTES = 32 * 2**20
"""Of kept columns: some 45 keys that tell 5,000 nodes apart, or 800 keys of few values."""
MAX_NARROW_ROWS = 16
"""Rows with a key that are listed one by one."""
_BYTES_PER_VALUE = 130
"""A place in a list and in a dict; the text itself is the node's."""

_NO_LABELS: dict[str, str] = {}


class LabelColumn:
    """The values that nodes have for one label key. Immutable but for what it remembers of its values."""

    __slots__ = ("_id_of", "_numbers", "_rows_by_id", "ids", "is_unique", "nbytes", "values", "was_asked")

    def __init__(self, ids: Ids, values: list[str | None]) -> None:
        self.ids = ids
        """Of the value of each row, ABSENT where a node lacks the key."""
        self.values = values
        """By id; ABSENT's is None."""
        self._id_of = {value: number for number, value in enumerate(values) if value is not None}
        self._numbers: tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]] | None = None
        self._rows_by_id: tuple[Ids, list[int]] | None = None
        """The rows in the order of their values, and where those of each value end."""
        self.is_unique = int(np.count_nonzero(ids)) == len(values) - 1
        """No two nodes share a value."""
        self._weigh()

    def __len__(self) -> int:
        """How many ids there are, ABSENT included: the length of a table by id."""
        return len(self.values)

    def find(self, value: str) -> int:
        """The id of a value, ABSENT where no node has it."""
        return self._id_of.get(value, ABSENT)

    def number(self, value_id: int) -> int | None:
        """The value as a base-10 int64 as Go's ParseInt reads it; None where it is none."""
        numbers, are_numbers = self.numbers
        return numbers.item(value_id) if are_numbers.item(value_id) else None

    @property
    def numbers(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """By value id: what ``number`` says, 0 for None, and whether it is a number."""
        if self._numbers is None:
            read = [int64(value or "") for value in self.values]
            self._numbers = (
                np.array([number or 0 for number in read], np.int64),
                np.array([number is not None for number in read], np.bool_),
            )
        return self._numbers

    def rows_with(self, value_id: int) -> Ids:
        """The rows that have a value, ascending; not for ABSENT, which rows have that are not used yet."""
        if self._rows_by_id is None:
            ends: list[int] = np.cumsum(np.bincount(self.ids, minlength=len(self.values))).tolist()
            self._rows_by_id = np.argsort(self.ids, kind="stable").astype(np.int32), ends
        rows, ends_by_id = self._rows_by_id
        return rows[ends_by_id[value_id - 1] : ends_by_id[value_id]]

    def of_rows(self, rows: npt.NDArray[np.int64]) -> LabelColumn:
        """The same ids for some of the rows."""
        other = LabelColumn.__new__(LabelColumn)
        other.ids = self.ids[rows]
        other._take_values(self)
        return other

    def grown(self, capacity: int) -> LabelColumn:
        """The same with room for more rows, which lack the key."""
        ids = np.zeros(capacity, np.int32)
        ids[: len(self.ids)] = self.ids
        other = LabelColumn.__new__(LabelColumn)
        other.ids = ids
        other._take_values(self)
        return other

    def _take_values(self, other: LabelColumn) -> None:
        self.values, self._id_of, self._numbers = other.values, other._id_of, other._numbers
        self._rows_by_id, self.is_unique = None, other.is_unique
        self._weigh()

    def _weigh(self) -> None:
        # With what ``rows_with`` keeps, if it is asked.
        self.nbytes = 2 * self.ids.nbytes + _BYTES_PER_VALUE * len(self.values)
        self.was_asked = True


_NO_ROWS = LabelColumn(np.zeros(0, np.int32), [None])


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
        self._bytes = 0
        self._absent = _NO_ROWS

    def put(self, row: int, labels: Labels) -> None:
        """The node of a row has these labels now."""
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
                self._drop(key)

    def drop(self, row: int) -> None:
        """The row has no node any more."""
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
        if column is not None and len(column.ids) >= capacity:
            column.was_asked = True
            return column
        rows = self.narrow_rows(key)
        if rows == ():
            if len(self._absent.ids) < capacity:
                self._absent = LabelColumn(np.zeros(capacity, np.int32), [None])
            return self._absent
        if column is not None:
            self._drop(key)
            column = column.grown(capacity)
        else:
            column = self._made(key, rows, capacity)
        self._keep(key, column)
        return column

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
        other._bytes = self._bytes
        other._absent = self._absent
        return other

    @property
    def nbytes(self) -> int:
        """Of the kept columns."""
        return self._bytes

    def check(self, labels: Sequence[Labels | None]) -> bool:
        """Whether rows and columns are as these labels, one a row, say."""
        for row, expected in enumerate(labels):
            found = self._labels[row] if row < len(self._labels) else _NO_LABELS
            if found != (expected or _NO_LABELS):
                return False
        for key, column in self._columns.items():
            made = self._made(key, None, len(column.ids))
            # One that has not been asked for since the table grew is short of the new rows, which lack its key.
            if made.values != column.values or not np.array_equal(made.ids, column.grown(len(made.ids)).ids):
                return False
        counts = Counter([key for each in self._labels for key in each])
        narrow = {key: len(rows) for key, rows in self._rows_of.items()}
        return narrow | self._wide == counts and not narrow.keys() & self._wide.keys()

    def _join(self, key: str, row: int) -> None:
        """A key that is not wide has come to the row."""
        rows: tuple[int, ...] = self._rows_of.get(key, ())
        if len(rows) < MAX_NARROW_ROWS:
            self._rows_of[key] = tuple(sorted((*rows, row)))
        else:
            del self._rows_of[key]
            self._wide[key] = len(rows) + 1

    def _leave(self, key: str, row: int) -> None:
        self._drop(key)
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

    def _drop(self, key: str) -> None:
        column = self._columns.pop(key, None)
        if column is not None:
            self._bytes -= column.nbytes

    def _made(self, key: str, rows: tuple[int, ...] | None, capacity: int) -> LabelColumn:
        """``rows``: those that have the key; None where all of them are to be looked at."""
        ids = np.zeros(max(capacity, len(self._labels)), np.int32)
        if rows is not None:
            narrow = [self._labels[row][key] for row in rows]
            values: list[str | None] = [None, *dict.fromkeys(narrow)]
            id_of = {value: number for number, value in enumerate(values)}
            for row, value in zip(rows, narrow, strict=True):
                ids[row] = id_of[value]
            return LabelColumn(ids, values)
        wide = list(map(dict.get, self._labels, repeat(key)))  # type: ignore[arg-type]
        distinct = dict.fromkeys(wide)
        distinct.pop(None, None)
        values = [None, *distinct]
        id_of = {value: number for number, value in enumerate(values)}
        ids[: len(wide)] = np.fromiter(map(id_of.__getitem__, wide), np.int32, len(wide))
        return LabelColumn(ids, values)

    def _keep(self, key: str, column: LabelColumn) -> None:
        if column.nbytes > MAX_BYTES:
            return
        while self._bytes + column.nbytes > MAX_BYTES:
            first = next(iter(self._columns))
            looked_at = self._columns.pop(first)
            if looked_at.was_asked:
                # Asked for since it was looked at last: it stays another round.
                looked_at.was_asked = False
                self._columns[first] = looked_at
            else:
                self._bytes -= looked_at.nbytes
        column.was_asked = False
        self._columns[key] = column
        self._bytes += column.nbytes


class _Taken(LabelColumns):
    """Of a few rows of another's, which stays as it is while this is used."""

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
