"""What changed on which row, in order: those who cache answers read from where they stopped."""

from __future__ import annotations

from collections.abc import Iterator

NODE_CHANGED = 1
"""The Node object of the row was added, changed or removed."""
USAGE_CHANGED = 2
"""Pods came to or left the row."""

_FLAGS = 2


class RowJournal:
    """A bounded list of (row, flags); positions only grow. A reader that fell behind must start afresh."""

    __slots__ = ("_entries", "_first", "limit")

    def __init__(self, limit: int = 8192) -> None:
        self.limit = limit
        self._entries: list[int] = []
        self._first = 0

    @property
    def position(self) -> int:
        """Where the next entry goes: what a reader that is up to date remembers."""
        return self._first + len(self._entries)

    def append(self, row: int, flags: int) -> None:
        entries = self._entries
        entries.append(row << _FLAGS | flags)
        if len(entries) > 2 * self.limit:
            del entries[: self.limit]
            self._first += self.limit

    def since(self, position: int) -> dict[int, int] | None:
        """Rows changed since ``position`` with their flags united; None where that is no longer known."""
        start = position - self._first
        if start < 0:
            return None
        entries = self._entries[start:]
        if len(entries) == 1:
            # By far the most frequent: one pod was placed since.
            return {entries[0] >> _FLAGS: entries[0] & (NODE_CHANGED | USAGE_CHANGED)}
        changed: dict[int, int] = {}
        for entry in entries:
            row = entry >> _FLAGS
            changed[row] = changed.get(row, 0) | (entry & (NODE_CHANGED | USAGE_CHANGED))
        return changed

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((entry >> _FLAGS, entry & (NODE_CHANGED | USAGE_CHANGED)) for entry in self._entries)
