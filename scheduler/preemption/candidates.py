"""Where preemption might help, and how many of those nodes are tried (reference preemption.md §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scheduler.framework.status import Code

if TYPE_CHECKING:
    from scheduler.framework.post_filter import Chance, PostFilterContext
    from scheduler.preemption.policy import PreemptionPolicy


def potential_rows(context: PostFilterContext) -> npt.NDArray[np.int64]:
    """Rows of the nodes that refused the pod for now, in kube-scheduler's order of nodes, int64.

    Nodes whose refusal no eviction can change, and nodes with an error, are not among them.
    """
    diagnosis = context.diagnosis
    ordered = context.view.ordered_rows
    helpful = np.zeros(context.view.table.size, np.bool_)
    rows = diagnosis.rows_refused_as(Code.UNSCHEDULABLE)
    helpful[rows[rows < len(helpful)]] = True
    return ordered[helpful[ordered]]


def without_excluded(
    context: PostFilterContext, policy: PreemptionPolicy, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], list[int]]:
    """The rows that the policy leaves, and those that it excludes."""
    names = policy.excluded_nodes | ({policy.given_up_node} if policy.given_up_node else set())
    if not names:
        return rows, []
    found = (context.view.table.existing_row(name) for name in names)
    excluded = np.isin(rows, [row for row in found if row is not None])
    return rows[~excluded], rows[excluded].tolist()


def candidates_wanted(potential: int, percentage: int, absolute: int) -> int:
    """How many candidates end the search, of ``potential`` nodes: a percentage, not below a number, not above all."""
    return min(max(potential * percentage // 100, absolute), potential)


def walk(rows: npt.NDArray[np.int64], rng: Chance) -> npt.NDArray[np.int64]:
    """The rows in the order in which they are tried: from a random one on, and round to it. ``rows`` is not empty."""
    return np.roll(rows, -rng.randrange(len(rows)))
