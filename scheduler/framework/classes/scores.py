"""The scores of the rows for a class of pods, kept up to date row by row. See ``cache.py`` for the idea."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from scheduler.cluster.row_journal import NO_CHANGES
from scheduler.cluster.view import COUNTS_OF_PODS
from scheduler.errors import PluginError
from scheduler.framework.class_run import ClassRun, PluginPoint
from scheduler.framework.classes.extremes import Extremes
from scheduler.framework.classes.filters import MAX_SINGLE_ROWS
from scheduler.framework.classes.first_refusals import Block, FirstRefusals
from scheduler.framework.classes.ranks import INFEASIBLE, Ranks
from scheduler.framework.classes.score_calls import (
    asked_by_group,
    evaluated,
    finals,
    fitting_since,
    normalized,
    points_of,
    ranked,
    renormalized,
    score_call,
    score_few_call,
    spread_out,
    take_by_group,
)
from scheduler.framework.classes.score_columns import (
    store_all_shares,
    store_few_raws,
    store_few_shares,
    store_many_raws,
    store_many_shares,
)
from scheduler.framework.classes.score_refresh import ScoreRefresh
from scheduler.framework.classes.score_slot import InvalidScore, ScoreSlot, stale_slots
from scheduler.framework.plugin import MAX_NODE_SCORE, ScorePlugin
from scheduler.framework.pre_score import pre_score
from scheduler.framework.shortcuts import ChangedRows, GroupScores
from scheduler.messages.status import SKIP

Column = npt.NDArray[np.integer] | int | None
_Affected = tuple[ScoreSlot, bool]
"""A slot affected by a change, and whether its answers for all other rows are still valid."""


class ClassScores:
    """The PreScore, Score and Normalize answers of one class, and their sum.

    ``score_plugins``: a profile's, with their weights; ``unconcerned`` names those that pods of the class do not
    concern.
    """

    def __init__(self, score_plugins: Sequence[tuple[ScorePlugin, int]], unconcerned: frozenset[str]) -> None:
        self._slots = [ScoreSlot(plugin, weight) for plugin, weight in score_plugins if plugin.name not in unconcerned]
        self._stamped_slots = [slot for slot in self._slots if slot.has_stamp]
        self._counting_slots = [slot for slot in self._stamped_slots if slot.counts_pods]
        self.evaluated: frozenset[PluginPoint] = frozenset()
        """The plugins that did not skip at the last refresh, with the point: PreScore or Score."""
        self.columns_made = 0
        """Grows with each column that is allocated: the class's size in bytes may have changed."""
        self._skips_changed = True
        """Whether the skipping plugins may have changed since ``evaluated`` was computed."""
        self._rows_version = -1
        self._fits_version = -1
        """The version up to which the filters' log of changed rows has been read."""
        self._ranks = Ranks(sum(slot.weight for slot in self._slots) * MAX_NODE_SCORE)
        self._versions: tuple[int, ...] = ()
        """The view's versions at the last refresh."""
        self._columns: list[ScoreSlot] | None = None
        """The slots whose contribution differs from row to row; None: not computed."""
        self._flat_shares: dict[str, int] = {}
        self._affected_by: dict[Hashable, list[_Affected]] = {}
        """Flags of the row journal, whether other rows fit, and stale slots → the slots that are affected; valid for
        the same ``_columns``."""

    @property
    def nbytes(self) -> int:
        return self._ranks.nbytes + sum(slot.nbytes for slot in self._slots)

    def take_from(self, other: ClassScores) -> None:
        """Copies the answers of the same class from another cache whose cluster is equal."""
        for slot, theirs in zip(self._slots, other._slots, strict=True):
            slot.take_from(theirs)
        self.evaluated, self._skips_changed = other.evaluated, other._skips_changed
        self._rows_version, self._fits_version = other._rows_version, other._fits_version
        self._versions = other._versions
        self._ranks = other._ranks.copied()
        self.columns_made += 1

    @property
    def totals(self) -> npt.NDArray[np.integer]:
        """The total of each row, INFEASIBLE where the class does not fit."""
        return self._ranks.totals

    def leaders(self) -> tuple[int, Sequence[int]]:
        """The best total and its rows, ascending; valid until the next refresh. Don't mutate the rows."""
        return self._ranks.leaders()

    # --- the class's own feasible rows --------------------------------------------------------------------------------

    def refresh(self, run: ClassRun, first: FirstRefusals) -> None:
        """Brings the totals up to date with the view and the feasible rows. Raises PluginError."""
        view, journal = run.view, run.journal
        changes = journal.changes(self._rows_version, MAX_SINGLE_ROWS) if self._rows_version >= 0 else None
        more = view.table.size - len(self._ranks.totals)
        is_full = changes is None or more > MAX_SINGLE_ROWS
        if changes is None or is_full:
            changes = NO_CHANGES
        elif more:
            self._grow(view.table.size)
        feasible_changed = first.fits_version != self._fits_version
        block = first.block_since(self._fits_version) if feasible_changed else None
        appeared = first.changed_since(self._fits_version if block is None else block.after) if feasible_changed else ()
        versions = view.versions
        self._rows_version = -1
        refresh = ScoreRefresh(run, first, changes, is_full, feasible_changed)
        adds_all = is_full or appeared is None
        stale: Sequence[ScoreSlot] = ()
        if not is_full and versions != self._versions:
            is_of_pods = versions[:-COUNTS_OF_PODS] == self._versions[:-COUNTS_OF_PODS]
            stale = stale_slots(self._counting_slots if is_of_pods else self._stamped_slots, run)
        for slot, holds in self._slots_for(refresh, stale):
            try:
                if holds and slot.answer_is_kept:
                    has_changed = self._refresh_rows(slot, refresh)
                else:
                    has_changed = self._refresh_slot(slot, refresh)
            except InvalidScore:
                if not slot.answer_is_kept:
                    raise
                has_changed = self._ask_about_fitting(slot, refresh)
            except PluginError:
                raise
            except Exception as error:
                raise PluginError(slot.plugin.name, "Score", error) from error
            adds_all = has_changed or adds_all
        if adds_all or appeared is None:
            self._add_up(first)
        else:
            self._add_up_rows(first, refresh.gains, appeared, block)
        self._rows_version = journal.version
        self._fits_version = first.fits_version
        self._versions = versions

    def _grow(self, size: int) -> None:
        """The table has more rows, of which nothing is known yet."""
        self._ranks.grow(size)
        for slot in self._slots:
            slot.grow(size)
        # Drops ``_affected_by``, too: slots are asked again whose answers hold after any other change of a row.
        self._columns = None
        self.columns_made += 1

    def _slots_for(self, refresh: ScoreRefresh, stale: Sequence[ScoreSlot]) -> list[_Affected]:
        if refresh.is_full:
            self._columns = None
            return [(slot, False) for slot in self._slots]
        if self._columns is None:
            self._find_columns()
        flags, feasible_changed = refresh.changes.flags, refresh.feasible_changed
        key: Hashable = (flags, feasible_changed, *stale) if stale or feasible_changed else flags
        slots = self._affected_by.get(key)
        if slots is None:
            slots = self._affected_by[key] = self._affected(flags, stale, feasible_changed)
        return slots

    def _affected(self, flags: int, stale: Sequence[ScoreSlot], feasible_changed: bool) -> list[_Affected]:
        """The slots affected by rows with these journal flags."""
        affected: list[_Affected] = []
        for slot in self._slots:
            holds = slot.holds(stale)
            if not holds or not slot.is_unaffected_by(flags, feasible_changed):
                affected.append((slot, holds))
        return affected

    def _refresh_slot(self, slot: ScoreSlot, refresh: ScoreRefresh) -> bool:
        """Returns whether the totals of all rows must be added up."""
        run = refresh.run
        stamp = slot.stamp_now(run)
        is_stale = refresh.is_full or not slot.is_declared or slot.state is None or stamp != slot.stamp
        if not slot.answer_is_kept:
            is_stale = is_stale or refresh.feasible_changed or bool(refresh.changes.flags & slot.flags)
        slot.stamp = stamp
        if is_stale:
            return self._ask_all(slot, refresh)
        if slot.state is SKIP or not slot.answer_is_kept or not (refresh.changes.flags or refresh.feasible_changed):
            return False
        return self._refresh_rows(slot, refresh)

    def _ask_all(self, slot: ScoreSlot, refresh: ScoreRefresh) -> bool:
        run = refresh.run
        before, was, skipped = slot.raw, slot.contribution, slot.state is SKIP
        # By group only from the second decision of a class on: what is never asked again is not worth grouping.
        answer = None if refresh.is_full else asked_by_group(slot, run, fitting_since(slot, refresh.first))
        if isinstance(answer, GroupScores):
            known = slot.by_group is not None
            adds_all = take_by_group(slot, answer, refresh.gains)
            # Without columns to compare with where it begins to score by group: other changes affect it from now on.
            self._note_columns(slot, before if known else None, was if known else None)
            return adds_all
        if isinstance(answer, ChangedRows):
            if slot.raw is not None and len(answer.rows) <= MAX_SINGLE_ROWS:
                slot.state = answer.state
                return self._normalize_again(slot, refresh, self._few_rows(slot, refresh, [*answer.rows]))
            answer = answer.state
        slot.by_group = None
        slot.state = pre_score(slot.plugin, run, refresh.first.feasible_rows) if answer is None else answer
        if skipped is not (slot.state is SKIP):
            self._skips_changed = True
        if slot.state is SKIP:
            self._columns = slot.raw = slot.contribution = None
            return was is not None
        asked = run.view.rows if slot.answer_is_kept else refresh.fitting
        raw = score_call(run, slot.plugin)(slot.state, run.pod, run.view, asked)
        if not slot.answer_is_kept:
            raw = spread_out(raw, asked, run.view.table.size)
        slot.raw = raw
        self._contribute(slot, refresh)
        return True

    def _ask_about_fitting(self, slot: ScoreSlot, refresh: ScoreRefresh) -> bool:
        """As ``_ask_all``, after a score out of range. It may be that of a row on which the class does not fit, and the
        other slots' answers are worth keeping: from now on this one is asked about rows that fit alone."""
        slot.answer_is_kept = False
        try:
            return self._ask_all(slot, refresh)
        except PluginError:
            raise
        except Exception as error:
            raise PluginError(slot.plugin.name, "Score", error) from error

    def _refresh_rows(self, slot: ScoreSlot, refresh: ScoreRefresh) -> bool:
        """Updates the changed rows of a plugin whose answers depend on the row alone. Returns whether the totals of all
        rows must be added up; otherwise the changes are in ``refresh.gains``.
        """
        changes = refresh.changes
        if slot.by_group is not None:
            affects = bool(changes.flags & slot.flags) or refresh.feasible_changed
            return affects and self._ask_all(slot, refresh)
        if not changes.flags & slot.flags:
            has_changed = False
        elif changes.many is not None:
            has_changed = self._many_rows(slot, refresh, changes.many)
        else:
            has_changed = self._few_rows(slot, refresh, changes.few_with(slot.flags))
        return has_changed if slot.normalizer is None else self._normalize_again(slot, refresh, has_changed)

    def _normalize_again(self, slot: ScoreSlot, refresh: ScoreRefresh, has_changed: bool) -> bool:
        """Normalises all rows if need be, and returns whether it has."""
        if has_changed or (refresh.feasible_changed and not slot.is_flat):
            self._contribute(slot, refresh)
            return True
        return False

    def _many_rows(self, slot: ScoreSlot, refresh: ScoreRefresh, rows: npt.NDArray[np.int64]) -> bool:
        """Returns whether any raw score has changed or, without normalising, any share of the total."""
        run = refresh.run
        scores = score_call(run, slot.plugin)(slot.state, run.pod, run.view, rows)
        was = slot.raw, slot.contribution
        if slot.normalizer is None:
            has_changed = store_many_shares(slot, refresh.first, rows, scores)
        else:
            has_changed = store_many_raws(slot, refresh.first, rows, scores)
        self._note_columns(slot, *was)
        return has_changed

    def _few_rows(self, slot: ScoreSlot, refresh: ScoreRefresh, rows: Sequence[int]) -> bool:
        """Returns whether all rows must be normalised again; other changes go into ``refresh.gains``."""
        run = refresh.run
        scores = score_few_call(run, slot)(slot.state, run.pod, run.view, rows)
        was = slot.raw, slot.contribution
        if slot.normalizer is None:
            store_few_shares(slot, refresh.first, rows, scores, refresh.gains)
            self._note_columns(slot, *was)
            return False
        changed = store_few_raws(slot, refresh.first, rows, scores)
        self._note_columns(slot, *was)
        if not changed or refresh.feasible_changed:
            return bool(changed)
        return not renormalized(slot, run, refresh.first, changed, refresh.gains)

    def _note_columns(self, slot: ScoreSlot, raw: Column, contribution: Column) -> None:
        """Note that the parts of the totals have changed, unless the slot has columns like those that it had."""
        if not (_is_alike(slot.raw, raw) and _is_alike(slot.contribution, contribution)):
            self._columns = None
            self.columns_made += 1

    def _contribute(self, slot: ScoreSlot, refresh: ScoreRefresh) -> None:
        """Normalises and weights ``slot.raw``."""
        self._columns = None
        self.columns_made += 1
        raw = slot.raw
        assert raw is not None
        if isinstance(raw, int):
            raw = np.full(refresh.run.view.table.size, raw, np.int64)
        rows = refresh.fitting
        if slot.normalizer is not None and not slot.answer_is_kept:
            slot.raw = None
            slot.contribution = normalized(slot, slot.normalizer, raw, refresh.run, rows)
            return
        if slot.normalizer is None:
            store_all_shares(slot, refresh.first, raw)
            return
        low, high = int(raw.min()), int(raw.max())
        slot.extremes = None
        if low == high:
            slot.raw = low
            (final,) = finals(slot, slot.normalizer, raw, refresh.run, refresh.first.feasible_rows[:1])
            slot.contribution = int(final) * slot.weight
            return
        if slot.extremes_normalizer is not None:
            if not isinstance(rows, slice):
                fitting = raw[rows]
                low, high = int(fitting.min()), int(fitting.max())
            slot.extremes = Extremes(low, high)
        slot.contribution = normalized(slot, slot.normalizer, raw, refresh.run, rows)

    # --- the sum ------------------------------------------------------------------------------------------------------

    def _add_up(self, first: FirstRefusals) -> None:
        before = self._ranks.totals
        self._ranks.add_up(*self._parts(), first)
        self.columns_made += len(before) != len(self._ranks.totals)
        if self._skips_changed:
            self.evaluated = evaluated(self._slots)
            self._skips_changed = False

    def _add_up_rows(
        self, first: FirstRefusals, gains: dict[int, int], appeared: Sequence[int], block: Block | None
    ) -> None:
        """``appeared``: rows that began or ceased to fit, after those of a ``block``."""
        codes, ranks = first.codes, self._ranks
        changed = set(appeared)
        if block is not None:
            ranks.exclude(block.ceased, forgets_levels=len(block.began) > 0)
        for row, gain in gains.items():
            if gain and row not in changed and not codes.item(row):
                ranks.set_row(row, ranks.totals.item(row) + gain)
        if block is not None and len(block.began):
            # After the gains: the columns, which are added up here, contain them already.
            ranks.set_rows(block.began, *self._parts())
        for row in changed:
            ranks.set_row(row, INFEASIBLE if codes.item(row) else sum(self.shares_of(row).values()))

    def _parts(self) -> tuple[int, list[npt.NDArray[np.integer]]]:
        """What totals are the sums of."""
        if self._columns is None:
            self._find_columns()
        columns = [slot.contribution for slot in self._columns or () if isinstance(slot.contribution, np.ndarray)]
        return sum(self._flat_shares.values()), columns

    def _find_columns(self) -> None:
        self._affected_by.clear()
        self._columns = [slot for slot in self._slots if isinstance(slot.contribution, np.ndarray)]
        self._flat_shares = {slot.name: slot.contribution for slot in self._slots if isinstance(slot.contribution, int)}

    def shares_of(self, row: int) -> dict[str, int]:
        """Plugin → weighted final score of one row, without plugins that skipped."""
        if self._columns is None:
            self._find_columns()
        shares = self._flat_shares.copy()
        for slot in self._columns or ():
            shares[slot.name] = slot.contribution.item(row)  # type: ignore[union-attr]  # an array, by _find_columns
        return shares

    # --- other feasible rows ------------------------------------------------------------------------------------------

    def rank(
        self, run: ClassRun, rows: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], dict[str, npt.NDArray[np.int64] | int]]:
        """Totals and the plugins' shares (int64, one per row of ``rows``, or a number for all of them) if only these of
        the class's feasible rows count: nominated pods, sampling or an extender have excluded the others. ``refresh``
        comes first; if it has failed, no answer of before is used."""
        uses_kept = self._rows_version >= 0
        totals, shares = ranked(self._slots, run, rows, uses_kept=uses_kept)
        if not uses_kept:
            self.evaluated = points_of([slot.plugin for slot in self._slots if slot.name in shares])
            self._skips_changed = True
        return totals, shares


def _is_alike(now: Column, before: Column) -> bool:
    """Whether both are the same, or columns of one size."""
    if now is before:
        return True
    return isinstance(now, np.ndarray) and isinstance(before, np.ndarray) and now.nbytes == before.nbytes
