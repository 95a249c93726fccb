"""Calls of one score plugin for one class of pods, and the plugin's shares of the total."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from scheduler.framework.class_run import ClassRun
from scheduler.framework.classes.score_slot import ScoreSlot, check_range, share_dtype
from scheduler.framework.plugin import NormalizePlugin, Rows, ScorePlugin, Scores
from scheduler.framework.pre_score import pre_score
from scheduler.messages.status import SKIP


def share_of(slot: ScoreSlot, run: ClassRun, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
    """The weighted final scores of these rows as if no others were feasible, int64; None if the plugin skips."""
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
        state = pre_score(slot.plugin, run, rows)
        if state is SKIP:
            return None
        raw = score_call(run, slot.plugin)(state, run.pod, run.view, rows)
    scores = raw if slot.normalizer is None else _normalize_call(run, slot.normalizer)(state, raw, run.view, rows)
    check_range(slot.plugin, int(scores.min()), int(scores.max()))
    return scores * slot.weight


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


def score_call(run: ClassRun, plugin: ScorePlugin) -> Callable[..., Scores]:
    return run.timed(plugin.score, plugin.name, "Score")


def _normalize_call(run: ClassRun, plugin: NormalizePlugin) -> Callable[..., Scores]:
    return run.timed(plugin.normalize, plugin.name, "ScoreExtensionNormalize")


def spread_out(scores: Scores, rows: Rows, size: int) -> Scores:
    if isinstance(rows, slice):
        return scores
    whole = np.zeros(size, np.int64)
    whole[rows] = scores
    return whole
