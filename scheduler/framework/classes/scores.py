"""How good the rows are for a class of pods, kept up to date row by row. See ``classes.py`` for the idea."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scheduler.cluster.row_journal import NO_CHANGES, RowChanges, RowJournal
from scheduler.errors import PluginError
from scheduler.framework.classes.filters import MOST_SINGLE_ROWS, ClassFilters, PluginPoint
from scheduler.framework.classes.score_slot import InvalidScore, ScoreSlot, check_range, share_dtype
from scheduler.framework.plugin import (
    MAX_NODE_SCORE,
    NormalizePlugin,
    PreScorePlugin,
    Rows,
    ScorePlugin,
    Scores,
)
from scheduler.framework.plugin_times import PluginTimes
from scheduler.framework.pre_score import pre_score
from scheduler.messages.status import SKIP

if TYPE_CHECKING:
    from scheduler.cluster.pod_info import PodInfo
    from scheduler.cluster.view import View
    from scheduler.framework.profile import Profile

INFEASIBLE = -1
"""Rank of a row that does not fit: below every total, which are never negative."""

MOST_LEVELS = 4
"""Ranks whose rows are kept: the best one goes down and up again by a few steps as a class fills the nodes."""


_Moved = tuple[ScoreSlot, bool]
"""Who must look at what has changed, and whether its answers for all else hold."""


class ClassScores:
    """The PreScore, Score and Normalize answers of one class, and their sum."""

    def __init__(self, profile: Profile, unconcerned: frozenset[str]) -> None:
        concerned = [each for each in profile.score_plugins if each[0].name not in unconcerned]
        self._slots = [ScoreSlot(plugin, weight) for plugin, weight in concerned]
        self._times: PluginTimes | None = None
        self.evaluated: frozenset[PluginPoint] = frozenset()
        """Who had something to say at the last refresh, in PreScore and in Score."""
        self._may_skip_others = True
        """The plugins that skip are possibly others than when ``evaluated`` was made."""
        self._position = -1
        self._feasibility_version = -1
        most = sum(slot.weight for slot in self._slots) * MAX_NODE_SCORE
        self._rank_dtype = np.int32 if most < 2**31 else np.int64
        self.ranks: npt.NDArray[Any] = np.zeros(0, self._rank_dtype)
        """The total of each row (int32, int64 for huge weights), INFEASIBLE where the class does not fit."""
        self._epoch: tuple[int, ...] = ()
        """Of the view at the last refresh."""
        self._columns: list[ScoreSlot] | None = None
        """Whose contribution differs from row to row; None: to be looked at."""
        self._flat_shares: dict[str, int] = {}
        self._moved_by: dict[int, list[_Moved]] = {}
        """Flags of the row journal → who must look at such rows, as long as nothing else changes."""
        self._best = INFEASIBLE
        self._levels: dict[int, array[int]] = {}
        """Rank → rows, ascending, for ranks that were the best of late, kept up to date while single rows change:
        looking for them anew takes a pass over all rows."""

    @property
    def nbytes(self) -> int:
        kept = [slot.raw for slot in self._slots] + [slot.contribution for slot in self._slots]
        levels = sum(len(rows) * rows.itemsize for rows in self._levels.values())
        return self.ranks.nbytes + levels + sum(column.nbytes for column in kept if isinstance(column, np.ndarray))

    def take_from(self, other: ClassScores) -> None:
        """Begin with the answers of the same class elsewhere, where everything asked about is the same."""
        for slot, theirs in zip(self._slots, other._slots, strict=True):
            slot.stamp, slot.state = theirs.stamp, theirs.state
            slot.raw = theirs.raw.copy() if isinstance(theirs.raw, np.ndarray) else theirs.raw
            share = theirs.contribution
            slot.contribution = share.copy() if isinstance(share, np.ndarray) else share
        self.evaluated, self._may_skip_others = other.evaluated, other._may_skip_others
        self._position, self._epoch = other._position, other._epoch
        self._feasibility_version = other._feasibility_version
        self.ranks, self._best = other.ranks.copy(), other._best
        self._levels = {rank: rows[:] for rank, rows in other._levels.items()}

    def time_by(self, times: PluginTimes | None) -> None:
        """Calls are timed until None is said."""
        self._times = times

    # --- the class's own feasible rows --------------------------------------------------------------------------------

    def refresh(
        self,
        pod: PodInfo,
        fragments: Mapping[str, Hashable],
        view: View,
        journal: RowJournal,
        filters: ClassFilters,
    ) -> None:
        """Bring ``ranks`` up to date with the view and the filters' answers. Raises PluginError."""
        changes = journal.changes(self._position, MOST_SINGLE_ROWS) if self._position >= 0 else None
        size = view.table.size
        is_full = changes is None or len(self.ranks) != size
        if changes is None or is_full:
            changes = NO_CHANGES
        is_other_set = filters.feasibility_version != self._feasibility_version
        epoch = view.epoch
        is_same_epoch = epoch == self._epoch
        self._position = -1
        add_up = is_full or filters.changed_feasibility is None
        appeared: set[int] = set() if filters.changed_feasibility is None else filters.changed_feasibility
        gains: dict[int, int] = {}
        if is_full or is_other_set or not is_same_epoch:
            self._moved_by.clear()
            if is_full:
                slots = [(slot, False) for slot in self._slots]
            else:
                slots = self._moved(changes.flags, is_same_epoch, is_other_set)
        else:
            slots = self._moved_slots(changes.flags)
        for slot, holds in slots:
            try:
                if holds and slot.answer_is_kept:
                    is_other = self._refresh_rows(slot, pod, view, filters, changes, gains, is_other_set)
                else:
                    is_other = self._refresh_slot(
                        slot, pod, fragments, view, filters, changes, gains, is_full, is_other_set
                    )
            except PluginError:
                raise
            except Exception as error:
                raise PluginError(slot.plugin.name, "Score", error) from error
            add_up = is_other or add_up
        if add_up:
            self._add_up(filters, size)
        else:
            codes, ranks = filters.codes, self.ranks
            for row, gain in gains.items():
                if gain and row not in appeared and not codes.item(row):
                    self._rank_row(row, ranks.item(row) + gain)
            for row in appeared:
                self._rank_row(row, self._total_of(row) if filters.codes[row] == 0 else INFEASIBLE)
        filters.changed_feasibility = set()
        self._position = journal.position
        self._feasibility_version = filters.feasibility_version
        self._epoch = epoch

    def _moved_slots(self, flags: int) -> list[_Moved]:
        slots = self._moved_by.get(flags)
        if slots is None:
            slots = self._moved_by[flags] = self._moved(flags, True, False)
        return slots

    def _moved(self, flags: int, is_same_epoch: bool, is_other_set: bool) -> list[_Moved]:
        """Who must look at rows on which this has changed."""
        slots = [(slot, slot.holds(is_same_epoch)) for slot in self._slots]
        return [(slot, holds) for slot, holds in slots if not (holds and slot.is_unmoved_by(flags, is_other_set))]

    def _refresh_slot(
        self,
        slot: ScoreSlot,
        pod: PodInfo,
        fragments: Mapping[str, Hashable],
        view: View,
        filters: ClassFilters,
        changes: RowChanges,
        gains: dict[int, int],
        is_full: bool,
        is_other_set: bool,
    ) -> bool:
        """Whether the sum must be made anew for all rows."""
        self._columns = None
        stamp = slot.stamp_now(fragments, view)
        is_stale = is_full or not slot.is_declared or slot.state is None or stamp != slot.stamp
        if not slot.answer_is_kept:
            is_stale = is_stale or is_other_set or bool(changes.flags & slot.flags)
        slot.stamp = stamp
        if is_stale:
            was, skipped = slot.contribution, slot.state is SKIP
            slot.state = pre_score(slot.plugin, pod, view, filters.feasible_rows, self._times)
            if skipped is not (slot.state is SKIP):
                self._may_skip_others = True
            if slot.state is SKIP:
                slot.raw = slot.contribution = None
                return was is not None
            asked = view.rows if slot.answer_is_kept else _fitting(filters, view)
            raw = self._score_call(slot.plugin)(slot.state, pod, view, asked)
            if not slot.answer_is_kept:
                raw = _spread_out(raw, asked, view.table.size)
            slot.raw = raw
            self._contribute(slot, view, filters)
            return True
        if slot.state is SKIP or not slot.answer_is_kept or not (changes.flags or is_other_set):
            return False
        return self._refresh_rows(slot, pod, view, filters, changes, gains, is_other_set)

    def _refresh_rows(
        self,
        slot: ScoreSlot,
        pod: PodInfo,
        view: View,
        filters: ClassFilters,
        changes: RowChanges,
        gains: dict[int, int],
        is_other_set: bool,
    ) -> bool:
        """The changed rows, for a plugin whose answers depend on the row alone. Whether the sum must be made anew for
        all rows; else ``gains`` has row → change of its sum.
        """
        if not changes.flags & slot.flags:
            is_changed = False
        elif changes.many is not None:
            is_changed = self._many_rows(slot, pod, view, filters, changes.many)
        else:
            is_changed = self._few_rows(slot, pod, view, filters, changes.few_with(slot.flags), gains)
        if slot.normalizer is None:
            return is_changed
        if is_changed or (is_other_set and not slot.is_flat):
            self._contribute(slot, view, filters)
            return True
        return False

    def _many_rows(
        self, slot: ScoreSlot, pod: PodInfo, view: View, filters: ClassFilters, rows: npt.NDArray[np.int64]
    ) -> bool:
        """Whether any raw score, or where nothing is normalised any share of the sum, is another one."""
        scores = self._score_call(slot.plugin)(slot.state, pod, view, rows)
        if slot.normalizer is not None:
            raw = slot.raw
            assert raw is not None
            if isinstance(raw, int):
                if bool((scores == raw).all()):
                    return False
                raw = slot.raw = np.full(view.table.size, raw, np.int64)
            is_changed = bool((raw[rows] != scores).any())
            raw[rows] = scores
            return is_changed
        if len(scores) and (int(scores.min()) < 0 or int(scores.max()) > MAX_NODE_SCORE):
            fitting = scores[filters.codes[rows] == 0]
            if len(fitting):
                check_range(slot.plugin, int(fitting.min()), int(fitting.max()))
            # Nobody looks at the others, but the column may be too narrow for them.
            scores = np.clip(scores, 0, MAX_NODE_SCORE)
        shares = scores * slot.weight
        column = slot.contribution
        if column is None or isinstance(column, int):
            if bool((shares == column).all()):
                return False
            self._columns = None
            column = slot.contribution = np.full(view.table.size, column, share_dtype(slot.weight))
        column[rows] = shares
        return True

    def _few_rows(
        self,
        slot: ScoreSlot,
        pod: PodInfo,
        view: View,
        filters: ClassFilters,
        rows: Sequence[int],
        gains: dict[int, int],
    ) -> bool:
        """Whether any raw score that is normalised is another one; what changes in the sum else goes into ``gains``."""
        ask = slot.plugin.score_few
        if self._times is not None:
            ask = self._times.timing(ask, slot.name, "Score")
        scores = ask(slot.state, pod, view, rows)  # type: ignore[arg-type]
        if slot.normalizer is not None:
            return _few_raws(slot, view, rows, scores)
        column, weight = slot.contribution, slot.weight
        for place, row in enumerate(rows):
            score = scores[place]
            if not 0 <= score <= MAX_NODE_SCORE:
                if filters.codes[row] == 0:
                    raise InvalidScore(slot.name, score)
                # Nobody looks at it, but the column may be too narrow for it.
                score = 0
            share = score * weight
            before = column if isinstance(column, int) else column.item(row)  # type: ignore[union-attr]
            if share == before:
                continue
            gains[row] = gains.get(row, 0) + share - before
            if isinstance(column, int):
                self._columns = None
                column = slot.contribution = np.full(view.table.size, column, share_dtype(weight))
            column[row] = share  # type: ignore[index]
        return False

    def _contribute(self, slot: ScoreSlot, view: View, filters: ClassFilters) -> None:
        """Normalise and weigh ``slot.raw``."""
        self._columns = None
        raw = slot.raw
        assert raw is not None
        if isinstance(raw, int):
            raw = np.full(view.table.size, raw, np.int64)
        rows = _fitting(filters, view)
        if slot.normalizer is not None and not slot.answer_is_kept:
            slot.raw = None
            slot.contribution = self._normalized(slot, slot.normalizer, raw, view, rows)
            return
        low, high = int(raw.min()), int(raw.max())
        if slot.normalizer is None:
            if low < 0 or high > MAX_NODE_SCORE:
                # Rows that do not fit may score as they like.
                check_range(slot.plugin, int(raw[rows].min()), int(raw[rows].max()))
            slot.contribution = (
                low * slot.weight
                if low == high
                else (raw * slot.weight).astype(share_dtype(slot.weight, max(high, -low)))
            )
            slot.raw = None
            return
        if low == high:
            slot.raw = low
            (final,) = self._finals(slot, slot.normalizer, raw, view, filters.feasible_rows[:1])
            slot.contribution = int(final) * slot.weight
        else:
            slot.contribution = self._normalized(slot, slot.normalizer, raw, view, rows)

    def _normalized(
        self, slot: ScoreSlot, normalizer: NormalizePlugin, raw: Scores, view: View, rows: Rows
    ) -> npt.NDArray[np.integer]:
        """The weighted final scores of the rows asked, 0 elsewhere; one a row of the table."""
        shares = self._finals(slot, normalizer, raw, view, rows) * slot.weight
        if isinstance(rows, slice):
            return shares.astype(share_dtype(slot.weight))
        whole = np.zeros(view.table.size, share_dtype(slot.weight))
        whole[rows] = shares
        return whole

    def _finals(self, slot: ScoreSlot, normalizer: NormalizePlugin, raw: Scores, view: View, rows: Rows) -> Scores:
        finals = self._normalize_call(normalizer)(slot.state, raw[rows], view, rows)
        check_range(slot.plugin, int(finals.min()), int(finals.max()))
        return finals

    def _add_up(self, filters: ClassFilters, size: int) -> None:
        constant = 0
        columns: list[npt.NDArray[np.integer]] = []
        for slot in self._slots:
            if isinstance(slot.contribution, int):
                constant += slot.contribution
            elif slot.contribution is not None:
                columns.append(slot.contribution)
        ranks: npt.NDArray[Any] = np.full(size, constant, self._rank_dtype)
        for column in columns:
            ranks += column
        if filters.feasible_count != size:
            np.putmask(ranks, filters.codes != 0, INFEASIBLE)
        self.ranks = ranks
        self._levels = {}
        if self._may_skip_others:
            self._note_evaluated()

    def _note_evaluated(self) -> None:
        plugins = [slot.plugin for slot in self._slots if slot.state is not SKIP]
        said = {(plugin.name, "Score") for plugin in plugins}
        said |= {(plugin.name, "PreScore") for plugin in plugins if isinstance(plugin, PreScorePlugin)}
        self.evaluated = frozenset(said)
        self._may_skip_others = False

    def _rank_row(self, row: int, rank: int) -> None:
        before = self.ranks.item(row)
        if rank == before:
            return
        self.ranks[row] = rank
        levels = self._levels
        if not levels:
            return
        left = levels.get(before)
        if left is not None:
            del left[bisect_left(left, row)]
        joined = levels.get(rank)
        if joined is not None:
            insort(joined, row)
        elif rank > self._best:
            levels[rank] = array("i", (row,))
        self._best = max(self._best, rank)

    def leaders(self) -> tuple[int, Sequence[int]]:
        """The best rank and the rows that have it, ascending. Do not change them."""
        found = self._levels.get(self._best)
        if not found:
            self._best = best = int(np.maximum.reduce(self.ranks))
            found = self._levels.get(best)
            if found is None:
                if len(self._levels) >= MOST_LEVELS:
                    self._levels.clear()
                rows = (self.ranks == best).nonzero()[0]
                found = self._levels[best] = array("i", rows.astype(np.int32).tobytes())
        return self._best, found

    def _total_of(self, row: int) -> int:
        total = 0
        for slot in self._slots:
            contribution = slot.contribution
            if isinstance(contribution, int):
                total += contribution
            elif contribution is not None:
                total += contribution.item(row)
        return total

    def shares_of(self, row: int) -> dict[str, int]:
        """Plugin → weighted final score of one row; plugins that skipped are left out."""
        if self._columns is None:
            self._columns = [slot for slot in self._slots if isinstance(slot.contribution, np.ndarray)]
            self._flat_shares = {
                slot.name: slot.contribution for slot in self._slots if isinstance(slot.contribution, int)
            }
        shares = self._flat_shares.copy()
        for slot in self._columns:
            shares[slot.name] = slot.contribution.item(row)  # type: ignore[union-attr]
        return shares

    # --- other feasible rows ------------------------------------------------------------------------------------------

    def rank(
        self, pod: PodInfo, view: View, rows: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], dict[str, npt.NDArray[np.int64]]]:
        """Totals and the plugins' shares (int64, one a row of ``rows``) where only these of the class's feasible rows
        count: nominated pods, sampling or an extender took the others away. ``refresh`` must have come before.
        """
        total = np.zeros(len(rows), np.int64)
        shares: dict[str, npt.NDArray[np.int64]] = {}
        for slot in self._slots:
            try:
                share = self._share(slot, pod, view, rows)
            except PluginError:
                raise
            except Exception as error:
                raise PluginError(slot.plugin.name, "Score", error) from error
            if share is not None:
                shares[slot.plugin.name] = share
                total += share
        return total, shares

    def _share(
        self, slot: ScoreSlot, pod: PodInfo, view: View, rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64] | None:
        if slot.answer_is_kept:
            if slot.state is SKIP:
                return None
            if slot.normalizer is None:
                if isinstance(slot.contribution, int):
                    return np.full(len(rows), slot.contribution, np.int64)
                assert slot.contribution is not None
                return slot.contribution[rows].astype(np.int64)
            assert slot.raw is not None
            state = slot.state
            raw = np.full(len(rows), slot.raw, np.int64) if isinstance(slot.raw, int) else slot.raw[rows]
        else:
            state = pre_score(slot.plugin, pod, view, rows, self._times)
            if state is SKIP:
                return None
            raw = self._score_call(slot.plugin)(state, pod, view, rows)
        finals = self._normalize_call(slot.normalizer)(state, raw, view, rows) if slot.normalizer is not None else raw
        check_range(slot.plugin, int(finals.min()), int(finals.max()))
        return finals * slot.weight

    def _score_call(self, plugin: ScorePlugin) -> Callable[..., Scores]:
        return plugin.score if self._times is None else self._times.timing(plugin.score, plugin.name, "Score")

    def _normalize_call(self, plugin: NormalizePlugin) -> Callable[..., Scores]:
        if self._times is None:
            return plugin.normalize
        return self._times.timing(plugin.normalize, plugin.name, "ScoreExtensionNormalize")


def _few_raws(slot: ScoreSlot, view: View, rows: Sequence[int], scores: Sequence[int]) -> bool:
    """Take these raw scores, which are normalised later. Whether any is another one."""
    raw = slot.raw
    assert raw is not None
    is_changed = False
    for place, row in enumerate(rows):
        score = scores[place]
        if isinstance(raw, int):
            if raw == score:
                continue
            raw = slot.raw = np.full(view.table.size, raw, np.int64)
        if raw.item(row) != score:
            raw[row] = score
            is_changed = True
    return is_changed


def _fitting(filters: ClassFilters, view: View) -> Rows:
    """The rows that fit; a slice, which costs less, where all do."""
    return view.rows if filters.feasible_count == view.table.size else filters.feasible_rows


def _spread_out(scores: Scores, rows: Rows, size: int) -> Scores:
    if isinstance(rows, slice):
        return scores
    whole = np.zeros(size, np.int64)
    whole[rows] = scores
    return whole
