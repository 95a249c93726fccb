"""The extremes of a class's raw scores, by which all of them are normalised."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct


class Extremes(Struct):
    """The lowest and the highest raw score of the feasible rows. How many rows have one is counted once a row has lost
    it, and kept count of from then on."""

    lowest: int
    highest: int
    at_lowest: int | None = None
    at_highest: int | None = None

    def copied(self) -> Extremes:
        return Extremes(self.lowest, self.highest, self.at_lowest, self.at_highest)

    def stay(
        self,
        before: Sequence[int],
        now: Sequence[int],
        raw: npt.NDArray[np.int64],
        codes: npt.NDArray[np.int16],
        *,
        with_lowest: bool,
    ) -> bool:
        """Whether they are the same where some feasible rows have other raw scores; once they are not, don't ask again.

        ``before``, ``now``: the scores of those rows. ``raw``: those of all rows by now, where ``codes`` are 0 feasible
        ones. ``with_lowest``: whether the lowest matters.
        """
        self.at_highest = _left(self.highest, self.at_highest, before, now, raw, codes)
        if self.at_highest == 0 or max(now, default=self.highest) > self.highest:
            return False
        if not with_lowest:
            return True
        self.at_lowest = _left(self.lowest, self.at_lowest, before, now, raw, codes)
        return self.at_lowest != 0 and min(now, default=self.lowest) >= self.lowest


def _left(
    extreme: int,
    count: int | None,
    before: Sequence[int],
    now: Sequence[int],
    raw: npt.NDArray[np.int64],
    codes: npt.NDArray[np.int16],
) -> int | None:
    """How many feasible rows have this raw score by now; None if they need not be counted: none has lost it."""
    if count is not None:
        return count + now.count(extreme) - before.count(extreme)
    return int(np.count_nonzero((raw == extreme) & (codes == 0))) if extreme in before else None
