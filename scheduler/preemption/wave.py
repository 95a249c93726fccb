"""A wave: rows without their potential victims, to which pods are given back place by place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.plugin import State
from scheduler.messages.status import Refusal
from scheduler.preemption.dry_run import Trial
from scheduler.preemption.pod_columns import PodColumns
from scheduler.preemption.wave_filters import AskedFilter, WaveFilters
from scheduler.preemption.what_if_table import Matrix, WhatIfTable, as_places

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
Beside = tuple["PodInfo", ...]


class Wave:
    """``rows``: int64. ``potential``: their potential victims, bool, one line a row and one entry a place; ``counted``:
    those of them that a counting plugin may count. ``beside``: row → pods nominated to it that it must leave room for,
    none of which any plugin counts.

    Places in a wave are the pods' places in the order of importance; positions are those of rows in ``rows``.
    """

    def __init__(
        self,
        trial: Trial,
        filters: WaveFilters,
        columns: PodColumns,
        beside: Mapping[int, Beside],
        rows: Rows,
        potential: Mask,
        counted: Mask | None,
    ) -> None:
        self.trial = trial
        self.filters = filters
        self.columns = columns
        self.rows = rows
        width = int(np.flatnonzero(potential.any(axis=0))[-1]) + 1

        def charged(matrices: Mapping[str, Matrix]) -> dict[str, Matrix]:
            taken = {name: as_places(matrix, rows, width) for name, matrix in matrices.items()}
            return {name: matrix for name, matrix in taken.items() if matrix.any()}

        live = trial.view
        ports = bool(trial.pod.ports)
        self.table = WhatIfTable(live.table, rows, charged(columns.charges), charged(columns.scalars), ports=ports)
        self.table.take_away(potential[:, :width].T)
        self.view = live.over(self.table)
        there = {position: beside[row] for position, row in enumerate(rows.tolist()) if row in beside} if beside else {}
        self._has_beside = bool(there)
        if there:
            self.table.set_beside(there)
        self._counted = None if counted is None or not counted.any() else counted.T
        self._own_states: dict[int, tuple[State, ...]] = {}
        """Position → states of the counting plugins, of rows that have counted victims."""
        if self._counted is not None:
            self._take_away_counted()

    def _take_away_counted(self) -> None:
        assert self._counted is not None
        table = self.trial.view.table
        for position in np.flatnonzero(self._counted.any(axis=0)).tolist():
            row = int(self.rows[position])
            infos = self.columns.infos[row]
            counted = {infos[place].uid for place in np.flatnonzero(self._counted[:, position]).tolist()}
            states = tuple([one.state_for_row(self.view, position) for one in self.filters.counting])
            # In the order in which the plain dry run takes them away, lest a plugin can tell.
            for info in table.pods[row].values():
                if info.uid in counted:
                    states = self._changed(states, position, info, -1)
            self._own_states[position] = states

    def _changed(self, states: Iterable[State], position: int, info: PodInfo, sign: int) -> tuple[State, ...]:
        return tuple([state.with_pod(self.view, position, info, sign) for state in states])

    # --- all victims gone ---------------------------------------------------------------------------------------------

    def refusals(self) -> tuple[Mask, dict[int, Refusal]]:
        """Which rows refuse the pod now, and position → the first refusal, signed."""
        if not self._has_beside:
            return self._refusals()
        self.table.change_beside(1)
        is_refused, found = self._refusals()
        self.table.change_beside(-1)
        is_refused_alone, found_alone = self._refusals()
        return is_refused | is_refused_alone, found_alone | found

    def _refusals(self) -> tuple[Mask, dict[int, Refusal]]:
        is_refused = np.zeros(self.table.size, np.bool_)
        found: dict[int, Refusal] = {}
        for one in self.filters.asked:
            verdicts = one.plugin.filter(one.state, self.trial.pod, self.view, self.view.rows)
            refusing = np.zeros(self.table.size, np.bool_) if verdicts is None else verdicts.codes != 0
            own = self._refusals_of_own_states(one)
            for position, refusal in own.items():
                refusing[position] = refusal is not None
            if verdicts is not None or own:
                signed = [] if verdicts is None else [refusal.by(one.plugin.name) for refusal in verdicts.refusals]
                for position in np.flatnonzero(refusing & ~is_refused).tolist():
                    refusal = own.get(position)
                    if refusal is not None:
                        found[position] = refusal.by(one.plugin.name)
                    elif verdicts is not None:
                        found[position] = signed[int(verdicts.codes[position]) - 1]
                is_refused |= refusing
        return is_refused, found

    def _refusals_of_own_states(self, one: AskedFilter) -> dict[int, Refusal | None]:
        if one not in self.filters.counting:
            return {}
        index = self.filters.counting.index(one)
        return {
            position: one.plugin.filter_row(states[index], self.trial.pod, self.view, position)
            for position, states in self._own_states.items()
        }

    # --- giving back --------------------------------------------------------------------------------------------------

    def give_back(self, place: int, given: Mask) -> Mask:
        """Give back the pod at ``place`` of these rows (bool, one a row), but where the pod no longer fits beside it.

        Returns the rows of the latter: there it is a victim.
        """
        self.table.change(place, given, 1)
        refusing = np.zeros(self.table.size, np.bool_)
        self._ask_on_usage(refusing)
        if self._has_beside:
            self.table.change_beside(1)
            self._ask_on_usage(refusing)
            self.table.change_beside(-1)
        refusing &= given
        if self._counted is not None:
            for position in np.flatnonzero(given & self._counted[place]).tolist():
                if self._refuses_counted(place, position, bool(refusing[position])):
                    refusing[position] = True
        self.table.change(place, refusing, -1)
        return refusing

    def _ask_on_usage(self, refusing: Mask) -> None:
        for one in self.filters.on_usage:
            verdicts = one.plugin.filter(one.state, self.trial.pod, self.view, self.view.rows)
            if verdicts is not None:
                refusing |= verdicts.codes != 0

    def _refuses_counted(self, place: int, position: int, is_refused: bool) -> bool:
        """Count the pod again; and take that back if the row refuses, for lack of room or for what was counted."""
        info = self.columns.infos[int(self.rows[position])][place]
        before = self._own_states[position]
        states = self._changed(before, position, info, 1)
        if not is_refused:
            is_refused = any(
                state is not old and one.plugin.filter_row(state, self.trial.pod, self.view, position) is not None
                for one, state, old in zip(self.filters.counting, states, before, strict=True)
            )
        self._own_states[position] = self._changed(states, position, info, -1) if is_refused else states
        return is_refused
