"""What a plugin may offer beside its answers, so that those of a class are brought up to date with less work.

Each of these says exactly what the plain calls say, or None: then the plain calls are made. Between two decisions of a
class the counts of one domain have changed, mostly by the class's own last pod; what follows from that is worked out
by domain, and compared by domain, before any pass over all nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.plugin import FilterPlugin, NormalizePlugin, PreFilterPlugin, Scores, State
from scheduler.messages.status import Refusal, Skip

MAX_GROUPS: Final = 2048
"""Groups up to which rows are scored by group, at 5,000 rows in 20 µs with 64 groups, 37 µs with 2,048 and 79 µs with
5,000, as many as row by row. Their numbers are int16."""


class ByValue(Struct, frozen=True):
    """A filter's answer that depends on one label of the node alone: a code for each value of the label, by its id."""

    key: str
    codes: npt.NDArray[np.int16]
    """0 = fits, k > 0 = refused by ``refusals[k - 1]``."""
    refusals: tuple[Refusal, ...]


class CountingPlugin(PreFilterPlugin, FilterPlugin):
    """A plugin whose PreFilter counts pods by domain."""

    def recounted(self, state: State, pod: PodInfo, view: View) -> State | None:
        """What ``pre_filter`` says by now of this pod, of whose class an earlier one had ``state``; None: ask it."""
        raise NotImplementedError

    def filter_by_value(self, state: State, view: View) -> ByValue | None:
        """What ``filter`` says of every row."""
        raise NotImplementedError


class Flips(Struct, frozen=True):
    """Which rows began or ceased to fit: many at once, each of them in one of these, and then single ones."""

    ceased: npt.NDArray[np.integer]
    began: npt.NDArray[np.integer]
    single: Sequence[int]
    """In order; twice where a row began and ceased."""

    def members(
        self, before: npt.NDArray[np.int64], groups: npt.NDArray[np.integer], codes: npt.NDArray[np.int16]
    ) -> npt.NDArray[np.int64]:
        """How many rows of each group fit, if these did before. ``codes``: 0 where a row fits by now."""
        found = before.copy()
        if len(self.ceased):
            found -= np.bincount(groups[self.ceased], minlength=len(before))
        if len(self.began):
            found += np.bincount(groups[self.began], minlength=len(before))
        for row in set(self.single):
            if self.single.count(row) % 2:
                found[groups.item(row)] += -1 if codes.item(row) else 1
        return found


class Fitting(Struct, frozen=True):
    """The rows that a class fits on, or a sample of them."""

    codes: npt.NDArray[np.int16]
    """One a row, 0 = fits."""
    count: int
    version: int
    """Equal versions of a class promise the same rows."""
    flips: Flips | None = None
    """What has changed since the class's answer by group; None: any row may have, or there is no such answer."""
    rows: npt.NDArray[np.int64] | None = None
    """Those of the sample, with a version of its own; None: all that fit."""

    def members(self, groups: npt.NDArray[np.integer], width: int) -> npt.NDArray[np.int64]:
        """How many of the rows are in each of ``width`` groups, at most 2**14. ``groups``: the group of each row."""
        if self.rows is not None:
            return np.bincount(groups.take(self.rows), minlength=width)
        if self.count == len(groups):
            return np.bincount(groups, minlength=width)
        # Rows that do not fit are counted, too, in groups of their own: quicker than to leave them out.
        return np.bincount(groups + (self.codes != 0) * np.int16(width), minlength=width)[:width]


class GroupScores(Struct, frozen=True):
    """A plugin's normalised scores, alike for all rows of a group."""

    state: State
    """What the plugin keeps for the next time."""
    groups: npt.NDArray[np.integer]
    """The group of each row."""
    finals: Scores
    """By group; 0 for groups without a row that fits."""
    members: npt.NDArray[np.int64]
    """By group: how many rows of it fit."""
    fits_version: int
    """Of the rows that fit."""
    regrouped: Sequence[int] | None = None
    """Rows whose group is not what it was at the answer before this one, perhaps some others; None: any."""

    def members_now(self, fitting: Fitting) -> npt.NDArray[np.int64] | None:
        """``members`` of the same groups, counted for these rows; None where rows have to be counted."""
        if fitting.version == self.fits_version:
            return self.members
        return None if fitting.flips is None else fitting.flips.members(self.members, self.groups, fitting.codes)


class ExtremesScoringPlugin(NormalizePlugin):
    """A plugin whose ``normalize`` reads of each row its raw score, and of all of them the extremes."""

    reads_lowest: ClassVar[bool] = False
    """Whether the lowest raw score counts, too, and not the highest alone."""

    def normalize_few(self, raws: Sequence[int], lowest: int, highest: int) -> list[int]:
        """What ``normalize`` says of some raw scores where these are the extremes of all feasible rows."""
        raise NotImplementedError


class ChangedRows(Struct, frozen=True):
    """The rows whose raw scores may differ from those of the class's last decision."""

    state: State
    """What ``pre_score`` says by now."""
    rows: Collection[int]


class GroupScoringPlugin(NormalizePlugin):
    """A plugin whose scores depend on what few groups of rows have in common.

    Whether its PreScore skips does not depend on the rows that fit.
    """

    def score_by_group(
        self, before: State | GroupScores, pod: PodInfo, view: View, fitting: Fitting
    ) -> GroupScores | ChangedRows | State | Skip | None:
        """What ``pre_score``, ``score`` and ``normalize`` say of the rows that fit; or what ``pre_score`` alone says,
        where rows must be looked at one by one, with those that changed if they are known. ``before``: what was said by
        group at the class's last decision, or what ``pre_score`` said."""
        raise NotImplementedError
