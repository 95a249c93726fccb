"""CPU a pod of one contender against another's, round by round, with an interval: before and after a change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import comb
from statistics import median
from typing import NamedTuple, Protocol


class Round(Protocol):
    """What a result of either bench has: the contender, and CPU seconds of its scheduler a pod."""

    @property
    def contender(self) -> str: ...
    @property
    def cpu_per_pod(self) -> float: ...


class Ratio(NamedTuple):
    """The median ratio of some pairs, and the interval that holds the true median in at least 95 of 100 cases.

    ``least`` and ``most`` are None with fewer than six pairs: no two of their ratios enclose it that surely.
    """

    median: float
    least: float | None
    most: float | None
    pairs: int

    def __str__(self) -> str:
        interval = "" if self.least is None else f" (95 %: {self.least:.2f} to {self.most:.2f})"
        return f"{self.median:.2f}{interval}, pairs: {self.pairs}"


def ratio(first: Sequence[float], second: Sequence[float]) -> Ratio:
    """How often the values of `second` go into those of `first`, each with the one of the same round.

    The interval is that of the sign test: it assumes nothing of how times scatter on a busy machine.
    """
    found = sorted(one / other for one, other in zip(first, second, strict=True))
    dropped = _dropped(len(found))
    if dropped < 0:
        return Ratio(median(found), None, None, len(found))
    return Ratio(median(found), found[dropped], found[-1 - dropped], len(found))


def _dropped(pairs: int) -> int:
    """How many of the smallest and of the largest ratios lie outside the interval; -1 if even all are too few."""
    outside, dropped = 0, -1
    while dropped + 1 < pairs:
        outside += comb(pairs, dropped + 1)
        if 2 * outside > 0.05 * 2**pairs:
            break
        dropped += 1
    return dropped


def lines(rounds: Iterable[tuple[str, Round]], first: str = "tandem") -> Iterator[str]:
    """A line for each row and contender ``NAME@CHECKOUT`` beside which `first` ran: their CPU a pod, as a ratio.

    `rounds` are (row, result) of all rounds in their order; what doesn't count is left out by the caller, in pairs.
    """
    by_row: dict[str, dict[str, list[float]]] = {}
    for row, result in rounds:
        by_row.setdefault(row, {}).setdefault(result.contender, []).append(result.cpu_per_pod)
    for row, contenders in by_row.items():
        for other, values in contenders.items():
            if "@" in other and first in contenders:
                yield f"{row}: CPU a pod of {first} against {other}: {ratio(contenders[first], values)}"
