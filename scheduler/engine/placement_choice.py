"""Which of the sets of nodes on which a group fits is the best, decided as they are found.

A trial of a large group is large, so that of all of them only one is kept: the best so far. Each plugin normalizes the
scores of all placements together, so a later placement may change the order of those before it; the last word is that
of ``winner``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from scheduler.engine.error_texts import cause_of
from scheduler.framework.placements import Placed, PlacementScorePlugin
from scheduler.framework.post_filter import Chance

_Answer = TypeVar("_Answer")


class PlacementChoice:
    """``scorers``: plugins with their weights. Equal totals are decided by chance."""

    def __init__(self, scorers: Sequence[tuple[PlacementScorePlugin, int]], chance: Chance) -> None:
        self._scorers = scorers
        self._chance = chance
        self._scores: list[list[int]] = []
        """By feasible placement: each plugin's scores, before normalization."""
        self._fault = ""
        self._kept = 0

    @property
    def count(self) -> int:
        return len(self._scores)

    @property
    def fault(self) -> str:
        """What a plugin raised; "" while there is nothing to choose."""
        return self._fault if self.count > 1 else ""

    def is_kept(self, placed: Placed) -> bool:
        """Whether this placement, which comes after all others, takes the place of the one that is kept."""
        self._scores.append(
            [self._called(plugin, partial(plugin.score_placement, placed), 0) for plugin, _ in self._scorers]
        )
        if self.count == 1:
            return True
        totals = self._totals()
        if totals[-1] < max(totals):
            return False
        is_better = totals[-1] > totals[self._kept]
        if not is_better and self._chance.randrange(totals.count(totals[-1])):
            return False
        self._kept = self.count - 1
        return True

    def winner(self) -> int | None:
        """The index of the best, in the order in which they came, if it is not the one that is kept."""
        if self.count == 1:
            return None
        totals = self._totals()
        best = [index for index, total in enumerate(totals) if total == max(totals)]
        return None if self._kept in best else best[self._chance.randrange(len(best))]

    def _totals(self) -> list[int]:
        totals = [0] * self.count
        for index, (plugin, weight) in enumerate(self._scorers):
            raw: Sequence[int] = [each[index] for each in self._scores]
            scores = self._called(plugin, partial(plugin.normalize_placements, raw), raw)
            totals = self._called(plugin, partial(_added, totals, scores, weight), totals)
        return totals

    def _called(self, plugin: PlacementScorePlugin, ask: Callable[[], _Answer], instead: _Answer) -> _Answer:
        """The plugin's answer; ``instead`` if it raises, which is then the fault."""
        try:
            return ask()
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own fault, and is named
            self._fault = self._fault or f'running PlacementScore plugin "{plugin.name}": {cause_of(error)}'
            return instead


def _added(totals: Sequence[int], scores: Sequence[int], weight: int) -> list[int]:
    return [total + weight * score for total, score in zip(totals, scores, strict=True)]
