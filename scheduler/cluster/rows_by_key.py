"""Which rows have something, by what it is: the users of a claim, of a disk, of a host port."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_NO_ROWS: Mapping[int, int] = {}


class RowsByKey(Generic[Key]):
    """Key → row → how many there have it; rows and keys without any are forgotten.

    A copy shares the counts of a key until one of the two changes them.
    """

    __slots__ = ("_owned", "_rows")

    def __init__(self) -> None:
        self._rows: dict[Key, dict[int, int]] = {}
        self._owned: set[Key] | None = None
        """Keys whose counts no copy shares; None = all."""

    def add(self, key: Key, row: int) -> None:
        rows = self._writable(key)
        if rows is None:
            rows = self._rows[key] = {}
        rows[row] = rows.get(row, 0) + 1

    def remove(self, key: Key, row: int) -> None:
        """Raises KeyError where nothing was added."""
        rows = self._writable(key)
        if rows is None:
            raise KeyError(key)
        left = rows[row] - 1
        if left:
            rows[row] = left
            return
        del rows[row]
        if not rows:
            del self._rows[key]

    def of(self, key: Key) -> Mapping[int, int]:
        """Row → count. Do not change it."""
        return self._rows.get(key, _NO_ROWS)

    def having(self, keys: Iterable[Key]) -> Collection[int]:
        """Rows that have any of the keys, each once."""
        return {row: None for key in keys for row in self._rows.get(key, _NO_ROWS)}.keys()

    def items(self) -> Iterator[tuple[Key, Mapping[int, int]]]:
        return iter(self._rows.items())

    def copy(self) -> RowsByKey[Key]:
        other: RowsByKey[Key] = RowsByKey()
        other._rows = dict(self._rows)
        self._owned = set()
        other._owned = set()
        return other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowsByKey) and self._rows == other._rows

    __hash__ = None  # type: ignore[assignment]  # it changes

    def _writable(self, key: Key) -> dict[int, int] | None:
        rows = self._rows.get(key)
        owned = self._owned
        if owned is not None and key not in owned:
            owned.add(key)
            if rows is not None:
                rows = self._rows[key] = dict(rows)
        return rows
