"""The last changes of a number per row, by which sums that were kept are brought up to date."""

from __future__ import annotations

from typing import Final, NamedTuple

KEPT: Final = 16
"""Changes that are kept at least, and at most twice as many. Between two decisions of a class there is one, its own
pod."""


class RowChange(NamedTuple):
    version: int
    """The counter's version with this change."""
    row: int
    sign: int
    """+1: a pod came to the row, -1: one left it."""
    weight: int
    """What else the pod counts for: 0 or the sign for pods that are not being deleted, a signed weight of a term."""


class ChangeLog:
    """The last changes of a counter. ``version``: the counter's before the first change. Versions are never used twice,
    not even by forks, so that one of another history is not found."""

    __slots__ = ("_before", "_changes")

    def __init__(self, version: int) -> None:
        self._before = version
        self._changes: list[RowChange] = []

    def append(self, version: int, row: int, sign: int, weight: int) -> None:
        changes = self._changes
        if len(changes) == 2 * KEPT:
            self._before = changes[KEPT - 1].version
            del changes[:KEPT]
        changes.append(RowChange(version, row, sign, weight))

    def since(self, version: int) -> list[RowChange] | None:
        """What changed after that version, in order; None where that is not known any more."""
        changes = self._changes
        for place in range(len(changes) - 1, -1, -1):
            if changes[place].version == version:
                return changes[place + 1 :]
        return changes[:] if version == self._before else None

    def copy(self) -> ChangeLog:
        other = ChangeLog(self._before)
        other._changes = self._changes[:]
        return other
