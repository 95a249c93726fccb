"""One score plugin's answers for one class of pods. See ``scores.py``, which keeps them up to date."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from scheduler.cluster.longer import longer
from scheduler.cluster.row_journal import NODE_CHANGED
from scheduler.errors import PluginError
from scheduler.framework.class_run import ClassRun
from scheduler.framework.classes.extremes import Extremes
from scheduler.framework.plugin import MAX_NODE_SCORE, NormalizePlugin, ScorePlugin, Scores, State
from scheduler.framework.shortcuts import ExtremesScoringPlugin, GroupScores, GroupScoringPlugin
from scheduler.framework.traits import traits_of
from scheduler.messages.status import SKIP, Skip

_MAX_UINT8, _MAX_INT16 = 2**8 - 1, 2**15 - 1


class ScoreSlot:
    """One score plugin's answers: weighted final scores per row, and the raw ones if normalising needs them."""

    __slots__ = (
        "answer_is_kept",
        "by_group",
        "contribution",
        "counts_pods",
        "extremes",
        "extremes_normalizer",
        "flags",
        "grouping",
        "has_stamp",
        "is_declared",
        "name",
        "normalizer",
        "plugin",
        "raw",
        "stamp",
        "state",
        "weight",
    )

    def __init__(self, plugin: ScorePlugin, weight: int) -> None:
        self.plugin = plugin
        self.name = plugin.name
        self.weight = weight
        traits = traits_of(plugin)
        self.is_declared = traits.is_declared
        self.has_stamp = traits.has_stamp
        self.counts_pods = traits.counts_pods
        self.normalizer = plugin if isinstance(plugin, NormalizePlugin) else None
        self.extremes_normalizer = plugin if isinstance(plugin, ExtremesScoringPlugin) else None
        self.extremes: Extremes | None = None
        """Of the raw scores by which ``contribution`` was normalised; None: not known."""
        self.grouping = plugin if isinstance(plugin, GroupScoringPlugin) else None
        self.by_group: GroupScores | None = None
        """What ``contribution`` comes from, if the plugin scored by group; ``raw`` is None then."""
        self.flags = traits.flags
        self.answer_is_kept = traits.is_declared and not traits.reads_feasible_rows
        """Its raw scores depend on the row alone: they stay valid when the feasible rows change. False, too, once one
        was out of range."""
        self.stamp: Hashable = None
        self.state: State | Skip | None = None
        self.raw: Scores | int | None = None
        """A number if all rows have the same score. Only if ``answer_is_kept``."""
        self.contribution: npt.NDArray[np.integer] | int | None = None

    def take_from(self, other: ScoreSlot) -> None:
        self.stamp, self.state, self.by_group = other.stamp, other.state, other.by_group
        self.answer_is_kept = other.answer_is_kept
        self.raw = other.raw.copy() if isinstance(other.raw, np.ndarray) else other.raw
        self.extremes = None if other.extremes is None else other.extremes.copied()
        share = other.contribution
        self.contribution = share.copy() if isinstance(share, np.ndarray) else share

    @property
    def nbytes(self) -> int:
        groups = None if self.by_group is None else self.by_group.groups
        kept = (self.raw, self.contribution, groups, self.state)
        return sum(each.nbytes for each in kept if isinstance(each, np.ndarray | State))

    def grow(self, size: int) -> None:
        """Take in rows of which nothing is known yet."""
        if isinstance(self.raw, np.ndarray):
            self.raw = longer(self.raw, size, 0)
        if isinstance(self.contribution, np.ndarray):
            self.contribution = longer(self.contribution, size, 0)
        if self.by_group is not None and self.has_stamp:
            # The plugin is asked again: it decides which group a new row is in.
            self.stamp = None
        elif self.by_group is not None or (not self.flags & NODE_CHANGED and self.state is not SKIP):
            self.state = None

    def stamp_now(self, run: ClassRun) -> Hashable:
        return run.stamp_of(self.plugin) if self.has_stamp else ()

    @property
    def is_flat(self) -> bool:
        return self.contribution is None or isinstance(self.contribution, int)

    def holds(self, stale: Sequence[ScoreSlot]) -> bool:
        """Whether the answers for unchanged rows are still valid. ``stale``: the slots whose stamps have changed."""
        return self.state is not None and self.is_declared and self not in stale

    def is_unaffected_by(self, flags: int, feasible_changed: bool) -> bool:
        """Whether neither the rows' changes nor the new feasible rows affect the answers of a slot that ``holds``."""
        if not self.answer_is_kept:
            return not feasible_changed and not flags & self.flags
        if self.state is SKIP:
            return True
        if flags & self.flags:
            return False
        # Scores by group are flat only for the rows that fit now.
        return not feasible_changed or self.normalizer is None or (self.is_flat and self.by_group is None)


def stale_slots(stamped: Sequence[ScoreSlot], run: ClassRun) -> list[ScoreSlot]:
    """The slots whose stamps have changed. Raises PluginError."""
    stale: list[ScoreSlot] = []
    for slot in stamped:
        try:
            if slot.stamp_now(run) != slot.stamp:
                stale.append(slot)
        except Exception as error:
            raise PluginError(slot.name, "Score", error) from error
    return stale


class InvalidScore(PluginError):
    """A plugin's normalised score is outside 0..100."""

    def __init__(self, plugin: str, score: int) -> None:
        self.score = score
        super().__init__(plugin, "Score", ValueError(score))

    def __str__(self) -> str:
        return (
            f'plugin "{self.plugin}" returns an invalid score {self.score}, '
            f"it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
        )


def check_range(plugin: ScorePlugin, low: int, high: int) -> None:
    """Raises InvalidScore unless both scores are within 0..MAX_NODE_SCORE."""
    for score in (low, high):
        if not 0 <= score <= MAX_NODE_SCORE:
            raise InvalidScore(plugin.name, score)


def share_dtype(weight: int) -> type[np.uint8 | np.int16 | np.int64]:
    """The narrowest type for shares of the total: narrow columns keep a class small and its sum quick."""
    highest = weight * MAX_NODE_SCORE
    if highest <= _MAX_UINT8:
        return np.uint8
    return np.int16 if highest <= _MAX_INT16 else np.int64
