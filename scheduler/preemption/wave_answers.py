"""Dry runs of many nodes at once, exact where they are used and not used elsewhere.

Take the potential victims of all nodes away, filter; give back the most important one of every node simultaneously,
filter, take it away again where it does not fit; then the second, and so on, those under an exhausted budget before the
others. Filters answer for all rows at once, so a step costs little more than for a single node. Plugins whose answers
do not depend on pods are asked once; tallies (volumes with limits, exclusive claims, disks, host ports) are sums;
plugins that count pods (affinity, spread) are asked when a pod that they count is back. Pods nominated to a node are
added and taken away again for the second of the two looks.

Left to the plain dry run, which costs about as much for one node as a wave for a hundred, are:

* a node with more than 512 pods, or whose pods charge more kinds of resources than the arrays have room for: the arrays
  have a limit in bytes;
* a node with a pod that started later than the attempt's own clock says: its place in the order depends on that clock;
* a node with a pod that some plugin counts that also reads usage: no built-in plugin does;
* every node, where a plugin neither says what it reads nor gives tallies, or looks at the pods themselves: user plugins
  that declare nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from scheduler.framework.asked_filters import AskedFilter
from scheduler.framework.node_filter import rivals
from scheduler.messages.status import Refusal
from scheduler.preemption.budget_ranks import exhausting
from scheduler.preemption.dry_run import NO_VICTIMS, NOT_STARTED, PRIORITY_SHIFT, Candidate, Trial, verdict
from scheduler.preemption.pod_columns import PodColumns
from scheduler.preemption.wave import Beside, Wave
from scheduler.preemption.wave_filters import WaveFilters, any_plugin_counts

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
Answer = Candidate | Refusal


def wave_answers(trial: Trial, rows: Rows, columns: PodColumns, filters: WaveFilters) -> dict[int, Answer]:
    """Row → answer, without the rows that need the plain dry run. Raises Inexact where a plugin cannot be asked so, and
    whatever a plugin raises."""
    columns.refresh(trial.view.table, rows)
    potential = _potential(trial, rows, columns)
    has_victims = potential.any(axis=1)
    answers: dict[int, Answer] = dict.fromkeys(rows[columns.is_kept[rows] & ~has_victims].tolist(), NO_VICTIMS)
    difficult = _difficult(trial, rows, columns, potential, filters)
    beside = _beside(trial, rows, filters, difficult)
    easy = has_victims & ~difficult
    if easy.any():
        answers |= _run(trial, filters, columns, beside, rows[easy], potential[easy])
    return answers


def _potential(trial: Trial, rows: Rows, columns: PodColumns) -> Mask:
    """Who may be removed: one line a row and one entry a place. Rows that ``columns`` does not keep have no entries."""
    potential: Mask = columns.priority[rows] < trial.pod.priority
    potential &= columns.is_kept[rows][:, None]
    schedulers = trial.policy.victim_schedulers
    if schedulers is not None and potential.any():
        profile = columns.profile[rows]
        present = columns.profiles.present(profile[potential])
        potential &= columns.profiles.where(present, lambda info: info.pod.spec.scheduler_name in schedulers)[profile]
    return potential


def _difficult(trial: Trial, rows: Rows, columns: PodColumns, potential: Mask, filters: WaveFilters) -> Mask:
    """Rows that need the plain dry run."""
    difficult: Mask = ~columns.is_kept[rows] | (columns.last_start[rows] >= trial.now)
    if filters.doubly_changing:
        profile = columns.profile[rows]
        present = columns.profiles.present(profile[potential])
        counted = columns.profiles.where(present, lambda info: any_plugin_counts(filters.doubly_changing, info))
        if counted.any():
            difficult |= (potential & counted[profile]).any(axis=1)
    return difficult


def _beside(trial: Trial, rows: Rows, filters: WaveFilters, difficult: Mask) -> dict[int, Beside]:
    """Row → pods nominated to it that the pod must leave room for. Rows where a plugin that reads usage counts one of
    them become difficult."""
    names, nominated = trial.view.table.names, trial.context.nominated_pods
    waiting = [(position, row, pods) for position, row in enumerate(rows.tolist()) if (pods := nominated(names[row]))]
    found: dict[int, Beside] = {}
    for position, row, pods in waiting:
        if beside := rivals(trial.pod, pods):
            found[row] = beside
            if filters.doubly_changing and any(any_plugin_counts(filters.doubly_changing, info) for info in beside):
                difficult[position] = True
    return found


def _counted(rows: Rows, columns: PodColumns, potential: Mask, counting: Sequence[AskedFilter]) -> Mask | None:
    """Which potential victims one of these plugins may count, None = none."""
    if not counting:
        return None
    profile = columns.profile[rows]
    present = columns.profiles.present(profile[potential])
    counts = columns.profiles.where(present, lambda info: any_plugin_counts(counting, info))
    return potential & counts[profile] if counts.any() else None


def rows_counted(trial: Trial, rows: Rows, columns: PodColumns, counting: Sequence[AskedFilter]) -> Mask | None:
    """Which rows have such a potential victim, None = none."""
    places = _counted(rows, columns, _potential(trial, rows, columns), counting) if counting else None
    return None if places is None else np.asarray(places.any(axis=1), np.bool_)


def _run(
    trial: Trial,
    filters: WaveFilters,
    columns: PodColumns,
    beside: Mapping[int, Beside],
    rows: Rows,
    potential: Mask,
) -> dict[int, Answer]:
    """Answers for rows that each have a potential victim."""
    counted = _counted(rows, columns, potential, filters.counting)
    wave = Wave(trial, filters, columns, beside, rows, potential, counted)
    is_refused, refusals = wave.refusals()
    answers: dict[int, Answer] = {int(rows[position]): refusal for position, refusal in refusals.items()}
    if is_refused.all():
        return answers
    fits = ~is_refused
    potential = potential & fits[:, None]
    violating = exhausting(trial.budgets, columns, rows, potential)
    victims = np.zeros(potential.T.shape, np.bool_)
    for group in [potential] if violating is None else [violating, potential & ~violating]:
        places = group.T
        for place in np.flatnonzero(places.any(axis=1)).tolist():
            victims[place] |= wave.give_back(place, places[place])
    _conclude(trial, rows[fits], columns, victims.T[fits], None if violating is None else violating[fits], answers)
    return answers


def _conclude(
    trial: Trial,
    rows: Rows,
    columns: PodColumns,
    victims: Mask,
    violating: Mask | None,
    answers: dict[int, Answer],
) -> None:
    """``candidate_of`` for all rows, from the columns."""
    names = trial.view.table.names
    width = victims.shape[1]
    numbers = victims.sum(axis=1)
    has_victims = numbers > 0
    first = victims.argmax(axis=1)
    lifted = np.where(victims, columns.priority[rows, :width] + PRIORITY_SHIFT, 0).sum(axis=1)
    asked = (
        [0] * len(rows) if violating is None else (victims & violating).sum(axis=1).tolist(),
        np.where(has_victims, columns.priority[rows, first], 0).tolist(),
        lifted.tolist(),
        numbers.tolist(),
        np.where(has_victims, -columns.start[rows, first], NOT_STARTED).tolist(),
    )
    listed = np.nonzero(victims)[1].tolist()
    start = 0
    for row, cost in zip(rows.tolist(), zip(*asked, strict=True), strict=True):
        end = start + cost[3]
        infos = columns.infos[row]
        candidate = Candidate(row, names[row], tuple([infos[place] for place in listed[start:end]]), cost)
        answers[row] = verdict(trial, candidate)
        start = end
