"""All that a class of pods says, as values that can be compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.nominator import Nominator
from scheduler.cluster.pod_info import PodInfo
from scheduler.errors import PluginError
from scheduler.framework.class_run import ClassRun
from scheduler.framework.classes.cache import PodClass

Answers = dict[str, Any]


def answers_of(cache: ClusterCache, nominator: Nominator, pod_class: PodClass, fragments: Any, pod: PodInfo) -> Answers:
    """What a class says of a pod, brought up to date with the cluster."""
    view, journal = cache.view, cache.journal
    table = view.table
    names = table.names
    filters = pod_class.filters
    run = ClassRun(pod, fragments, view, journal)
    filters.refresh_pre_filters(run)
    if filters.pre_refusal is not None:
        return {"refused": (filters.pre_refusal, filters.pre_rejectors)}
    filters.refresh_rows(run)
    rows = range(table.size)
    answers: Answers = {
        "refusals": {names[row]: filters.refusals[filters.codes[row]] for row in rows if filters.codes[row] > 0},
        "fits": {names[row] for row in filters.feasible_rows.tolist()},
        "count": filters.first.feasible_count,
        "only": filters.only,
    }
    overlay = pod_class.overlay(pod.priority, tuple(slot.plugin for slot in pod_class.filters._slots))
    beside = overlay.refusals(run, filters, nominator)
    assert len(set(beside.refusals)) == len(beside.refusals), "equal refusals have one number"
    assert set(beside.codes.tolist()) - {0} == set(range(1, len(beside.refusals) + 1)), "each is of some row"
    answers["beside"] = {names[row]: refusal for row, refusal in beside.by_row().items()}
    if filters.first.feasible_count:
        try:
            pod_class.scores.refresh(run, filters.first)
        except PluginError as error:
            return {**answers, "error": str(error)}
        ranks = pod_class.scores.totals
        answers["ranks"] = {names[row]: int(ranks[row]) for row in filters.feasible_rows.tolist()}
        assert set(np.flatnonzero(ranks >= 0).tolist()) == set(filters.feasible_rows.tolist())
        answers["evaluated"] = pod_class.scores.evaluated
        answers["each"] = {names[row]: pod_class.scores.shares_of(row) for row in filters.feasible_rows.tolist()}
        some = filters.feasible_rows[::2].copy()
        totals, shares = pod_class.scores.rank(run, some)
        answers["some"] = dict(zip([names[row] for row in some.tolist()], totals.tolist(), strict=True))
        # A number is the share of all of them.
        each = {plugin: np.broadcast_to(share, len(some)).tolist() for plugin, share in shares.items()}
        answers["shares"] = each if len(some) else {}
        for sample in (some, filters.feasible_rows[1::3].copy()):
            _compare_with_sampled(pod_class, run, sample)
    return answers


def _compare_with_sampled(pod_class: PodClass, run: ClassRun, rows: npt.NDArray[np.int64]) -> None:
    """What is kept for samples comes to the same."""
    if not len(rows):
        return
    totals, shares = pod_class.scores.rank(run, rows)
    sampled = pod_class.sampled_scores
    assert sampled.totals(run, pod_class.filters.first, rows).tolist() == totals.tolist()
    each = {plugin: np.broadcast_to(share, len(rows)).tolist() for plugin, share in shares.items()}
    for place, row in enumerate(rows.tolist()):
        assert sampled.shares_of(row, place) == {plugin: values[place] for plugin, values in each.items()}
    assert sampled.evaluated == pod_class.scores.evaluated
