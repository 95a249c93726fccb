"""The rows that a class of pods fits on, kept up to date row by row. See ``cache.py`` for the idea."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeGuard

import numpy as np
import numpy.typing as npt

from scheduler.cluster.row_journal import NO_CHANGES, NODE_CHANGED, RowChanges
from scheduler.cluster.view import COUNTS_OF_PODS, View
from scheduler.errors import PluginError
from scheduler.framework.class_run import ClassRun, PluginPoint
from scheduler.framework.classes.filter_slots import (
    FilterSlot,
    PreFilterSlot,
    codes_of,
    column_of,
    known_by_value,
    takes_values,
)
from scheduler.framework.classes.first_refusals import FITS, NO_ROWS, CodedRows, FirstRefusals
from scheduler.framework.classes.refusal_table import RefusalTable
from scheduler.framework.diagnosis import Diagnosis, disjoint_node_sets
from scheduler.framework.plugin import EMPTY_STATE, FilterPlugin, NodeSubset, PreFilterPlugin, Rows, State
from scheduler.messages.status import SKIP, Code, Refusal, Skip

MAX_SINGLE_ROWS = 30
"""Changed rows up to which the plugins' scalar forms are quicker than one call for all of them (design §4)."""

States = dict[str, State | Skip]


class ClassFilters:
    """The PreFilter and Filter answers of one class. Only a refresh changes the attributes; read them after one.

    ``pre_filter_plugins`` and ``filter_plugins`` are a profile's, in its order; ``unconcerned`` names those of them
    that pods of the class do not concern.
    """

    def __init__(
        self,
        pre_filter_plugins: Sequence[PreFilterPlugin],
        filter_plugins: Sequence[FilterPlugin],
        unconcerned: frozenset[str],
    ) -> None:
        self.evaluated: frozenset[PluginPoint] = frozenset()
        """The plugins that did not skip the pods, with the point: PreFilter or Filter."""
        self.states: States = {}
        """Plugin name → its PreFilter answer, for the plugins that ran."""
        self.pre_refusal: Refusal | None = None
        """The PreFilter answer that rejects the pod as a whole."""
        self.pre_rejectors: tuple[str, ...] = ()
        """The plugins that caused ``pre_refusal`` or restricted the search (``subset_plugins``)."""
        self.subset_plugins: tuple[str, ...] = ()
        """The plugins that restricted the search to a set of nodes, sorted."""
        self.only: frozenset[str] | None = None
        """The names of the nodes to evaluate; None = all."""
        self.first = FirstRefusals()
        """The first refusal of each row."""
        self.diagnosed: tuple[tuple[int, int] | Refusal, Diagnosis] | None = None
        """The last diagnosis that contains the class's answers alone, shared by the attempts that find the same. Before
        it: the versions of ``first`` and of the nodes, or the ``pre_refusal``, that it belongs to."""
        self.diagnosed_for_one: tuple[tuple[int, tuple[str, ...]], Diagnosis] | None = None
        """The last diagnosis that contains more, such as refusals beside nominated pods. Before it: the version of the
        nodes, and the plugins that restricted the search."""
        self.versions_sum = 0
        """Grows when ``version_of`` a plugin does."""
        self.columns_made = 0
        """Grows with each column that is allocated: the class's size in bytes may have changed."""
        self._table = RefusalTable()
        names = {plugin.name for plugin in pre_filter_plugins}
        self._slots = [FilterSlot(at, one, has_pre_filter=one.name in names) for at, one in enumerate(filter_plugins)]
        self._asked_slots = self._slots
        self._pre_slots = [PreFilterSlot(plugin, plugin.name not in unconcerned) for plugin in pre_filter_plugins]
        self._changeable_pre_slots = [slot for slot in self._pre_slots if slot.has_stamp or not slot.is_declared]
        self._counting_pre_slots = [slot for slot in self._changeable_pre_slots if slot.counts_pods]
        self._is_pre_filtered = False
        self._versions: tuple[int, ...] = ()
        """The view's versions at the last comparison of all stamps."""
        self._goes_by_stamps = all(slot.is_declared for slot in self._pre_slots)
        self._affected_by: dict[Hashable, list[FilterSlot]] = {}
        """Flags of the row journal, and stale slots → these and the slots that read what the flags stand for; valid
        until other slots are asked."""
        self._stale: list[FilterSlot] = []
        """The slots that became stale since all rows were up to date."""
        self._stamped_slots = [slot for slot in self._slots if slot.has_own_stamp]
        self._counting_slots = [slot for slot in self._stamped_slots if slot.counts_pods]
        self._slot_of = {slot.name: slot for slot in self._slots}
        self._rows_version = -1
        self._node_version = -1

    @property
    def refusals(self) -> list[Refusal]:
        """Code → signed refusal; entry 0 is never used."""
        return self._table.refusals

    @property
    def codes(self) -> npt.NDArray[np.int16]:
        """Each row's first refusal: FITS, NO_NODE, OUTSIDE, or an index into ``refusals``."""
        return self.first.codes

    @property
    def feasible_rows(self) -> npt.NDArray[np.int64]:
        """Rows that fit, int64, ascending."""
        return self.first.feasible_rows

    @property
    def nbytes(self) -> int:
        kept = sum(known[1].codes.nbytes for known in (self.diagnosed, self.diagnosed_for_one) if known is not None)
        kept += sum(slot.codes.nbytes for slot in self._slots if slot.codes is not None)
        kept += sum(slot.answer.nbytes for slot in self._pre_slots if isinstance(slot.answer, State))
        return kept + self.first.nbytes

    def searched(self, view: View) -> Rows:
        """The rows to evaluate: all of them, or those that the PreFilter plugins leave, ascending."""
        return view.rows if self.only is None else view.table.existing_rows(self.only)

    def keep_diagnosis(self, of: tuple[int, int] | Refusal, diagnosis: Diagnosis) -> None:
        """Replace ``diagnosed``."""
        if self.diagnosed is None or len(self.diagnosed[1].codes) != len(diagnosis.codes):
            self.columns_made += 1
        self.diagnosed = of, diagnosis

    def keep_diagnosis_for_one(self, of: tuple[int, tuple[str, ...]], diagnosis: Diagnosis) -> None:
        """Replace ``diagnosed_for_one``."""
        known = self.diagnosed_for_one
        self.columns_made += known is None or len(known[1].codes) != len(diagnosis.codes)
        self.diagnosed_for_one = of, diagnosis

    def take_from(self, other: ClassFilters) -> None:
        """Copies the answers of the same class from another cache whose cluster is equal."""
        for slot, theirs in zip(self._slots, other._slots, strict=True):
            slot.take_from(theirs)
        for pre_slot, their in zip(self._pre_slots, other._pre_slots, strict=True):
            pre_slot.take_from(their)
        self._asked_slots = [self._slots[slot.index] for slot in other._asked_slots]
        self.evaluated, self.states, self.only = other.evaluated, other.states, other.only
        self.pre_refusal, self.pre_rejectors = other.pre_refusal, other.pre_rejectors
        self.subset_plugins = other.subset_plugins
        self.first, self._table = other.first.copied(), other._table.copied()
        self._stale = [slot for slot in self._slots if slot.is_stale]
        self._is_pre_filtered, self._versions = other._is_pre_filtered, other._versions
        self._rows_version, self._node_version = other._rows_version, other._node_version
        self.columns_made += 1

    def version_of(self, plugin: str) -> int:
        """A number that grows when what a filter plugin's answers stand on changes, besides rows."""
        return self._slot_of[plugin].version

    @property
    def error_rows(self) -> npt.NDArray[np.int64]:
        """The rows on which a filter ended in an error, ascending."""
        codes = self._table.error_codes
        return np.flatnonzero(np.isin(self.codes, codes)) if codes else NO_ROWS

    # --- PreFilter ----------------------------------------------------------------------------------------------------

    def refresh_pre_filters(self, run: ClassRun) -> None:
        """Brings ``states`` and ``pre_refusal`` up to date. Raises PluginError naming a plugin that raised."""
        versions = run.view.versions
        if self._is_pre_filtered and self._goes_by_stamps and versions == self._versions:
            return
        slots, stamped_slots = self._pre_slots, self._stamped_slots
        if self._is_pre_filtered:
            slots = self._changeable_pre_slots
            if versions[:-COUNTS_OF_PODS] == self._versions[:-COUNTS_OF_PODS]:
                slots, stamped_slots = self._counting_pre_slots, self._counting_slots
        for stamped in stamped_slots:
            if stamped.stamp_changed(run):
                self._mark_stale(stamped)
        has_changed = not self._is_pre_filtered
        newer: States = {}
        self._is_pre_filtered = False
        for slot in slots:
            before = slot.answer
            if slot.refresh(run):
                self._mark_stale(self._slot_of.get(slot.name))
                if _is_plain(before) and _is_plain(slot.answer):
                    newer[slot.name] = slot.answer
                else:
                    has_changed = True
            if isinstance(slot.answer, Refusal) and slot.answer.code is not Code.UNSCHEDULABLE:
                # Ends the round: later plugins are not called, and all are compared again next time.
                self._take_answers(slot)
                return
        self._is_pre_filtered = True
        self._versions = versions
        if has_changed or (newer and self.pre_refusal is not None):
            self._take_answers(None)
        elif newer:
            # Only states are new: the same plugins are asked about the same rows.
            self.states = self.states | newer

    def _mark_stale(self, slot: FilterSlot | None) -> None:
        if slot is not None:
            if not slot.is_stale:
                self._stale.append(slot)
            slot.is_stale = True
            slot.version += 1
            self.versions_sum += 1

    def _take_answers(self, last: PreFilterSlot | None) -> None:
        """Sorts the plugins' answers into states, node sets and refusals; ``last`` ended the round."""
        states: States = {}
        only: frozenset[str] | None = None
        restricting: list[str] = []
        self.pre_refusal = None
        self.pre_rejectors = ()
        asked: list[PreFilterSlot] = []
        for slot in self._pre_slots:
            asked.append(slot)
            answer, name = slot.answer, slot.name
            if isinstance(answer, Refusal):
                # After an Unschedulable the other plugins still run: preemption needs their states. The last refusal
                # counts: an event helps the pod only if it helps with that one.
                self.pre_refusal, self.pre_rejectors = answer.by(name), (name,)
            elif isinstance(answer, NodeSubset):
                only = answer.names if only is None else only & answer.names
                restricting.append(name)
                states[name] = answer.inner
                if not only:
                    names = frozenset(restricting)
                    self.pre_refusal, self.pre_rejectors = disjoint_node_sets(names), tuple(sorted(names))
                    break
            elif answer is not None:
                states[name] = answer
            if slot is last:
                break
        if self.pre_refusal is not None and self.pre_refusal.code is Code.UNSCHEDULABLE:
            self.pre_rejectors += tuple(name for name in restricting if name not in self.pre_rejectors)
        self.states = states
        self._affected_by.clear()
        self.subset_plugins = tuple(sorted(restricting))
        if only != self.only or self.pre_refusal is not None:
            # Nothing reads the rows of a pod that is refused as a whole; all are evaluated when it no longer is.
            self.only = only
            self._rows_version = -1
        self._asked_slots = [
            slot for slot in self._slots if states.get(slot.name, EMPTY_STATE) is not SKIP or slot.codes is not None
        ]
        said = {(slot.name, "PreFilter") for slot in asked if slot.answer is not SKIP}
        if self.pre_refusal is None:
            said |= {(slot.name, "Filter") for slot in self._slots if states.get(slot.name) is not SKIP}
        self.evaluated = frozenset(said)

    # --- Filter -------------------------------------------------------------------------------------------------------

    def refresh_rows(self, run: ClassRun) -> None:
        """Brings the filters' answers up to date, after a ``refresh_pre_filters`` that did not refuse the pod. Raises
        PluginError naming a plugin that raised.
        """
        table, journal = run.view.table, run.journal
        if self._table.is_crowded:
            self._table.clear()
            self._rows_version = -1
        changes = journal.changes(self._rows_version, MAX_SINGLE_ROWS) if self._rows_version >= 0 else None
        before, size = len(self.codes), table.size
        is_full = changes is None or size > before + MAX_SINGLE_ROWS
        if self.only is not None and self._node_version != table.node_version:
            is_full = True
        if changes is None or is_full:
            changes = NO_CHANGES
        self._rows_version = journal.version
        self._node_version = table.node_version
        touched = changes.nodes()
        if size > before and not is_full:
            self._grow(size)
            touched.update(range(before, size))
        combines_all = is_full or len(touched) > MAX_SINGLE_ROWS
        blocks: list[CodedRows] = []
        for slot in self._slots if is_full else self._affected_slots(changes.flags):
            try:
                combines_all = self._refresh_slot(slot, run, changes, touched, blocks, is_full) or combines_all
            except Exception as error:
                self._rows_version = -1
                raise PluginError(slot.name, "Filter", error) from error
        self._stale.clear()
        first = self.first
        if combines_all or (blocks and self.only is not None):
            first.combine(self._columns(), self.searched(run.view), run.view)
            self.columns_made += before != len(first.codes)
            return
        if blocks:
            first.combine_blocks(blocks, self._columns(), run.view)
        if touched:
            first.combine_rows(touched, self._columns(), self.only, run.view)

    def _grow(self, size: int) -> None:
        """The table has more rows, of which nothing is known yet."""
        self.first.grow(size)
        for slot in self._slots:
            slot.grow(size)
            if not slot.flags & NODE_CHANGED:
                self._mark_stale(slot)
        self.columns_made += 1

    def _columns(self) -> list[npt.NDArray[np.int16]]:
        return [slot.codes for slot in self._slots if slot.codes is not None]

    def _affected_slots(self, flags: int) -> list[FilterSlot]:
        key: Hashable = (flags, *self._stale) if self._stale else flags
        slots = self._affected_by.get(key)
        if slots is None:
            states = self.states
            slots = self._affected_by[key] = [
                slot
                for slot in self._asked_slots
                if flags & slot.flags or not slot.holds_for(states.get(slot.name, EMPTY_STATE))
            ]
        return slots

    def _refresh_slot(
        self,
        slot: FilterSlot,
        run: ClassRun,
        changes: RowChanges,
        touched: set[int],
        blocks: list[CodedRows],
        is_full: bool,
    ) -> bool:
        """Returns whether the first refusals must be combined for all rows; otherwise changed rows are added to
        ``touched`` or ``blocks``."""
        state = self.states.get(slot.name, EMPTY_STATE)
        holds = slot.holds_for(state)
        slot.state = state
        slot.is_stale = True
        had_refusals = slot.codes is not None
        if isinstance(state, Skip):
            slot.codes = slot.known = None
            has_changed = had_refusals
        elif is_full or not holds:
            known, before = known_by_value(slot, state, run), slot.codes
            has_changed = False
            if is_full or known is None or not takes_values(slot, known, run, self._table, blocks):
                by_value = None if known is None else known.answer
                slot.codes = column_of(slot, state, run, self.searched(run.view), self._table, by_value)
                has_changed = had_refusals or slot.codes is not None
            self.columns_made += _size_of(before) != _size_of(slot.codes)
            slot.known = known
        elif changes.many is not None:
            differing = self._many_rows(slot, state, run, changes.many) if changes.flags & slot.flags else NO_ROWS
            has_changed = len(differing) > MAX_SINGLE_ROWS
            if len(differing) and not has_changed:
                touched.update(differing.tolist())
        else:
            self._few_rows(slot, state, run, changes.few_with(slot.flags), touched)
            has_changed = False
        slot.is_stale = False
        return has_changed

    def _many_rows(
        self, slot: FilterSlot, state: State, run: ClassRun, rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Updates the answers for these rows and returns those where it has changed, some perhaps twice."""
        codes = codes_of(slot, state, run, rows, self._table)
        if slot.codes is None:
            if codes is None:
                return NO_ROWS
            slot.codes = self._new_column(run)
        before = slot.codes[rows]
        if codes is None:
            codes = np.zeros(len(rows), np.int16)
        slot.codes[rows] = codes
        differs = before != codes
        # Counting first: mostly nothing differs, and that takes a quarter of the time of the selection.
        return rows[differs] if np.count_nonzero(differs) else NO_ROWS

    def _few_rows(self, slot: FilterSlot, state: State, run: ClassRun, rows: Sequence[int], touched: set[int]) -> None:
        table = run.view.table
        if table.node_count != table.size:
            rows = [row for row in rows if table.exists[row]]
        if not rows:
            return
        refusals = run.timed(slot.plugin.filter_few, slot.name, "Filter")(state, run.pod, run.view, rows)
        codes = slot.codes
        for place, row in enumerate(rows):
            refusal = refusals[place]
            code = FITS if refusal is None else self._table.code_of(slot.index, slot.plugin, refusal)
            if codes is None:
                if code == FITS:
                    continue
                codes = slot.codes = self._new_column(run)
            if codes.item(row) != code:
                codes[row] = code
                touched.add(row)

    def _new_column(self, run: ClassRun) -> npt.NDArray[np.int16]:
        self.columns_made += 1
        return np.zeros(run.view.table.size, np.int16)


def _is_plain(answer: State | Skip | Refusal | None) -> TypeGuard[State]:
    """Whether a PreFilter answer is a state that restricts nothing."""
    return isinstance(answer, State) and not isinstance(answer, NodeSubset)


def _size_of(column: npt.NDArray[np.int16] | None) -> int:
    return 0 if column is None else len(column)
