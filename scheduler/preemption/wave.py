"""A wave: rows without their potential victims, to which pods are given back place by place."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.asked_filters import AskedFilter
from scheduler.framework.plugin import State, Verdicts
from scheduler.framework.tallies import Tally
from scheduler.messages.status import Refusal
from scheduler.preemption.dry_run import Trial
from scheduler.preemption.kept_numbers import Facet, Measure
from scheduler.preemption.pod_columns import PodColumns
from scheduler.preemption.wave_filters import WaveFilters, any_plugin_counts
from scheduler.preemption.what_if_table import Matrix, WhatIfTable, as_places

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
Beside = tuple[PodInfo, ...]


class Wave:
    """Many rows from which potential victims are taken and given back together.

    ``rows``: int64. ``potential``: their potential victims, bool, one line a row and one entry a place; ``counted``:
    those of them that a counting plugin may count. ``beside``: row → pods nominated to it that it must leave room for.

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
        self.table = WhatIfTable(live.table, rows, charged(columns.charges), charged(columns.scalars))
        self.view = live.over(self.table, rows)
        pods = PodsOfRows(live, rows, columns)
        self.tallies = {one.plugin.name: one.state.tallies(pods) for one in filters.asked if one.has_tallies}
        self._moving_tallies: list[Tally] = []
        self._set_beside(beside)
        self._take_away(potential[:, :width].T)
        self._counted = None if counted is None or not counted.any() else counted.T
        self._own_states: dict[int, tuple[State, ...]] = {}
        """Position → states of the counting plugins, of rows that have counted victims, or nominated pods that are."""
        self._open_own_states()

    def _set_beside(self, beside: Mapping[int, Beside]) -> None:
        listed = enumerate(self.rows.tolist()) if beside else ()
        there = {position: beside[row] for position, row in listed if row in beside}
        self._has_beside = bool(there)
        counting = self.filters.counting
        self._counted_beside = {
            position: counted
            for position, infos in (there.items() if counting else ())
            if (counted := tuple([info for info in infos if any_plugin_counts(counting, info)]))
        }
        if there:
            self.table.set_beside(there)
        for tally in (tally for tallies in self.tallies.values() for tally in tallies):
            if there:
                tally.set_beside(there)
            if not tally.is_constant:
                self._moving_tallies.append(tally)

    def _take_away(self, is_gone: Mask) -> None:
        self.table.take_away(is_gone)
        for tally in self._moving_tallies:
            tally.take_away(is_gone)

    def _change_beside(self, sign: int) -> None:
        self.table.change_beside(sign)
        for tallies in self.tallies.values():
            for tally in tallies:
                tally.change_beside(sign)

    def _open_own_states(self) -> None:
        table = self.trial.view.table
        is_counted: Mask = np.zeros(self.table.size, np.bool_)
        if self._counted is not None:
            is_counted |= self._counted.any(axis=0)
        is_counted[list(self._counted_beside)] = True
        for position in np.flatnonzero(is_counted).tolist():
            states = tuple([one.state_for_row(self.view, position) for one in self.filters.counting])
            if self._counted is not None:
                row = int(self.rows[position])
                infos = self.columns.infos[row]
                counted = {infos[place].uid for place in np.flatnonzero(self._counted[:, position]).tolist()}
                # In the order in which the plain dry run takes them away, since plugins may see the order.
                for info in table.pods[row].values() if counted else ():
                    if info.uid in counted:
                        states = self._changed(states, position, info, -1)
            self._own_states[position] = states

    def _changed(self, states: Iterable[State], position: int, info: PodInfo, sign: int) -> tuple[State, ...]:
        return tuple([state.with_pod(self.view, position, info, sign) for state in states])

    def _beside_counted(self, states: tuple[State, ...], position: int) -> tuple[State, ...]:
        """The states of the counting plugins with the pods nominated to the row."""
        for info in self._counted_beside.get(position, ()):
            states = self._changed(states, position, info, 1)
        return states

    # --- all victims gone ---------------------------------------------------------------------------------------------

    def refusals(self) -> tuple[Mask, dict[int, Refusal]]:
        """Which rows refuse the pod now, and position → the first refusal, signed."""
        if not self._has_beside:
            return self._refusals(self._own_states)
        self._change_beside(1)
        is_refused, found = self._refusals(
            {position: self._beside_counted(states, position) for position, states in self._own_states.items()}
        )
        self._change_beside(-1)
        if is_refused.all():
            return is_refused, found
        is_refused_alone, found_alone = self._refusals(self._own_states)
        return is_refused | is_refused_alone, found_alone | found

    def _refusals(self, own_states: Mapping[int, tuple[State, ...]]) -> tuple[Mask, dict[int, Refusal]]:
        is_refused = np.zeros(self.table.size, np.bool_)
        found: dict[int, Refusal] = {}
        for one in self.filters.asked:
            verdicts = self._verdicts(one)
            codes = np.zeros(self.table.size, np.int16) if verdicts is None else verdicts.codes
            own = self._refusals_of_own_states(one, own_states)
            if own:
                codes = codes.copy()
                codes[list(own)] = 0
            for position, refusal in own.items():
                if refusal is not None and not is_refused[position]:
                    found[position] = refusal.by(one.plugin.name)
                    is_refused[position] = True
            if verdicts is None:
                continue
            first = np.where(is_refused, 0, codes)
            for code in (np.flatnonzero(np.bincount(first)[1:]) + 1).tolist():
                refusal = verdicts.refusals[code - 1].by(one.plugin.name)
                found.update(dict.fromkeys(np.flatnonzero(first == code).tolist(), refusal))
            is_refused |= codes != 0
        return is_refused, found

    def _verdicts(self, one: AskedFilter) -> Verdicts | None:
        if not one.has_tallies:
            return one.plugin.filter(one.state, self.trial.pod, self.view, self.view.rows)
        tallies = self.tallies[one.plugin.name]
        codes = np.zeros(self.table.size, np.int16)
        for code, tally in reversed(list(enumerate(tallies, 1))):
            codes[tally.is_refused] = code
        return Verdicts(codes, tuple([tally.refusal for tally in tallies])) if codes.any() else None

    def _refusals_of_own_states(
        self, one: AskedFilter, own_states: Mapping[int, tuple[State, ...]]
    ) -> dict[int, Refusal | None]:
        if one not in self.filters.counting:
            return {}
        index = self.filters.counting.index(one)
        return {
            position: one.plugin.filter_row(states[index], self.trial.pod, self.view, position)
            for position, states in own_states.items()
        }

    # --- giving back --------------------------------------------------------------------------------------------------

    def give_back(self, place: int, given: Mask) -> Mask:
        """Give back the pod at ``place`` of these rows (bool, one a row), but where the pod no longer fits beside it.

        Returns the rows of the latter: there it is a victim.
        """
        self._change(place, given, 1)
        refusing = np.zeros(self.table.size, np.bool_)
        self._ask_on_usage(refusing)
        if self._has_beside:
            self._change_beside(1)
            self._ask_on_usage(refusing)
            self._change_beside(-1)
        refusing &= given
        if self._counted is not None:
            for position in np.flatnonzero(given & self._counted[place]).tolist():
                if self._refuses_counted(place, position, bool(refusing[position])):
                    refusing[position] = True
        self._change(place, refusing, -1)
        return refusing

    def _change(self, place: int, rows: Mask, sign: int) -> None:
        self.table.change(place, rows, sign)
        for tally in self._moving_tallies:
            tally.change(place, rows, sign)

    def _ask_on_usage(self, refusing: Mask) -> None:
        for one in self.filters.on_usage:
            verdicts = one.plugin.filter(one.state, self.trial.pod, self.view, self.view.rows)
            if verdicts is not None:
                refusing |= verdicts.codes != 0
        for tally in self._moving_tallies:
            refusing |= tally.is_refused

    def _refuses_counted(self, place: int, position: int, is_refused: bool) -> bool:
        """Whether the row refuses with the pod counted again, for lack of room or for what was counted; then the pod is
        taken back."""
        info = self.columns.infos[int(self.rows[position])][place]
        before = self._own_states[position]
        states = self._changed(before, position, info, 1)
        if not is_refused and any(state is not old for state, old in zip(states, before, strict=True)):
            is_refused = self._refuse_counted(states, position) or (
                position in self._counted_beside
                and self._refuse_counted(self._beside_counted(states, position), position)
            )
        self._own_states[position] = self._changed(states, position, info, -1) if is_refused else states
        return is_refused

    def _refuse_counted(self, states: tuple[State, ...], position: int) -> bool:
        return any(
            one.plugin.filter_row(state, self.trial.pod, self.view, position) is not None
            for one, state in zip(self.filters.counting, states, strict=True)
        )


class PodsOfRows(Struct, frozen=True):
    """The pods of rows, out of the pod columns, for making tallies."""

    view: View
    rows: Rows
    columns: PodColumns

    def infos(self, position: int) -> Sequence[PodInfo]:
        return self.columns.infos[int(self.rows[position])]

    def numbers(self, key: Hashable, measure: Measure, stamps: Rows | None = None) -> Matrix:
        return self.columns.numbers(self.rows, key, measure, stamps)

    def kinds(self, facet: Facet) -> tuple[Matrix, Sequence[PodInfo | None]]:
        return self.columns.kinds(self.rows, facet)
