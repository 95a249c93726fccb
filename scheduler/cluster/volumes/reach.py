"""Which rows things with selectors can serve: volumes with a node affinity, capacities with a topology.

Things whose selectors are written alike are looked up together. A term's ``In`` requirements name places (values of
labels), its other requirements are the same for all that share a *shape*: the keys of the places, and the rest. So
five thousand volumes, one on each node, are one shape, and finding the best of them for every row at once is a
minimum over places and one look at each row's own place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from operator import is_
from weakref import ref

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.interning import ABSENT, Interner
from scheduler.cluster.node_matching import matches_requirement
from scheduler.cluster.table import NodeTable
from scheduler.objects.requirements import Operator, Requirement

Column = npt.NDArray[np.int64]
Term = tuple[Requirement, ...]
"""Requirements that a node's labels must meet, all of them."""

NO_RANK = np.iinfo(np.int64).max
"""The rank of nothing at all: behind any other."""

_MAX_PLACES = 64
"""A term that names more combinations of values is cut at its widest requirement, which then is one of the rest."""
_MAX_KEYS = 3
_MIN_DEAD = 1024

_NOTHING = 0
"""The slot of nothing: what entries that are no longer used point to."""


class _Shape:
    """Entries: one for each place of each term of this shape, with the slot of the thing that it belongs to."""

    __slots__ = ("_free", "_known", "_named", "_places", "_row_places", "_size", "_slots", "keys", "rest")

    def __init__(self, keys: tuple[str, ...], rest: Term) -> None:
        self.keys = keys
        self.rest = rest
        self._places: Interner[tuple[str, ...]] = Interner()
        self._slots: Column = np.zeros(16, np.int64)
        self._named: Column = np.zeros(16, np.int64)
        """By entry, the id of its place."""
        self._size = 0
        self._free: list[int] = []
        self._known: tuple[object, ...] = ()
        self._row_places: Column = np.zeros(0, np.int64)
        """By row, the id of the place that it is at; 0 if no entry names it, or the rest is not met. Another array
        each time, so copies share it."""

    def copied(self) -> _Shape:
        other = _Shape(self.keys, self.rest)
        other._places = self._places.copied()
        other._slots = self._slots.copy()
        other._named = self._named.copy()
        other._size = self._size
        other._free = list(self._free)
        other._known = self._known
        other._row_places = self._row_places
        return other

    def add(self, slot: int, place: tuple[str, ...]) -> int:
        """Returns the entry."""
        if self._free:
            entry = self._free.pop()
        else:
            entry = self._size
            self._size += 1
            if entry == len(self._slots):
                self._slots = np.append(self._slots, np.zeros(entry, np.int64))
                self._named = np.append(self._named, np.zeros(entry, np.int64))
        self._slots[entry] = slot
        self._named[entry] = self._places.intern(place)
        return entry

    def drop(self, entry: int) -> None:
        self._slots[entry] = _NOTHING
        self._free.append(entry)

    @property
    def is_empty(self) -> bool:
        return len(self._free) == self._size

    @property
    def is_mostly_dead(self) -> bool:
        """Whether it had better be made again: places are never forgotten."""
        return len(self._places) > _MIN_DEAD + 4 * (self._size - len(self._free))

    def entries(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """(slot, place) of those in use."""
        for slot, place in zip(self._slots[: self._size].tolist(), self._named[: self._size].tolist(), strict=True):
            if slot != _NOTHING:
                yield slot, self._places.values[place] or ()

    def least(self, here: Column, ranks: Column) -> Column:
        """For each of these places (by id) the smallest of the ranks (by slot) that reach it."""
        best = np.full(len(self._places), NO_RANK, np.int64)
        np.minimum.at(best, self._named[: self._size], ranks[self._slots[: self._size]])
        best[ABSENT] = NO_RANK
        return best[here]

    def number_reaching(self, here: Column) -> int:
        """How many slots reach these places (by id), added up."""
        named = self._named[: self._size][self._slots[: self._size] != _NOTHING]
        counts = np.bincount(named, minlength=len(self._places))
        counts[ABSENT] = 0
        return int(counts[here].sum())

    def reaching(self, here: Column) -> tuple[Column, Column]:
        """The slots that reach each of these places (by id), and beside each the index of its place in ``here``."""
        used = np.flatnonzero(self._slots[: self._size] != _NOTHING)
        used = used[np.argsort(self._named[used], kind="stable")]
        named = self._named[used]
        first = np.searchsorted(named, here, "left")
        counts = np.where(here == ABSENT, 0, np.searchsorted(named, here, "right") - first)
        indices = np.repeat(np.arange(len(here)), counts)
        within = np.arange(len(indices)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self._slots[used[np.repeat(first, counts) + within]], indices

    def places_of_rows(self, table: NodeTable) -> Column:
        """By row, the id of its place; 0 where nothing of this shape reaches it. Another array after each change."""
        # A weak reference: a fork and its parent share this, and it must not keep the fork's table alive.
        now = (ref(table), table.labels_version, table.size, len(self._places))
        if now != self._known:
            rows = slice(0, table.size)
            here = self._named_places(table)
            for requirement in self.rest:
                here = np.where(matches_requirement(table, requirement, rows), here, ABSENT)
            self._row_places = here
            self._known = now
        return self._row_places

    def _named_places(self, table: NodeTable) -> Column:
        places = self._places.values[1:]
        if not self.keys:
            return np.full(table.size, 1 if places else ABSENT, np.int64)
        numbers = np.zeros(len(places), np.int64)
        is_known = np.ones(len(places), np.bool_)
        at = np.zeros(table.size, np.int64)
        for index, key in enumerate(self.keys):
            values = table.label_values(key)
            ids = np.array([values.find(place[index]) for place in places if place is not None], np.int64)
            is_known &= ids != ABSENT
            # Numbered again for each key, so that the numbers stay small.
            everything = np.concatenate([numbers * len(values) + ids, at * len(values) + table.label(key)])
            everything = np.unique(everything, return_inverse=True)[1].reshape(-1)
            numbers, at = everything[: len(places)], everything[len(places) :]
        place_of = np.zeros(table.size + len(places), np.int64)
        place_of[numbers[is_known]] = np.flatnonzero(is_known) + 1
        return place_of[at]


_ShapeKey = tuple[tuple[str, ...], Term]
_Entry = tuple[_ShapeKey, int]


class Alike(Struct, frozen=True, eq=False):
    """Rows that the same slots reach, numbered: ``rows[numbers]`` has for every row one that is like it."""

    rows: Column
    """One of each number, int64."""
    numbers: Column
    """By row."""


class Reach:
    """What slots (numbers from 1 on, which the caller gives out) reach which rows."""

    __slots__ = ("_alike", "_alike_of", "_entries", "_shapes")

    def __init__(self) -> None:
        self._shapes: dict[_ShapeKey, _Shape] = {}
        self._entries: dict[int, tuple[_Entry, ...]] = {}
        """By slot."""
        self._alike: Alike | None = None
        self._alike_of: list[Column] = []
        """The places of the rows, by shape, that it was made of."""

    def copied(self) -> Reach:
        other = Reach()
        other._shapes = {key: shape.copied() for key, shape in self._shapes.items()}
        other._entries = dict(self._entries)
        other._alike, other._alike_of = self._alike, self._alike_of
        return other

    def put(self, slot: int, terms: Iterable[Term]) -> None:
        """A slot that is not in use reaches the rows that meet one of the terms."""
        entries: list[_Entry] = []
        for term in terms:
            keys, places, rest = _shape_of(term)
            key = keys, rest
            shape = self._shapes.get(key)
            if shape is None:
                shape = self._shapes[key] = _Shape(keys, rest)
            entries += [(key, shape.add(slot, place)) for place in places]
        self._entries[slot] = tuple(entries)

    def drop(self, slot: int) -> None:
        """Free a slot that is in use."""
        entries = self._entries.pop(slot)
        for key, entry in entries:
            self._shapes[key].drop(entry)
        for key in dict.fromkeys([key for key, _ in entries]):
            shape = self._shapes[key]
            if shape.is_empty:
                del self._shapes[key]
            elif shape.is_mostly_dead:
                self._make_again(key, shape)

    def _make_again(self, key: _ShapeKey, old: _Shape) -> None:
        new = self._shapes[key] = _Shape(old.keys, old.rest)
        named: dict[int, list[tuple[str, ...]]] = {}
        for slot, place in old.entries():
            named.setdefault(slot, []).append(place)
        for slot, places in named.items():
            kept = [entry for entry in self._entries[slot] if entry[0] != key]
            self._entries[slot] = (*kept, *[(key, new.add(slot, place)) for place in places])

    def least(self, table: NodeTable, ranks: Column) -> Column:
        """The smallest of the ranks of the slots that reach each row of the table; NO_RANK where there is none.
        ``ranks``: int64 by slot, NO_RANK for those that do not matter, and for slot 0."""
        best = np.full(table.size, NO_RANK, np.int64)
        for shape in self._shapes.values():
            best = np.minimum(best, shape.least(shape.places_of_rows(table), ranks))
        return best

    def number_reaching(self, table: NodeTable, rows: Column) -> int:
        """How many slots reach these rows, added up."""
        return sum(shape.number_reaching(shape.places_of_rows(table)[rows]) for shape in self._shapes.values())

    def reaching(self, table: NodeTable, rows: Column) -> tuple[Column, Column]:
        """The slots that reach each of these rows, some perhaps twice, and beside each the index of its row in
        ``rows``."""
        found = [shape.reaching(shape.places_of_rows(table)[rows]) for shape in self._shapes.values()]
        if not found:
            return rows[:0], rows[:0]
        return np.concatenate([slots for slots, _ in found]), np.concatenate([indices for _, indices in found])

    def alike(self, table: NodeTable) -> Alike:
        """The rows of the table by what reaches them."""
        places = [shape.places_of_rows(table) for shape in self._shapes.values()]
        known = self._alike
        if known is None or len(known.numbers) != table.size or not _are_same(places, self._alike_of):
            numbers = np.zeros(table.size, np.int64)
            rows = numbers[:1]
            for here in places:
                combined = numbers * (here.max(initial=0) + 1) + here
                _, rows, numbers = np.unique(combined, return_index=True, return_inverse=True)
            known = self._alike = Alike(rows, numbers.reshape(-1))
            self._alike_of = places
        return known


def _are_same(columns: list[Column], others: list[Column]) -> bool:
    return len(columns) == len(others) and all(map(is_, columns, others))


def _shape_of(term: Term) -> tuple[tuple[str, ...], list[tuple[str, ...]], Term]:
    """(keys, the places named by values of these keys, the requirements that are left)."""
    naming = sorted(
        (part for part in term if part.operator is Operator.IN), key=lambda part: (len(part.values), part.key)
    )
    named: list[Requirement] = []
    count = 1
    for part in naming[:_MAX_KEYS]:
        count *= len(part.values)
        if named and count > _MAX_PLACES:
            break
        named.append(part)
    named.sort(key=lambda part: part.key)
    rest = tuple([part for part in term if not any(part is other for other in named)])
    return tuple([part.key for part in named]), list(product(*[part.values for part in named])), rest
