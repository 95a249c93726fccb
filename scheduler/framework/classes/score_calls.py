"""Calls of one score plugin for one class of pods, and the plugin's shares of the total."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from scheduler.errors import PluginError
from scheduler.framework.class_run import ClassRun, PluginPoint
from scheduler.framework.classes.first_refusals import FirstRefusals
from scheduler.framework.classes.score_slot import ScoreSlot, check_range, share_dtype
from scheduler.framework.plugin import MAX_NODE_SCORE, NormalizePlugin, PreScorePlugin, Rows, ScorePlugin, Scores, State
from scheduler.framework.pre_score import pre_score
from scheduler.framework.shortcuts import ChangedRows, Fitting, GroupScores
from scheduler.messages.status import SKIP, Skip


def evaluated(slots: Sequence[ScoreSlot]) -> frozenset[PluginPoint]:
    """The plugins that did not skip, with the points."""
    return points_of([slot.plugin for slot in slots if slot.state is not SKIP])


def points_of(plugins: Sequence[ScorePlugin]) -> frozenset[PluginPoint]:
    """These plugins with the points at which they score."""
    said = {(plugin.name, "Score") for plugin in plugins}
    return frozenset(said | {(plugin.name, "PreScore") for plugin in plugins if isinstance(plugin, PreScorePlugin)})


def share_of(
    slot: ScoreSlot, run: ClassRun, rows: npt.NDArray[np.int64], *, uses_kept: bool
) -> npt.NDArray[np.int64] | int | None:
    """The weighted final scores of these rows as if no others were feasible: int64, or a number if they are all equal;
    None if the plugin skips. ``uses_kept``: answers that are kept are up to date."""
    if not uses_kept or not slot.answer_is_kept or slot.by_group is not None:
        return asked_share(slot, run, rows)[1]
    if slot.state is SKIP:
        return None
    share = slot.contribution
    if slot.normalizer is None or isinstance(slot.raw, int):
        # Checked when it was stored. Equal scores stay equal, whichever rows are normalised.
        return share if isinstance(share, int | None) else share[rows].astype(np.int64)
    return kept_share(slot, run, rows)


def kept_share(slot: ScoreSlot, run: ClassRun, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """As ``share_of``, int64, for a plugin that normalises, from its column of raw scores."""
    assert isinstance(slot.raw, np.ndarray)
    return _share(slot, slot.state, slot.raw[rows], run, rows)


def asked_share(
    slot: ScoreSlot, run: ClassRun, rows: npt.NDArray[np.int64]
) -> tuple[State | Skip, npt.NDArray[np.int64] | None]:
    """The plugin's PreScore answer for these rows, and its weighted final scores as if no others were feasible: int64;
    None if it skips."""
    state = pre_score(slot.plugin, run, rows)
    if state is SKIP:
        return SKIP, None
    raw = score_call(run, slot.plugin)(state, run.pod, run.view, rows)
    return state, _share(slot, state, raw, run, rows)


def _share(
    slot: ScoreSlot, state: State | Skip | None, raw: Scores, run: ClassRun, rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """``raw``: one per row of ``rows``."""
    scores = raw if slot.normalizer is None else _normalize_call(run, slot.normalizer)(state, raw, run.view, rows)
    check_range(slot.plugin, int(scores.min()), int(scores.max()))
    shares: npt.NDArray[np.int64] = scores * slot.weight
    return shares


def ranked(
    slots: Sequence[ScoreSlot], run: ClassRun, rows: npt.NDArray[np.int64], *, uses_kept: bool
) -> tuple[npt.NDArray[np.int64], dict[str, npt.NDArray[np.int64] | int]]:
    """Totals and the plugins' shares, as if no other rows were feasible; a number where it is that of all rows."""
    total = np.zeros(len(rows), np.int64)
    equal = 0
    shares: dict[str, npt.NDArray[np.int64] | int] = {}
    for slot in slots:
        try:
            share = share_of(slot, run, rows, uses_kept=uses_kept)
        except PluginError:
            raise
        except Exception as error:
            raise PluginError(slot.plugin.name, "Score", error) from error
        if share is None:
            continue
        shares[slot.plugin.name] = share
        if isinstance(share, int):
            equal += share
        else:
            total += share
    total += equal
    return total, shares


def normalized(
    slot: ScoreSlot, normalizer: NormalizePlugin, raw: Scores, run: ClassRun, rows: Rows
) -> npt.NDArray[np.integer]:
    """The weighted final scores of ``rows``, 0 elsewhere; one per row of the table."""
    shares = finals(slot, normalizer, raw, run, rows) * slot.weight
    if isinstance(rows, slice):
        return shares.astype(share_dtype(slot.weight))
    whole = np.zeros(run.view.table.size, share_dtype(slot.weight))
    whole[rows] = shares
    return whole


def finals(slot: ScoreSlot, normalizer: NormalizePlugin, raw: Scores, run: ClassRun, rows: Rows) -> Scores:
    finals = _normalize_call(run, normalizer)(slot.state, raw[rows], run.view, rows)
    check_range(slot.plugin, int(finals.min()), int(finals.max()))
    return finals


def renormalized(
    slot: ScoreSlot, run: ClassRun, first: FirstRefusals, changed: Mapping[int, int], gains: dict[int, int]
) -> bool:
    """Takes over the raw scores of some rows (``changed``: those before, by row) where the extremes of the feasible
    rows are the same, so that the others' final scores are: False where all rows must be normalised again."""
    plugin, extremes, raw, column = slot.extremes_normalizer, slot.extremes, slot.raw, slot.contribution
    if plugin is None or extremes is None or not isinstance(raw, np.ndarray) or not isinstance(column, np.ndarray):
        return False
    rows = [row for row in changed if not first.codes.item(row)]
    raws, before = [raw.item(row) for row in rows], [changed[row] for row in rows]
    if not extremes.stay(before, raws, raw, first.codes, with_lowest=plugin.reads_lowest):
        return False
    normalize_few = run.timed(plugin.normalize_few, slot.name, "ScoreExtensionNormalize")
    found = normalize_few(raws, extremes.lowest, extremes.highest)
    for row, final in zip(rows, found, strict=True):
        check_range(slot.plugin, final, final)
        share = final * slot.weight
        gains[row] = gains.get(row, 0) + share - column.item(row)
        column[row] = share
    return True


def score_call(run: ClassRun, plugin: ScorePlugin) -> Callable[..., Scores]:
    return run.timed(plugin.score, plugin.name, "Score")


def _normalize_call(run: ClassRun, plugin: NormalizePlugin) -> Callable[..., Scores]:
    return run.timed(plugin.normalize, plugin.name, "ScoreExtensionNormalize")


def score_few_call(run: ClassRun, slot: ScoreSlot) -> Callable[..., Sequence[int]]:
    return run.timed(slot.plugin.score_few, slot.name, "Score")


def fitting_since(slot: ScoreSlot, first: FirstRefusals) -> Fitting:
    """The rows that fit, and what has changed of them since the plugin answered by group."""
    before = slot.by_group
    flips = None if before is None else first.flips_since(before.fits_version)
    return Fitting(first.codes, first.feasible_count, first.fits_version, flips)


def asked_by_group(slot: ScoreSlot, run: ClassRun, fitting: Fitting) -> GroupScores | ChangedRows | State | Skip | None:
    """The plugin's scores by group, or what its PreScore says, with the rows that changed if they are known; None if it
    has to be asked for that."""
    before = slot.by_group or slot.state
    if slot.grouping is None or not isinstance(before, State | GroupScores):
        return None
    answer: GroupScores | ChangedRows | State | Skip | None = run.timed(
        slot.grouping.score_by_group, slot.name, "Score"
    )(before, run.pod, run.view, fitting)
    return answer


def take_by_group(slot: ScoreSlot, found: GroupScores, gains: dict[int, int]) -> bool:
    """Makes these scores the slot's. Returns whether the totals of all rows must be added up; otherwise the changes are
    in ``gains``."""
    before, slot.by_group = slot.by_group, found
    slot.state, slot.raw = found.state, None
    column = slot.contribution
    is_alike = isinstance(column, np.ndarray) and _scores_alike(found, before)
    if not is_alike:
        # A group without a row that fits has the final score 0: never above the highest, and left out of the lowest.
        high = int(np.maximum.reduce(found.finals, initial=0))
        low = int(np.minimum.reduce(found.finals, initial=MAX_NODE_SCORE, where=found.members > 0))
        check_range(slot.plugin, low, high)
        if low >= high:
            slot.contribution = high * slot.weight
            return not isinstance(column, int) or column != slot.contribution
    if is_alike and isinstance(column, np.ndarray):
        for row in found.regrouped or ():
            share = found.finals.item(found.groups.item(row)) * slot.weight
            if share != column.item(row):
                gains[row] = gains.get(row, 0) + share - column.item(row)
                column[row] = share
        return False
    shares: npt.NDArray[np.integer] = (found.finals * slot.weight).astype(share_dtype(slot.weight))
    slot.contribution = shares.take(found.groups)
    return True


def _scores_alike(found: GroupScores, before: GroupScores | None) -> bool:
    """Whether all rows score what they did, but for those that were regrouped."""
    return before is not None and found.regrouped is not None and found.finals.tobytes() == before.finals.tobytes()


def spread_out(scores: Scores, rows: Rows, size: int) -> Scores:
    if isinstance(rows, slice):
        return scores
    whole = np.zeros(size, np.int64)
    whole[rows] = scores
    return whole
