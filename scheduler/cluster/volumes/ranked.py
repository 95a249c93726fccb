"""Things of a size that only some rows reach, in the order in which they are chosen: by size, then by name."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.label_column import LabelColumn
from scheduler.cluster.label_columns import LabelColumns
from scheduler.cluster.node_matching import NEEDS_LABEL, matches_requirement
from scheduler.cluster.table import NodeTable
from scheduler.cluster.volumes.reach import NO_RANK, Column, Reach, Term
from scheduler.objects.selectors import Selector

Mask = npt.NDArray[np.bool_]


MAX_PAIRS = 2**20
"""Maximum of (row, thing that reaches it) pairs evaluated at once: some 24 MiB of arrays."""


class Wish(Struct, frozen=True, eq=False):
    """What one chooser would take; several choose one after the other."""

    ranks: Column
    """By slot, as of ``RankedThings.ranks``."""
    rows: Mask | None = None
    """By row, whether it chooses on it; None: on every row."""


class RankedThings:
    """Each has a *slot*, a small number from 1 on, and a *rank*, its place in the order, which changes with the others.

    Sizes are of any magnitude: they are compared as Python's ints, and ranks stand for them in the arrays.
    """

    __slots__ = ("_free", "_order", "_reach", "_slots", "_slots_in_order", "names", "version")

    def __init__(self) -> None:
        self.names: list[str] = [""]
        """By slot; "" where it is free."""
        self.version = 0
        """Grows with every change."""
        self._free: list[int] = []
        self._slots: dict[str, tuple[int, int]] = {}
        """Name → size and slot."""
        self._order: list[tuple[int, str]] = []
        self._slots_in_order: Column | None = None
        """By rank; None until first asked. Another array after each change, so copies share it."""
        self._reach = Reach()

    def __len__(self) -> int:
        return len(self._slots)

    def copied(self) -> RankedThings:
        other = RankedThings()
        other.names = list(self.names)
        other.version = self.version
        other._free = list(self._free)
        other._slots = dict(self._slots)
        other._order = list(self._order)
        other._slots_in_order = self._slots_in_order
        other._reach = self._reach.copied()
        return other

    def put(self, name: str, size: int, terms: Iterable[Term]) -> int:
        """Returns the slot. ``terms``: what the labels of the rows that reach it meet one of. The name must be new."""
        if self._free:
            slot = self._free.pop()
            self.names[slot] = name
        else:
            slot = len(self.names)
            self.names.append(name)
        self._slots[name] = size, slot
        rank = bisect_left(self._order, (size, name))
        self._order.insert(rank, (size, name))
        if self._slots_in_order is not None:
            self._slots_in_order = np.insert(self._slots_in_order, rank, slot)
        self._reach.put(slot, terms)
        self.version += 1
        return slot

    def drop(self, name: str) -> None:
        """Nothing happens where there is no such thing."""
        known = self._slots.pop(name, None)
        if known is None:
            return
        size, slot = known
        rank = bisect_left(self._order, (size, name))
        del self._order[rank]
        if self._slots_in_order is not None:
            self._slots_in_order = np.delete(self._slots_in_order, rank)
        self._reach.drop(slot)
        self.names[slot] = ""
        self._free.append(slot)
        self.version += 1

    def ranks(self, size: int, accepts: Callable[[Column], Mask] | None = None) -> Column:
        """The ranks, by slot, of things of at least this size: int64, NO_RANK for the others. ``accepts``: which of
        these slots will do otherwise: bool, one each."""
        slots = self._slots_in_order
        if slots is None:
            slots = self._slots_in_order = np.array([self._slots[name][1] for _, name in self._order], np.int64)
        first = bisect_left(self._order, (size, ""))
        large, ranks = slots[first:], np.arange(first, len(slots))
        if accepts is not None:
            accepted = accepts(large)
            large, ranks = large[accepted], ranks[accepted]
        by_slot = np.full(len(self.names), NO_RANK, np.int64)
        by_slot[large] = ranks
        return by_slot

    def least(self, table: NodeTable, ranks: Column) -> Column:
        """The smallest of the ranks (by slot) that reach each row; NO_RANK where there is none."""
        return self._reach.least(table, ranks)

    def given(self, table: NodeTable, wishes: Sequence[Wish], max_pairs: int = MAX_PAIRS) -> Iterator[Column]:
        """For one wish after the other, by row the smallest of its ranks that reaches the row and that no earlier wish
        got there; NO_RANK where there is none.

        Worked out once for rows that are alike. Costs time by the number of wishes times that of the things.
        """
        rows, numbers = self._distinguished(table, wishes)
        given = np.full((len(wishes), len(rows)), NO_RANK, np.int64)
        parts = 1 + self._reach.number_reaching(table, rows) // max_pairs
        step = max(1, -(-len(rows) // parts))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            _give(wishes, part, *self._reach.reaching(table, part), given[:, start : start + step])
        for column in given:
            yield column[numbers]

    def _distinguished(self, table: NodeTable, wishes: Sequence[Wish]) -> tuple[Column, Column]:
        """One row of each sort that the same things reach and that the same wishes are about; and the sort by row."""
        alike = self._reach.alike(table)
        rows, numbers = alike.rows, alike.numbers
        for mask in {id(wish.rows): wish.rows for wish in wishes if wish.rows is not None}.values():
            _, rows, numbers = np.unique(2 * numbers + mask, return_index=True, return_inverse=True)
            numbers = numbers.reshape(-1)
        return rows, numbers


def _give(wishes: Sequence[Wish], rows: Column, slots: Column, owners: Column, given: Column) -> None:
    """Fill in ``given``, an array a wish, an entry a row. ``owners``: the index of the row that each slot reaches."""
    for wish, best in zip(wishes, given, strict=True):
        if not len(slots):
            return
        ranks = wish.ranks[slots]
        np.minimum.at(best, owners, ranks)
        if wish.rows is not None:
            best[~wish.rows[rows]] = NO_RANK
        is_left = (ranks != best[owners]) | (ranks == NO_RANK)
        slots, owners = slots[is_left], owners[is_left]


class SlotLabels:
    """The labels of things by slot."""

    __slots__ = ("_columns", "_size")

    def __init__(self) -> None:
        self._columns = LabelColumns()
        self._size = 1

    def put(self, slot: int, labels: Mapping[str, str]) -> None:
        self._columns.put(slot, labels)
        self._size = max(self._size, slot + 1)

    def copied(self) -> SlotLabels:
        other = SlotLabels()
        other._columns = self._columns.copied()
        other._size = self._size
        return other

    def label(self, key: str) -> npt.NDArray[np.int32]:
        """Ids of the values of a label, ABSENT where there is none."""
        return self.label_values(key).ids

    def label_values(self, key: str) -> LabelColumn:
        return self._columns.column(key, self._size)

    def matching(self, selector: Selector, slots: Column) -> Mask:
        """Which of the slots a selector accepts."""
        if selector.selects_nothing:
            return np.zeros(len(slots), np.bool_)
        mask = np.ones(len(slots), np.bool_)
        for requirement in selector.requirements:
            if self._columns.narrow_rows(requirement.key) != ():
                mask &= matches_requirement(self, requirement, slots)
            elif requirement.operator in NEEDS_LABEL:
                return np.zeros(len(slots), np.bool_)
        return mask
