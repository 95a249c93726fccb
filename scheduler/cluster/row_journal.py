"""What changed on which row, in order: those who cache answers read from where they stopped."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

NODE_CHANGED = 1
"""The Node object of the row was added, changed or removed."""
USAGE_CHANGED = 2
"""Pods came to or left the row."""

_FLAGS = 2
_ALL_FLAGS = NODE_CHANGED | USAGE_CHANGED


class RowChanges:
    """``few`` are rows with their flags united; or, where more have changed, ``many`` has their numbers (int64, some
    perhaps twice) and ``few`` is empty. ``flags``: those of all of them united."""

    __slots__ = ("_few_rows", "_nodes", "few", "flags", "many")

    def __init__(
        self,
        flags: int,
        few: Mapping[int, int],
        many: npt.NDArray[np.int64] | None = None,
        nodes: Sequence[int] = (),
    ) -> None:
        self.flags = flags
        self.few = few
        self.many = many
        self._few_rows = tuple(few)
        self._nodes = nodes
        """Of ``many``, those whose node has changed."""

    def nodes(self) -> set[int]:
        """The rows whose node has changed."""
        return set(self._nodes or self.few_with(NODE_CHANGED)) if self.flags & NODE_CHANGED else set()

    def few_with(self, flags: int) -> Sequence[int]:
        """The rows of ``few`` that have one of these flags."""
        if self.flags & flags == self.flags:
            return self._few_rows
        return [row for row, has in self.few.items() if has & flags]


NO_CHANGES = RowChanges(0, {})


class RowJournal:
    """A bounded list of (row, flags); its version is the number of entries so far. A reader that fell behind must start
    afresh."""

    __slots__ = ("_answer", "_asked", "_entries", "_first", "_node_changed", "_usage_changed", "limit", "version")

    def __init__(self, limit: int = 8192) -> None:
        self.limit = limit
        self._entries = array("q")
        self._first = 0
        self.version = 0
        """Grows by one with each entry: what a reader that is up to date remembers."""
        self._node_changed = self._usage_changed = 0
        """The versions since the last entries with these flags."""
        self._asked = (0, 0, 0)
        """The last question for changes, with where the journal ended then, and ..."""
        self._answer: RowChanges | None = NO_CHANGES
        """... its answer: filters and scores of one class ask the same."""

    def append(self, row: int, flags: int) -> None:
        """Note a change of a row; ``flags`` say what has changed."""
        entries = self._entries
        entries.append(row << _FLAGS | flags)
        self.version += 1
        if flags & NODE_CHANGED:
            self._node_changed = self.version
        if flags & USAGE_CHANGED:
            self._usage_changed = self.version
        if len(entries) > 2 * self.limit:
            del entries[: self.limit]
            self._first += self.limit

    def since(self, version: int) -> dict[int, int] | None:
        """Rows changed since ``version`` with their flags united; None where that is no longer known."""
        start = version - self._first
        if start < 0:
            return None
        entries = self._entries[start:]
        if len(entries) == 1:
            # By far the most frequent: one pod was placed since.
            return {entries[0] >> _FLAGS: entries[0] & _ALL_FLAGS}
        changed: dict[int, int] = {}
        for entry in dict.fromkeys(entries):
            row = entry >> _FLAGS
            changed[row] = changed.get(row, 0) | (entry & _ALL_FLAGS)
        return changed

    def changes(self, version: int, most_few: int) -> RowChanges | None:
        """The same for readers that treat single rows one by one, but at most ``most_few`` of them."""
        asked = (version, most_few, self.version)
        if asked != self._asked:
            self._asked = asked
            self._answer = self._changes(version, most_few)
        return self._answer

    def _changes(self, version: int, most_few: int) -> RowChanges | None:
        entries = self._entries
        start = version - self._first
        if start < 0:
            return None
        count = len(entries) - start
        if count == 1:
            entry = entries[start]
            flags = entry & _ALL_FLAGS
            return RowChanges(flags, {entry >> _FLAGS: flags})
        if count <= most_few:
            few = self.since(version) or {}
            flags = 0
            for each in few.values():
                flags |= each
            return RowChanges(flags, few)
        # A slice of an array is a copy: the journal may go on.
        many = np.frombuffer(entries[start:], np.int64)
        flags = NODE_CHANGED * (self._node_changed > version) | USAGE_CHANGED * (self._usage_changed > version)
        nodes = many[many & NODE_CHANGED != 0] >> _FLAGS if flags & NODE_CHANGED else many[:0]
        return RowChanges(flags, {}, many >> _FLAGS, nodes.tolist())

    def fork(self) -> RowJournal:
        """The same entries; readers of this one may go on reading from the fork where they stopped here."""
        other = RowJournal(self.limit)
        other._entries = self._entries[:]
        other._first = self._first
        other.version = self.version
        other._node_changed, other._usage_changed = self._node_changed, self._usage_changed
        return other

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((entry >> _FLAGS, entry & _ALL_FLAGS) for entry in self._entries)
