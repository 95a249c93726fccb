"""Dry runs of many nodes at once (design: design.md §5), exact where it is used and never used elsewhere.

Take the potential victims of all nodes away, filter; give back the most important one of every node simultaneously,
filter, take it away again where it does not fit; then the second, and so on. Filters answer for all rows at once, so a
step costs little more than for a single node.

A node is left to the plain dry run where its answer depends on more than its requested resources and number of pods:
where its host ports matter, and where one of its potential victims, or a pod nominated to it, is counted by a plugin
(affinity, spread). All nodes are, where a plugin counts pods and does not say which (``ignores``), looks at the
pods themselves, or does not say what it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scheduler.cluster.view import View
from scheduler.framework.node_filter import counts_pods
from scheduler.framework.plugin import EMPTY_STATE, Reads, State
from scheduler.framework.status import Refusal, Skip
from scheduler.preemption.budget_ranks import exhausting
from scheduler.preemption.dry_run import NO_VICTIMS, Candidate, Trial, dry_run_node, verdict
from scheduler.preemption.what_if_table import Matrix, WhatIfTable, as_places

if TYPE_CHECKING:
    from scheduler.cluster.pod_info import PodInfo
    from scheduler.framework.plugin import FilterPlugin
    from scheduler.preemption.pod_columns import PodColumns

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
Answer = Candidate | Refusal
Beside = tuple["PodInfo", ...]
Asked = Sequence[tuple["FilterPlugin", State]]
Ignores = Callable[["PodInfo"], bool]
"""``ignores`` of a State that counts pods promises that ``with_pod`` of this pod changes nothing, whatever the row. It
may depend on the namespace, labels, affinity, volumes and termination of the pod alone."""

_SMALLEST_WAVE = 64


def answers_in_turn(trial: Trial, rows: Rows, wanted: int, columns: PodColumns) -> Iterator[tuple[int, Answer]]:
    """(row, what ``dry_run_node`` says of it) in the order of ``rows``.

    Rows are worked out in waves, each twice the size of the one before, since the caller may stop at any time.
    ``wanted``: how many candidates it is likely to want.
    """
    filters = _Filters.of(trial)
    start = 0
    size = max(wanted, _SMALLEST_WAVE)
    while start < len(rows):
        wave = rows[start : start + size]
        known = _wave(trial, wave, columns, filters) if filters is not None else {}
        for row in wave.tolist():
            answer = known.get(row)
            yield row, dry_run_node(trial, row) if answer is None else answer
        start += size
        size *= 2


class _Filters:
    """The filter plugins that take part, with their states; and what makes a node too difficult."""

    __slots__ = ("active", "ignores", "on_usage")

    def __init__(self, active: Asked, ignores: Sequence[Ignores]) -> None:
        self.active = active
        self.on_usage = [(plugin, state) for plugin, state in active if Reads.USAGE in plugin.reads]
        self.ignores = ignores

    @staticmethod
    def of(trial: Trial) -> _Filters | None:
        """None where no node can be answered by a wave."""
        active: list[tuple[FilterPlugin, State]] = []
        ignores: list[Ignores] = []
        for plugin in trial.filters:
            state = trial.states.get(plugin.name, EMPTY_STATE)
            if isinstance(state, Skip):
                continue
            if Reads.UNDECLARED in plugin.reads:
                return None
            if counts_pods(state):
                ignored = getattr(state, "ignores", None)
                if ignored is None:
                    return None
                ignores.append(ignored)
            active.append((plugin, state))
        return _Filters(active, ignores)

    def counts(self, info: PodInfo) -> bool:
        """Whether some plugin counts the pod."""
        return any(not ignores(info) for ignores in self.ignores)


def _wave(trial: Trial, rows: Rows, columns: PodColumns, filters: _Filters) -> dict[int, Answer]:
    """Row → answer, without the rows that need the plain dry run. Nothing at all if a plugin cannot be asked so, or
    fails: the plain dry run then finds out where."""
    columns.refresh(trial.view.table, rows.tolist())
    potential = _potential(trial, rows, columns)
    has_victims = potential.any(axis=1)
    answers: dict[int, Answer] = dict.fromkeys(rows[columns.is_kept[rows] & ~has_victims].tolist(), NO_VICTIMS)
    difficult, beside = _difficult(trial, rows, columns, potential, filters)
    easy = has_victims & ~difficult
    if easy.any():
        try:
            _run(_Wave(trial, filters, columns, beside), rows[easy], potential[easy], answers)
        except Exception:  # noqa: BLE001 - Inexact, or a plugin's own fault, which the plain dry run names
            return {}
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


def _difficult(
    trial: Trial, rows: Rows, columns: PodColumns, potential: Mask, filters: _Filters
) -> tuple[Mask, dict[int, Beside]]:
    """(rows that need the plain dry run; row → pods nominated to it that the pod must leave room for)."""
    difficult: Mask = ~columns.is_kept[rows] | (columns.last_start[rows] >= trial.now)
    if filters.ignores:
        profile = columns.profile[rows]
        present = columns.profiles.present(profile[potential])
        counted = columns.profiles.where(present, filters.counts)
        if counted.any():
            difficult |= (potential & counted[profile]).any(axis=1)
    table = trial.view.table
    listed = rows.tolist()
    if trial.pod.ports:
        has_ports = [bool(table.ports[row]) or any(info.ports for info in table.pods[row].values()) for row in listed]
        difficult |= np.array(has_ports, np.bool_)
    names, nominated = table.names, trial.context.nominated_pods
    found: dict[int, Beside] = {}
    for place, row in enumerate(listed):
        if nominated(names[row]) and (beside := trial.rivals_on(names[row])):
            found[row] = beside
            if any(filters.counts(info) or (info.ports and trial.pod.ports) for info in beside):
                difficult[place] = True
    return difficult, found


class _Wave:
    """Rows that are worked out together. ``beside``: row → pods that are nominated there and count as if they ran."""

    __slots__ = ("_beside", "columns", "filters", "has_beside", "table", "trial", "view")

    table: WhatIfTable
    view: View

    def __init__(self, trial: Trial, filters: _Filters, columns: PodColumns, beside: Mapping[int, Beside]) -> None:
        self.trial = trial
        self.filters = filters
        self.columns = columns
        self._beside = beside
        self.has_beside = False

    def set_up(self, rows: Rows, potential: Mask) -> None:
        """The rows without their potential victims."""
        width = int(np.flatnonzero(potential.any(axis=0))[-1]) + 1

        def charged(matrices: dict[str, Matrix]) -> dict[str, Matrix]:
            taken = {name: as_places(matrix, rows, width) for name, matrix in matrices.items()}
            return {name: matrix for name, matrix in taken.items() if matrix.any()}

        live = self.trial.view
        charges, scalars = charged(self.columns.charges), charged(self.columns.scalars)
        self.table = WhatIfTable(live.table, rows, charges, scalars, ports=bool(self.trial.pod.ports))
        self.table.take_away(potential[:, :width].T)
        self.view = View(
            self.table, live.objects, live.images, live.pod_counts, live.affinity_terms, live.volumes, live.total_nodes
        )
        beside = {place: self._beside[row] for place, row in enumerate(rows.tolist()) if row in self._beside}
        self.has_beside = bool(beside)
        if beside:
            self.table.set_beside(beside)

    def refusals(self) -> tuple[Mask, dict[int, Refusal]]:
        """Which rows refuse the pod now, and place → the first refusal, signed."""
        if not self.has_beside:
            return self._refusals(self.filters.active)
        self.table.change_beside(1)
        is_refused, found = self._refusals(self.filters.active)
        self.table.change_beside(-1)
        alone_refused, found_alone = self._refusals(self.filters.active)
        return is_refused | alone_refused, found_alone | found

    def _refusals(self, asked: Asked) -> tuple[Mask, dict[int, Refusal]]:
        is_refused = np.zeros(self.table.size, np.bool_)
        found: dict[int, Refusal] = {}
        for plugin, state in asked:
            verdicts = plugin.filter(state, self.trial.pod, self.view, self.view.rows)
            if verdicts is None:
                continue
            signed = [refusal.by(plugin.name) for refusal in verdicts.refusals]
            for place in np.flatnonzero((verdicts.codes != 0) & ~is_refused).tolist():
                found[place] = signed[int(verdicts.codes[place]) - 1]
            is_refused |= verdicts.codes != 0
        return is_refused, found

    def refused_after_change(self) -> Mask:
        """Which rows refuse the pod, now that pods were given back: only plugins that read usage can have changed."""
        is_refused = np.zeros(self.table.size, np.bool_)
        self._ask_on_usage(is_refused)
        if self.has_beside:
            self.table.change_beside(1)
            self._ask_on_usage(is_refused)
            self.table.change_beside(-1)
        return is_refused

    def _ask_on_usage(self, is_refused: Mask) -> None:
        for plugin, state in self.filters.on_usage:
            verdicts = plugin.filter(state, self.trial.pod, self.view, self.view.rows)
            if verdicts is not None:
                is_refused |= verdicts.codes != 0


def _run(wave: _Wave, rows: Rows, potential: Mask, answers: dict[int, Answer]) -> None:
    """Answer for rows that each have a potential victim."""
    wave.set_up(rows, potential)
    is_refused, refusals = wave.refusals()
    for place, refusal in refusals.items():
        answers[int(rows[place])] = refusal
    left = ~is_refused
    if not left.any():
        return
    if is_refused.any():
        rows, potential = rows[left], potential[left]
        wave.set_up(rows, potential)
    violating = exhausting(wave.trial.budgets, wave.columns, rows, potential)
    victims = np.zeros(potential.T.shape, np.bool_)
    for group in [potential] if violating is None else [violating, potential & ~violating]:
        places = group.T
        for place in np.flatnonzero(places.any(axis=1)).tolist():
            given = places[place]
            wave.table.change(place, given, 1)
            refused = wave.refused_after_change() & given
            wave.table.change(place, refused, -1)
            victims[place] |= refused
    _conclude(wave.trial, rows, wave.columns, victims.T, violating, answers)


def _conclude(
    trial: Trial,
    rows: Rows,
    columns: PodColumns,
    victims: Mask,
    violating: Mask | None,
    answers: dict[int, Answer],
) -> None:
    names = trial.view.table.names
    _, places = np.nonzero(victims)
    listed = places.tolist()
    ends = np.cumsum(victims.sum(axis=1)).tolist()
    violations: list[Any] = [0] * len(rows) if violating is None else (victims & violating).sum(axis=1).tolist()
    start = 0
    for row, end, count in zip(rows.tolist(), ends, violations, strict=True):
        infos = columns.infos[row]
        chosen = tuple([infos[place] for place in listed[start:end]])
        answers[row] = verdict(trial, Candidate(row, names[row], chosen, count))
        start = end
