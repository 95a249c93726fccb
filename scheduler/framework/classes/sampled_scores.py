"""The scores of a sample of the rows that a class of pods fits on. See ``cache.py`` for the idea.

With ``percentageOfNodesToScore`` each decision of a class compares other rows, so that no totals of all rows are kept.
What does not depend on the sample is kept, row by row: a plugin's raw scores or, where it does not normalise, its
shares of the total, and the sum of such shares. The rest is worked out for the rows of the sample: raw scores are
normalised, and a plugin that reads which rows fit is asked, by group if it can be.

The first decision of a class asks about the rows of its sample alone: what is never asked again is not worth a look at
all rows. Errors and invalid scores count on the rows of the sample alone, too, as in kube-scheduler: a plugin that has
one elsewhere is asked about the sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_not
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.cluster.longer import longer
from scheduler.cluster.row_journal import NO_CHANGES, RowChanges
from scheduler.cluster.view import COUNTS_OF_PODS
from scheduler.errors import PluginError
from scheduler.framework.class_run import ClassRun, PluginPoint
from scheduler.framework.classes.filters import MAX_SINGLE_ROWS
from scheduler.framework.classes.first_refusals import FirstRefusals
from scheduler.framework.classes.ranks import total_dtype
from scheduler.framework.classes.score_calls import (
    asked_by_group,
    asked_share,
    evaluated,
    finals,
    kept_share,
    score_call,
    score_few_call,
)
from scheduler.framework.classes.score_columns import (
    store_all_shares,
    store_few_raws,
    store_few_shares,
    store_many_raws,
    store_many_shares,
)
from scheduler.framework.classes.score_slot import ScoreSlot, check_range, stale_slots
from scheduler.framework.plugin import MAX_NODE_SCORE, ScorePlugin
from scheduler.framework.pre_score import pre_score
from scheduler.framework.shortcuts import ChangedRows, Fitting, GroupScores
from scheduler.messages.status import SKIP

Share = npt.NDArray[np.int64] | int


class SampledScores:
    """The PreScore, Score and Normalize answers of one class for one sample after the other.

    ``score_plugins``: a profile's, with their weights; ``unconcerned`` names those that pods of the class do not
    concern.
    """

    def __init__(self, score_plugins: Sequence[tuple[ScorePlugin, int]], unconcerned: frozenset[str]) -> None:
        self._slots = [ScoreSlot(plugin, weight) for plugin, weight in score_plugins if plugin.name not in unconcerned]
        self._known_slots = [slot for slot in self._slots if slot.answer_is_kept or slot.grouping is not None]
        """Those of which something is kept: answers by row or by group, or that the plugin skips."""
        self._stamped_slots = [slot for slot in self._known_slots if slot.has_stamp]
        self._counting_slots = [slot for slot in self._stamped_slots if slot.counts_pods]
        self.evaluated: frozenset[PluginPoint] = frozenset()
        """The plugins that did not skip the last sample, with the point: PreScore or Score."""
        self.columns_made = 0
        """Grows with each column that is allocated: the class's size in bytes may have changed."""
        self._dtype = total_dtype(sum(slot.weight for slot in self._slots) * MAX_NODE_SCORE)
        self._is_begun = False
        self._samples = 0
        self._rows_version = -1
        self._size = 0
        self._versions: tuple[int, ...] = ()
        """The view's versions when the kept answers were brought up to date."""
        self._skipping: tuple[bool, ...] = ()
        """By slot, as ``evaluated`` was made."""
        self._asked_slots = self._slots
        """Those whose shares are worked out for each sample; of the others each share is a number, or in ``_sum``."""
        self._summed_slots: list[ScoreSlot] = []
        self._sum: npt.NDArray[Any] | None = None
        """By row: the sum of the shares of ``_summed_slots``; None: to be added up, and the slots to be sorted."""
        self._flat_shares: dict[str, int] = {}
        self._of_sample: dict[str, Share] = {}
        """The shares of ``_asked_slots`` in the last sample, by plugin."""

    @property
    def nbytes(self) -> int:
        return (0 if self._sum is None else self._sum.nbytes) + sum(slot.nbytes for slot in self._slots)

    def totals(self, run: ClassRun, first: FirstRefusals, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The total of each of ``rows``, of which there is one at least, if no others were feasible. ``first``: brought
        up to date in this run. Raises PluginError."""
        self._samples -= 1
        fitting = Fitting(first.codes, len(rows), self._samples, rows=rows)
        if self._is_begun:
            self._refresh(run, first, fitting)
        self._is_begun = True
        total = np.zeros(len(rows), np.int64) if self._sum is None else self._sum.take(rows).astype(np.int64)
        equal = sum(self._flat_shares.values())
        self._of_sample = {}
        for slot in self._asked_slots:
            try:
                share = self._share(slot, run, fitting, rows)
            except PluginError:
                raise
            except Exception as error:
                raise PluginError(slot.name, "Score", error) from error
            if share is None:
                if slot in self._known_slots:
                    # Sort the slots again: as long as the SKIP holds, the plugin is not asked about the next sample.
                    self._sum = None
                continue
            self._of_sample[slot.name] = share
            if isinstance(share, int):
                equal += share
            else:
                total += share
        total += equal
        skipping = tuple([slot.state is SKIP for slot in self._slots])
        if skipping != self._skipping:
            self._skipping = skipping
            self.evaluated = evaluated(self._slots)
        return total

    def shares_of(self, row: int, place: int) -> dict[str, int]:
        """Plugin → weighted final score of one row of the last sample, without plugins that skipped. ``place``: where
        it is among its rows."""
        shares = self._flat_shares.copy()
        for slot in self._summed_slots:
            shares[slot.name] = slot.contribution.item(row)  # type: ignore[union-attr]  # an array, by _sort_slots
        for name, share in self._of_sample.items():
            shares[name] = share if isinstance(share, int) else share.item(place)
        return shares

    # --- what does not depend on the sample ---------------------------------------------------------------------------

    def _refresh(self, run: ClassRun, first: FirstRefusals, fitting: Fitting) -> None:
        """Brings what is kept up to date with the view."""
        view, journal, size = run.view, run.journal, len(first.codes)
        found = journal.changes(self._rows_version, MAX_SINGLE_ROWS) if self._rows_version >= 0 else None
        more = size - self._size
        is_full = found is None or more > MAX_SINGLE_ROWS
        if more and not is_full:
            self._grow(size)
        if is_full:
            self._sum = None
        changes = NO_CHANGES if found is None or is_full else found
        versions = view.versions
        stale: Sequence[ScoreSlot] = ()
        if not is_full and versions != self._versions:
            is_of_pods = versions[:-COUNTS_OF_PODS] == self._versions[:-COUNTS_OF_PODS]
            stale = stale_slots(self._counting_slots if is_of_pods else self._stamped_slots, run)
        self._rows_version = -1
        if is_full or changes.flags or stale:
            gains: dict[int, int] = {}
            for slot in self._known_slots:
                holds = not is_full and slot.holds(stale)
                if not holds or changes.flags & slot.flags:
                    self._refresh_slot(slot, run, first, fitting, changes if holds else None, gains)
            if self._sum is not None:
                self._add_changes(changes, gains)
        if self._sum is None:
            self._sort_slots(size)
        self._rows_version, self._size, self._versions = journal.version, size, versions

    def _grow(self, size: int) -> None:
        """The table has more rows, of which nothing is known yet."""
        for slot in self._slots:
            slot.grow(size)
        self._sum = None if self._sum is None else longer(self._sum, size, 0)
        self.columns_made += 1

    def _refresh_slot(
        self,
        slot: ScoreSlot,
        run: ClassRun,
        first: FirstRefusals,
        fitting: Fitting,
        changes: RowChanges | None,
        gains: dict[int, int],
    ) -> None:
        """``changes``: where the slot's other answers hold; None: they do not."""
        was = _kept_of(slot)
        try:
            if not slot.answer_is_kept:
                # Its scores hold for one sample only; a SKIP holds for all.
                slot.stamp = slot.stamp_now(run)
                slot.state = None if slot.state is SKIP else slot.state
            elif changes is None:
                self._keep_all(slot, run, first, fitting)
            elif slot.by_group is None and slot.state is not SKIP:
                _keep_rows(slot, run, first, changes, gains)
        except Exception:  # noqa: BLE001 - it may be of a row outside of the sample: if not, it is raised again
            slot.state = slot.raw = slot.contribution = slot.by_group = None
        if any(map(is_not, was, _kept_of(slot))):
            self._sum = None
            self.columns_made += 1

    def _keep_all(self, slot: ScoreSlot, run: ClassRun, first: FirstRefusals, fitting: Fitting) -> None:
        """The answers for all rows."""
        slot.stamp = slot.stamp_now(run)
        answer = asked_by_group(slot, run, fitting)
        if isinstance(answer, GroupScores):
            slot.by_group, slot.state = answer, answer.state
            slot.raw = slot.contribution = None
            return
        slot.by_group = None
        if isinstance(answer, ChangedRows):
            slot.state = answer.state
            if slot.raw is not None and len(answer.rows) <= MAX_SINGLE_ROWS:
                _keep_few(slot, run, first, [*answer.rows], {})
                return
            answer = answer.state
        rows = fitting.rows
        assert rows is not None
        slot.state = pre_score(slot.plugin, run, rows) if answer is None else answer
        if slot.state is SKIP:
            slot.raw = slot.contribution = None
            return
        scores = score_call(run, slot.plugin)(slot.state, run.pod, run.view, run.view.rows)
        if slot.normalizer is None:
            store_all_shares(slot, first, scores)
            return
        low = int(scores.min())
        is_flat = low == int(scores.max())
        slot.raw, slot.contribution = low if is_flat else scores, None
        if is_flat:
            # Equal scores stay equal, whichever rows are normalised.
            (final,) = finals(slot, slot.normalizer, scores, run, rows[:1])
            slot.contribution = int(final) * slot.weight

    def _add_changes(self, changes: RowChanges, gains: dict[int, int]) -> None:
        assert self._sum is not None
        for row, gain in gains.items():
            self._sum[row] += gain
        if changes.many is not None and self._summed_slots:
            # In the type of the sum: the type of one column may be too narrow.
            added = np.zeros(len(changes.many), self._dtype)
            for slot in self._summed_slots:
                added += slot.contribution[changes.many]  # type: ignore[index]  # an array, by _sort_slots
            self._sum[changes.many] = added

    def _sort_slots(self, size: int) -> None:
        self._asked_slots, self._summed_slots, self._flat_shares = [], [], {}
        self._sum = np.zeros(size, self._dtype)
        for slot in self._slots:
            if slot.state is SKIP and slot in self._known_slots:
                continue
            if not isinstance(slot.contribution, np.ndarray | int):
                self._asked_slots.append(slot)
            elif isinstance(slot.contribution, int):
                self._flat_shares[slot.name] = slot.contribution
            else:
                self._summed_slots.append(slot)
                self._sum += slot.contribution

    # --- the sample ---------------------------------------------------------------------------------------------------

    def _share(self, slot: ScoreSlot, run: ClassRun, fitting: Fitting, rows: npt.NDArray[np.int64]) -> Share | None:
        """The weighted final scores of these rows; None if the plugin skips."""
        if slot.grouping is not None and (slot.by_group is not None or not slot.answer_is_kept):
            found = slot.by_group
            if found is None or found.fits_version != fitting.version:
                answer = asked_by_group(slot, run, fitting)
                found = slot.by_group = answer if isinstance(answer, GroupScores) else None
            if found is not None:
                slot.state = found.state
                return _share_by_group(slot, found, rows)
        if slot.answer_is_kept and isinstance(slot.raw, np.ndarray):
            return kept_share(slot, run, rows)
        slot.state, share = asked_share(slot, run, rows)
        return share


def _kept_of(slot: ScoreSlot) -> tuple[object, ...]:
    """What determines how the slot's shares are found: compared by identity."""
    return slot.state is SKIP, slot.by_group is None, slot.raw, slot.contribution


def _keep_rows(
    slot: ScoreSlot, run: ClassRun, first: FirstRefusals, changes: RowChanges, gains: dict[int, int]
) -> None:
    """The answers for the rows that have changed."""
    rows = changes.many
    if rows is None:
        _keep_few(slot, run, first, changes.few_with(slot.flags), gains)
        return
    scores = score_call(run, slot.plugin)(slot.state, run.pod, run.view, rows)
    if slot.normalizer is None:
        store_many_shares(slot, first, rows, scores)
    elif store_many_raws(slot, first, rows, scores):
        slot.contribution = None


def _keep_few(slot: ScoreSlot, run: ClassRun, first: FirstRefusals, rows: Sequence[int], gains: dict[int, int]) -> None:
    scores = score_few_call(run, slot)(slot.state, run.pod, run.view, rows)
    if slot.normalizer is None:
        store_few_shares(slot, first, rows, scores, gains)
    elif store_few_raws(slot, first, rows, scores):
        slot.contribution = None


def _share_by_group(slot: ScoreSlot, found: GroupScores, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    scores = found.finals.take(found.groups.take(rows))
    check_range(slot.plugin, int(np.minimum.reduce(scores)), int(np.maximum.reduce(scores)))
    return scores * slot.weight
