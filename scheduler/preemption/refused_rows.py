"""Why removing pods does not help on some nodes, collected by refusal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from scheduler.messages.status import Refusal


class RefusedRows:
    """Refusals in the order in which they first occurred, each with its rows in the order in which they were tried.

    A thousand nodes mostly share a few refusals, and an attempt that collects them one by one pays for each node.
    """

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[Refusal, list[int]] = {}

    def add(self, refusal: Refusal, rows: Iterable[int]) -> None:
        """Add rows, tried after those added before."""
        self._rows.setdefault(refusal, []).extend(rows)

    def __iter__(self) -> Iterator[tuple[Refusal, Sequence[int]]]:
        return iter(self._rows.items())
