"""One contender against another, round by round, with an interval: CPU a pod before and after a change, and pods a
second against what the API server allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import comb
from statistics import median
from typing import Final, NamedTuple, Protocol

NULL: Final = "null"
"""The contender that shows what the API server allows."""


class Round(Protocol):
    """What a result of either bench has: the contender, CPU seconds of its scheduler a pod, and pods a second. The
    numbers of a run that failed are 0.0."""

    @property
    def contender(self) -> str: ...
    @property
    def cpu_per_pod(self) -> float: ...
    @property
    def pods_per_second(self) -> float: ...


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
    """A line for each row and contender that `first` is compared with: CPU a pod against a ``NAME@CHECKOUT``, pods a
    second against the null scheduler.

    `rounds` are (row, result) of all rounds in their order. A pair of which one run failed is left out.
    """
    by_row: dict[str, dict[str, list[Round]]] = {}
    for row, result in rounds:
        by_row.setdefault(row, {}).setdefault(result.contender, []).append(result)
    for row, contenders in by_row.items():
        for other, theirs in contenders.items():
            pairs = zip(contenders.get(first, ()), theirs, strict=False)
            found = [(one, two) for one, two in pairs if one.cpu_per_pod and two.cpu_per_pod]
            if not found:
                continue
            if "@" in other:
                cpu = ratio([one.cpu_per_pod for one, _ in found], [two.cpu_per_pod for _, two in found])
                yield f"{row}: CPU a pod of {first} against {other}: {cpu}"
            elif other == NULL:
                speed = ratio([one.pods_per_second for one, _ in found], [two.pods_per_second for _, two in found])
                yield f"{row}: pods a second of {first} against {other}: {speed}"
