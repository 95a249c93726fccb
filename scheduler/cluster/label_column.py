"""The values that nodes have for one label key, by id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from scheduler.cluster.interning import ABSENT, int64
from scheduler.cluster.longer import longer

Ids = npt.NDArray[np.int32]

_BYTES_PER_VALUE = 150
"""Bytes of a value's places in a list, in a dict and in two arrays; the text itself is the node's."""
_UNUSED_TEXTS = 64
"""Texts that no node has any more, beyond as many as nodes have, from which on a column is made again."""


class _Texts:
    """The values of a key, numbered in the order in which they came. None is ever taken out or numbered again, so that
    all columns of the key share this, those of forks too."""

    __slots__ = ("_are_numbers", "_numbers", "all", "number_of")

    def __init__(self, distinct: Iterable[str]) -> None:
        self.all = list(distinct)
        self.number_of = {text: number for number, text in enumerate(self.all)}
        self._numbers: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._are_numbers: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)

    def add(self, text: str) -> int:
        """The number of a text."""
        number = self.number_of.get(text)
        if number is None:
            number = self.number_of[text] = len(self.all)
            self.all.append(text)
        return number

    def as_integers(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Each text as a base-10 int64, as Go's ParseInt reads it, 0 where it is none; and whether it is one."""
        read = [int64(text) for text in self.all[len(self._numbers) :]]
        if read:
            self._numbers = np.append(self._numbers, np.array([number or 0 for number in read], np.int64))
            self._are_numbers = np.append(self._are_numbers, [number is not None for number in read])
        return self._numbers, self._are_numbers


class LabelColumn:
    """The values that nodes have for one label key. Immutable but for what it remembers of its values.

    Ids are given in the order of the rows; each stands for a number among the key's texts."""

    __slots__ = ("_id_of", "_integers", "_rows_by_id", "_text_of", "_texts", "ids", "is_unique", "nbytes", "was_asked")

    def __init__(self, ids: Ids, texts: _Texts, text_of: npt.NDArray[np.int64]) -> None:
        self.ids = ids
        """The id of each row's value, ABSENT where a node lacks the key."""
        self._texts = texts
        self._text_of = text_of
        """By id, the number of its text; the entry of ABSENT is no number."""
        self._id_of: npt.NDArray[np.int64] | None = None
        """By the number of a text, its id; ABSENT where no node has it."""
        self._integers: tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]] | None = None
        self._rows_by_id: tuple[Ids, list[int]] | None = None
        """The rows in the order of their values, and where those of each value end."""
        self.is_unique = int(np.count_nonzero(ids)) == len(text_of) - 1
        """Whether no two nodes share a value."""
        self._weigh()

    @classmethod
    def of(cls, ids: Ids, values: Iterable[str]) -> LabelColumn:
        """A column with these ids. ``values``: by id, from 1 on."""
        texts = _Texts(values)
        return cls(ids, texts, np.arange(-1, len(texts.all)))

    def __len__(self) -> int:
        """How many ids there are, ABSENT included: the length of a table by id."""
        return len(self._text_of)

    def value(self, value_id: int) -> str | None:
        """The value of an id; None for ABSENT."""
        return None if value_id == ABSENT else self._texts.all[self._text_of.item(value_id)]

    def find(self, value: str) -> int:
        """The id of a value, ABSENT where no node has it."""
        number = self._texts.number_of.get(value)
        if number is None:
            return ABSENT
        if self._id_of is None:
            self._id_of = np.full(len(self._texts.all), ABSENT, np.int64)
            self._id_of[self._text_of[1:]] = np.arange(1, len(self))
        # A value with a later number was added by another column: no node has it here.
        return self._id_of.item(number) if number < len(self._id_of) else ABSENT

    def number(self, value_id: int) -> int | None:
        """The value as a base-10 int64 as Go's ParseInt reads it; None where it is none."""
        numbers, are_numbers = self.numbers
        return numbers.item(value_id) if are_numbers.item(value_id) else None

    @property
    def numbers(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """What ``number`` says of each value, by id, 0 for None; and whether it is a number."""
        if self._integers is None:
            numbers, are_numbers = self._texts.as_integers()
            of_values = self._text_of[1:]
            self._integers = np.append(0, numbers[of_values]), np.append(False, are_numbers[of_values])
        return self._integers

    def rows_with(self, value_id: int) -> Ids:
        """The rows that have a value, ascending; not for ABSENT, which rows have that are not used yet."""
        if self._rows_by_id is None:
            ends: list[int] = np.cumsum(np.bincount(self.ids, minlength=len(self))).tolist()
            self._rows_by_id = np.argsort(self.ids, kind="stable").astype(np.int32), ends
        rows, ends_by_id = self._rows_by_id
        return rows[ends_by_id[value_id - 1] : ends_by_id[value_id]]

    def of_rows(self, rows: npt.NDArray[np.int64]) -> LabelColumn:
        """The same ids for some of the rows."""
        return self._with_ids(self.ids[rows])

    def grown(self, capacity: int) -> LabelColumn:
        """The same with room for more rows, which lack the key."""
        return self._with_ids(longer(self.ids, max(capacity, len(self.ids))))

    def changed(self, values: Mapping[int, str | None], capacity: int) -> LabelColumn | None:
        """The same but for the values of some rows; None where most of the key's texts are no node's any more. Ids are
        those that a column made from the labels has."""
        ids = longer(self.ids, max(capacity, len(self.ids)))
        added: dict[int, int] = {}
        for row, value in values.items():
            value_id = ABSENT if value is None else self.find(value)
            if value_id == ABSENT and value is not None:
                value_id = added.setdefault(self._texts.add(value), len(self) + len(added))
            ids[row] = value_id
        text_of = np.append(self._text_of, list(added)).astype(np.int64) if added else self._text_of
        first_row = np.full(len(text_of), len(ids))
        np.minimum.at(first_row, ids, np.arange(len(ids)))
        first_row[ABSENT] = -1
        in_order = np.argsort(first_row, kind="stable")
        used = int(np.count_nonzero(first_row < len(ids)))
        if len(self._texts.all) > 2 * used + _UNUSED_TEXTS:
            return None
        renumbered = np.empty(len(text_of), np.int32)
        renumbered[in_order] = np.arange(len(text_of))
        return LabelColumn(renumbered[ids], self._texts, text_of[in_order[:used]])

    def equals(self, other: LabelColumn) -> bool:
        """Whether both have the same values with the same ids on the same rows."""
        values = list(map(self.value, range(len(self))))
        found = [self.find(value) for value in values if value is not None]
        return (
            values == list(map(other.value, range(len(other))))
            and found == list(range(1, len(self)))
            and np.array_equal(self.ids, other.ids)
        )

    def _with_ids(self, ids: Ids) -> LabelColumn:
        other = LabelColumn.__new__(LabelColumn)
        other.ids = ids
        other._texts, other._text_of, other._id_of = self._texts, self._text_of, self._id_of
        other._integers, other._rows_by_id, other.is_unique = self._integers, None, self.is_unique
        other._weigh()
        return other

    def _weigh(self) -> None:
        # Twice the ids: ``rows_with``, once asked, keeps as much again.
        self.nbytes = 2 * self.ids.nbytes + _BYTES_PER_VALUE * len(self._texts.all)
        self.was_asked = True
