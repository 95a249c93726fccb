"""The diagnosis of an attempt: which refusal, of the class or of the pod, each node has."""

from __future__ import annotations

import numpy as np

from scheduler.engine.cycle_context import Run
from scheduler.engine.feasible import Feasible
from scheduler.errors import PluginError
from scheduler.framework.classes.first_refusals import FITS
from scheduler.framework.diagnosis import NOT_LOOKED_AT, Diagnosis, RefusalCodes, outside_node_set
from scheduler.messages.status import Code, Refusal


def diagnose(run: Run, feasible: Feasible, tried_first: tuple[int, Refusal] | None = None) -> Diagnosis:
    """Why no row is left: the refusals of the class, under those of the pod. ``tried_first``: of the nominated node.

    Pods of a class that fail alike share one diagnosis; others know it by its ``codes``.
    """
    is_of_pod = feasible.beside_nominated or feasible.refusals or feasible.rejectors or tried_first
    if is_of_pod or run.context.placement is not None:
        return _of_one_pod(run, feasible, tried_first)
    filters = run.filters
    of, known = (filters.first.version, run.view.table.node_version), filters.diagnosed
    if known is not None and known[0] == of:
        return known[1]
    diagnosis = _diagnosed(run, feasible, *_codes(run, feasible, None))
    if known is not None and isinstance(known[0], tuple) and known[0][1] == of[1] and _is_same(known[1], diagnosis):
        # Rows have changed, but not their refusals: what was worked out from the last diagnosis still holds.
        diagnosis = known[1]
    filters.keep_diagnosis(of, diagnosis)
    return diagnosis


def _of_one_pod(run: Run, feasible: Feasible, tried_first: tuple[int, Refusal] | None) -> Diagnosis:
    """The diagnosis, or the class's last one for one pod if that says the same. A thousand preemptors may wait for a
    thousand nodes, and all are refused as they were before any was nominated."""
    filters = run.filters
    codes, refusals = _codes(run, feasible, tried_first)
    if feasible.rejectors or tried_first is not None:
        return _diagnosed(run, feasible, codes, refusals, tried_first)
    of, known = (run.view.table.node_version, filters.subset_plugins), filters.diagnosed_for_one
    if known is not None and known[0] == of and _says(known[1], codes, refusals):
        return known[1]
    diagnosis = _diagnosed(run, feasible, codes, refusals)
    filters.keep_diagnosis_for_one(of, diagnosis)
    return diagnosis


def _says(known: Diagnosis, codes: RefusalCodes, refusals: tuple[Refusal, ...]) -> bool:
    return known.refusals == refusals and np.array_equal(known.codes, codes)


def _is_same(one: Diagnosis, other: Diagnosis) -> bool:
    """Of two diagnoses of one class without a refusal of the pod as a whole: whether they say the same of each row."""
    return (
        one.absent == other.absent
        and one.unschedulable_plugins == other.unschedulable_plugins
        and one.pending_plugins == other.pending_plugins
        and _says(one, other.codes, other.refusals)
    )


def refused_as_a_whole(run: Run, refusal: Refusal) -> Diagnosis:
    """The diagnosis where PreFilter plugins refused the pod; shared as in ``diagnose``."""
    filters, size = run.filters, run.view.table.size
    known = filters.diagnosed
    if known is not None and known[0] is refusal and len(known[1].codes) == size:
        return known[1]
    diagnosis = Diagnosis(
        codes=np.zeros(size, np.int32),
        absent=refusal,
        pre_filter=refusal,
        unschedulable_plugins=frozenset(filters.pre_rejectors),
    )
    filters.keep_diagnosis(refusal, diagnosis)
    return diagnosis


def _codes(
    run: Run, feasible: Feasible, tried_first: tuple[int, Refusal] | None
) -> tuple[RefusalCodes, tuple[Refusal, ...]]:
    """Each row's refusal, of those that follow."""
    filters = run.filters
    codes = np.maximum(filters.codes, FITS, dtype=np.int32)
    refusals = list(filters.refusals[1:])
    own = feasible.refusals if tried_first is None else dict([tried_first]) | feasible.refusals
    beside = feasible.beside_nominated
    if own:
        numbers = {refusal: n for n, refusal in enumerate(dict.fromkeys(own.values()), len(refusals) + 1)}
        refusals += numbers
        # A node that an extender drops without a reason has none of its own: where PreFilter plugins have narrowed the
        # search, it counts among those that they leave out.
        is_narrowed = bool(filters.subset_plugins)
        codes[np.fromiter(own, np.int64, len(own))] = [
            0 if is_narrowed and not refusal.reasons else numbers[refusal] for refusal in own.values()
        ]
    if beside:
        # Most refusals of single rows equal one of the class: equal ones share a number.
        places = {refusal: number for number, refusal in enumerate(refusals, 1)}
        new = [refusal for refusal in beside.refusals if refusal not in places]
        places |= {refusal: number for number, refusal in enumerate(new, len(refusals) + 1)}
        refusals += new
        numbered = np.array([0, *[places[refusal] for refusal in beside.refusals]], np.int32)
        np.copyto(codes, numbered[beside.codes], where=beside.codes != 0)
    if len(feasible.not_reached):
        unknown = feasible.not_reached
        codes[unknown[(unknown != run.refused_first) & ~np.isin(unknown, list(own))]] = 0
    if run.context.placement is not None:
        outside = np.ones(len(codes), np.bool_)
        outside[run.context.placement] = False
        codes[outside] = 0
    return codes, tuple(refusals)


def _diagnosed(
    run: Run,
    feasible: Feasible,
    codes: RefusalCodes,
    refusals: tuple[Refusal, ...],
    tried_first: tuple[int, Refusal] | None = None,
) -> Diagnosis:
    """The diagnosis of these codes, for this pod."""
    used = np.bincount(codes, minlength=len(refusals) + 1)
    rejectors = {refusal.plugin for refusal, count in zip(refusals, used[1:].tolist(), strict=True) if count}
    pending = {
        refusal.plugin
        for refusal, count in zip(refusals, used[1:].tolist(), strict=True)
        if count and refusal.code is Code.PENDING
    }
    narrowed = frozenset(run.filters.subset_plugins)
    unsatisfied = narrowed | {tried_first[1].plugin} if tried_first is not None else narrowed
    return Diagnosis(
        codes=codes,
        refusals=refusals,
        absent=outside_node_set(unsatisfied) if narrowed else NOT_LOOKED_AT,
        unschedulable_plugins=frozenset(rejectors) | narrowed | feasible.rejectors,
        pending_plugins=frozenset(pending),
    )


def explained(run: Run, feasible: Feasible) -> Diagnosis | None:
    """Why the other nodes were refused, of an attempt that found one; also where the nominated node was enough. None
    where a plugin raises on nodes that the decision does not look at."""
    try:
        run.filters.refresh_rows(run.of_class)
    except PluginError:
        return None
    return diagnose(run, feasible)
