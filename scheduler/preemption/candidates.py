"""The nodes on which preemption might help, and how many of them are tried (docs/kube-scheduler/preemption.md §3)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.post_filter import Chance, PostFilterContext
from scheduler.framework.preemption_policy import VICTIMS_REMAINED, PreemptionPolicy
from scheduler.messages.status import Code, Refusal, unresolvable

Rows = npt.NDArray[np.int64]


class _LastRows:
    """The potential rows of the last attempt: pods that fail alike share the codes of their diagnosis."""

    __slots__ = ("_found", "_of", "_ordered")

    def __init__(self) -> None:
        self._of: Diagnosis | None = None
        self._ordered: Rows | None = None
        self._found = np.zeros(0, np.int64)

    def rows(self, context: PostFilterContext) -> Rows:
        diagnosis, ordered, known = context.diagnosis, context.view.ordered_rows, self._of
        if known is None or known.codes is not diagnosis.codes or self._ordered is not ordered:
            self._of, self._ordered, self._found = diagnosis, ordered, _potential_rows(context)
        return self._found


def potential_rows(context: PostFilterContext) -> Rows:
    """The rows of ``_potential_rows``, shared by attempts that fail alike: do not change them."""
    return context.kept.of(_LastRows).rows(context)


def _potential_rows(context: PostFilterContext) -> Rows:
    """Rows of the nodes that refused the pod for now, in kube-scheduler's order of nodes, int64.

    Nodes whose refusal no eviction can change, and nodes with an error, are not among them.
    """
    diagnosis = context.diagnosis
    ordered = context.view.ordered_rows
    helpful = np.zeros(context.view.table.size, np.bool_)
    refused = diagnosis.is_refused_as(Code.UNSCHEDULABLE)[: len(helpful)]
    helpful[: len(refused)] = refused
    return ordered[helpful[ordered]]


def without_excluded(
    context: PostFilterContext, policy: PreemptionPolicy, rows: Rows
) -> tuple[Rows, dict[int, Refusal]]:
    """The rows that the policy allows, and why it excludes the others."""
    reasons = dict(policy.excluded_nodes)
    if policy.given_up_node:
        reasons.setdefault(policy.given_up_node, VICTIMS_REMAINED)
    if not reasons:
        return rows, {}
    row_of = context.view.table.existing_row
    refusals = {row: unresolvable(reason) for name, reason in reasons.items() if (row := row_of(name)) is not None}
    excluded = np.isin(rows, list(refusals))
    return rows[~excluded], {row: refusals[row] for row in rows[excluded].tolist()}


def candidates_wanted(potential: int, percentage: int, absolute: int) -> int:
    """How many candidates end the search, of ``potential`` nodes: a percentage, not below a number, not above all."""
    return min(max(potential * percentage // 100, absolute), potential)


def walk(rows: Rows, rng: Chance) -> Rows:
    """The rows in the order in which they are tried: from a random one on, and round to it. ``rows`` is not empty."""
    first = rng.randrange(len(rows))
    return np.concatenate([rows[first:], rows[:first]])
