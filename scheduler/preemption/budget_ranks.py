"""The split by disruption budgets for many nodes at once; ``Budgets.split`` is the judge."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scheduler.preemption.budgets import Budgets
from scheduler.preemption.pod_columns import PodColumns

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


def exhausting(budgets: Budgets, columns: PodColumns, rows: Numbers, potential: Mask) -> Mask | None:
    """Which of the potential victims violate a budget, None if none does.

    ``potential``: bool, one line a row of ``rows`` and one entry a place, the most important pod first.
    """
    if not budgets.all:
        return None
    entries = _charges(budgets, columns, rows, potential)
    if entries is None:
        return None
    lines, places, charged = entries
    allowed = np.array([budget.allowed for budget in budgets.all], np.int64)
    # Entries come row by row and in order of importance; a stable sort keeps that within each budget of each row.
    group = charged * len(rows) + lines
    order = np.argsort(group, kind="stable")
    group = group[order]
    is_first = np.concatenate([[True], group[1:] != group[:-1]])
    counted = np.arange(len(group))
    rank = counted - np.maximum.accumulate(np.where(is_first, counted, 0))
    exceeding = order[rank >= allowed[charged[order]]]
    if not len(exceeding):
        return None
    violating = np.zeros(potential.shape, np.bool_)
    violating[lines[exceeding], places[exceeding]] = True
    return violating


def _charges(
    budgets: Budgets, columns: PodColumns, rows: Numbers, potential: Mask
) -> tuple[Numbers, Numbers, Numbers] | None:
    """(line, place, index of the budget) of everything that would be charged, one entry for each pod and budget, in
    order of lines and then of places. Budgets that no node can exhaust are left out."""
    width = potential.shape[1]
    profile = columns.profile[rows]
    present = columns.profiles.present(profile[potential])
    scarce = [budget.allowed < width for budget in budgets.all]
    covering: dict[int, tuple[int, ...]] = {}
    for number in present:
        found = tuple([index for index in columns.profiles.covering(number, budgets) if scarce[index]])
        if found:
            covering[number] = found
    if not covering:
        return None
    counts = np.zeros(len(columns.profiles), np.int64)
    starts = np.zeros(len(columns.profiles), np.int64)
    flat: list[int] = []
    for number, indices in covering.items():
        counts[number], starts[number] = len(indices), len(flat)
        flat += indices
    lines, places = np.nonzero(potential & (counts[profile] > 0))
    numbers = profile[lines, places]
    repeated = np.repeat(np.arange(len(lines)), counts[numbers])
    ends = np.cumsum(counts[numbers])
    within = np.arange(len(repeated)) - (ends - counts[numbers])[repeated]
    charged = np.array(flat, np.int64)[starts[numbers][repeated] + within]
    lines, places = lines[repeated], places[repeated]
    special = np.array([bool(budget.granted) for budget in budgets.all]) | bool(budgets.paid)
    if special[charged].any():
        pays = np.ones(len(charged), np.bool_)
        for entry in np.flatnonzero(special[charged]).tolist():
            info = columns.infos[int(rows[lines[entry]])][int(places[entry])]
            pays[entry] = budgets.charges(int(charged[entry]), info)
        lines, places, charged = lines[pays], places[pays], charged[pays]
    return (lines, places, charged) if len(charged) else None
