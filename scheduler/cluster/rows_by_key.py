"""Which rows have something, by what it is: the users of a claim, of a disk, of a host port."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from scheduler.cluster.forkable import ForkableDict

Key = TypeVar("Key", bound=Hashable)

_NO_ROWS: Mapping[int, int] = {}


class RowsByKey(Generic[Key]):
    """Key → row → how many there have it; rows and keys without any are forgotten."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: ForkableDict[Key, dict[int, int]] = ForkableDict()

    def add(self, key: Key, row: int) -> None:
        if key in self._rows:
            rows = self._rows.writable(key, dict)
            rows[row] = rows.get(row, 0) + 1
        else:
            self._rows[key] = {row: 1}

    def remove(self, key: Key, row: int) -> None:
        """Count one less of the key on the row. Raises KeyError where nothing was added."""
        rows = self._rows.writable(key, dict)
        left = rows[row] - 1
        if left:
            rows[row] = left
            return
        del rows[row]
        if not rows:
            del self._rows[key]

    def of(self, key: Key) -> Mapping[int, int]:
        """Row → count. Do not change it."""
        found: Mapping[int, int] = self._rows.get(key, _NO_ROWS)
        return found

    def having(self, keys: Iterable[Key]) -> Collection[int]:
        """Rows that have any of the keys, each once."""
        return {row: None for key in keys for row in self.of(key)}.keys()

    def items(self) -> Iterator[tuple[Key, Mapping[int, int]]]:
        return iter(self._rows.items())

    def fork(self) -> RowsByKey[Key]:
        """The same; neither side sees what the other adds or removes from now on."""
        other: RowsByKey[Key] = RowsByKey()
        other._rows = self._rows.fork()
        return other
