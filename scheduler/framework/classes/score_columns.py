"""The columns of one score plugin's answers for a class of pods: what is stored of the scores of some rows.

A plugin that does not normalise has a column of its shares of the total, a plugin that does one of its raw scores. A
number takes the place of a column where all rows have the same. ``first``: the class's refusals as of now, of as many
rows as the columns have.

Scores of nodes that the class does not fit on are stored, too: they count once it does. So a score out of range is an
error even there, and columns are given up: without them a plugin is asked about the nodes that are scored alone, and
the attempt fails only if it says the same of one of those.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scheduler.framework.classes.first_refusals import NO_NODE, FirstRefusals
from scheduler.framework.classes.score_slot import InvalidScore, ScoreSlot, check_range, share_dtype
from scheduler.framework.plugin import MAX_NODE_SCORE, Scores


def store_few_shares(
    slot: ScoreSlot, first: FirstRefusals, rows: Sequence[int], scores: Sequence[int], gains: dict[int, int]
) -> None:
    """Stores the shares that follow from these scores; ``gains``: row → the change of its total, to be completed.
    Raises InvalidScore."""
    weight, codes = slot.weight, first.codes
    column = slot.contribution
    if isinstance(column, int):
        if [score * weight for score in scores] == [column] * len(rows):
            return
        column = slot.contribution = np.full(len(codes), column, share_dtype(weight))
    assert column is not None
    for place, row in enumerate(rows):
        score = scores[place]
        share = score * weight
        if not 0 <= score <= MAX_NODE_SCORE:
            if codes.item(row) != NO_NODE:
                raise InvalidScore(slot.name, score)
            share = 0
        before = column.item(row)
        if share != before:
            gains[row] = gains.get(row, 0) + share - before
            column[row] = share


def store_many_shares(slot: ScoreSlot, first: FirstRefusals, rows: npt.NDArray[np.int64], scores: Scores) -> bool:
    """The same for a block of rows. Returns whether any share may have changed. Raises InvalidScore."""
    if not (slot.plugin.stays_in_range or _are_in_range(scores)):
        scores = _of_nodes(slot, first.codes[rows], scores)
    shares = scores if slot.weight == 1 else scores * slot.weight
    column = slot.contribution
    if column is None or isinstance(column, int):
        if bool((shares == column).all()):
            return False
        column = slot.contribution = np.full(len(first.codes), column, share_dtype(slot.weight))
    # Cast before the assignment: together that takes two thirds of the time.
    column[rows] = shares.astype(column.dtype)
    return True


def store_all_shares(slot: ScoreSlot, first: FirstRefusals, scores: Scores) -> None:
    """The same for all rows. Raises InvalidScore."""
    low, high = int(scores.min()), int(scores.max())
    if low < 0 or high > MAX_NODE_SCORE:
        scores = _of_nodes(slot, first.codes, scores)
        low, high = int(scores.min()), int(scores.max())
    slot.raw = None
    if low == high:
        slot.contribution = low * slot.weight
    else:
        slot.contribution = (scores * slot.weight).astype(share_dtype(slot.weight))


def store_few_raws(slot: ScoreSlot, first: FirstRefusals, rows: Sequence[int], scores: Sequence[int]) -> dict[int, int]:
    """Stores these raw scores. Returns those before, by row, where they were others."""
    raw = slot.raw
    assert raw is not None
    changed: dict[int, int] = {}
    for place, row in enumerate(rows):
        score = scores[place]
        if isinstance(raw, int):
            if raw == score:
                continue
            raw = slot.raw = np.full(len(first.codes), raw, np.int64)
        if raw.item(row) != score:
            changed[row] = raw.item(row)
            raw[row] = score
    return changed


def store_many_raws(slot: ScoreSlot, first: FirstRefusals, rows: npt.NDArray[np.int64], scores: Scores) -> bool:
    """The same for a block of rows. Returns whether any has changed."""
    raw = slot.raw
    assert raw is not None
    if isinstance(raw, int):
        if bool((scores == raw).all()):
            return False
        raw = slot.raw = np.full(len(first.codes), raw, np.int64)
    has_changed = bool((raw[rows] != scores).any())
    raw[rows] = scores
    return has_changed


def _of_nodes(slot: ScoreSlot, codes: npt.NDArray[np.int16], scores: Scores) -> Scores:
    """The scores with those of rows without a node in range, which mean nothing. Raises InvalidScore for another."""
    of_nodes = scores[codes != NO_NODE]
    if len(of_nodes):
        check_range(slot.plugin, int(of_nodes.min()), int(of_nodes.max()))
    return np.clip(scores, 0, MAX_NODE_SCORE)


def _are_in_range(scores: Scores) -> bool:
    # As unsigned integers negative scores are above all others: one pass finds both.
    return int(np.maximum.reduce(scores.astype(np.int64, copy=False).view(np.uint64), initial=0)) <= MAX_NODE_SCORE
