"""Which rows a class of pods fits on, kept up to date row by row. See ``classes.py`` for the idea."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scheduler.cluster.row_journal import NO_CHANGES, NODE_CHANGED, RowChanges, RowJournal
from scheduler.errors import PluginError
from scheduler.framework.diagnosis import disjoint_node_sets
from scheduler.framework.plugin import (
    EMPTY_STATE,
    FilterPlugin,
    NodeSubset,
    PreFilterPlugin,
    Rows,
    State,
    Verdicts,
)
from scheduler.framework.plugin_times import PluginTimes
from scheduler.framework.traits import traits_of
from scheduler.messages.status import SKIP, Code, Refusal, Skip

if TYPE_CHECKING:
    from scheduler.cluster.pod_info import PodInfo
    from scheduler.cluster.view import View
    from scheduler.framework.profile import Profile

FITS = 0
NO_NODE = -1
"""Code of a row without a Node object."""
OUTSIDE = -2
"""Code of a row that a PreFilter plugin's node set leaves out."""

MOST_REFUSALS = 4096
"""Different refusals that a class keeps between attempts."""
_MOST_CODES = 2**15 - 1

MOST_SINGLE_ROWS = 30
"""Up to so many changed rows the scalar forms are quicker than asking about the changed ones at once."""

States = dict[str, State | Skip]

PluginPoint = tuple[str, str]
"""A plugin and the point at which it is asked."""


class _Slot:
    """One filter plugin's answers."""

    __slots__ = (
        "codes",
        "flags",
        "has_own_stamp",
        "index",
        "is_declared",
        "is_stale",
        "name",
        "plugin",
        "stamp",
        "state",
    )

    def __init__(self, index: int, plugin: FilterPlugin) -> None:
        self.index = index
        self.name = plugin.name
        self.plugin = plugin
        traits = traits_of(plugin)
        self.is_declared = traits.is_declared
        self.flags = traits.flags
        self.has_own_stamp = traits.has_stamp and not isinstance(plugin, PreFilterPlugin)
        """Nobody else looks at its stamp."""
        self.stamp: Hashable = None
        self.is_stale = False
        """Its stamp is another one, so that all rows must be asked again, even if its state is the same."""
        self.state: State | Skip | None = None
        self.codes: npt.NDArray[np.int16] | None = None

    def holds_for(self, state: State | Skip) -> bool:
        """Whether the answers for rows that have not changed are still the plugin's, with this state."""
        return self.state is state and self.is_declared and not self.is_stale


class _PreSlot:
    """One PreFilter plugin's answer, and what it stands on."""

    __slots__ = ("answer", "has_stamp", "is_declared", "name", "plugin", "stamp")

    def __init__(self, plugin: PreFilterPlugin, is_concerned: bool) -> None:
        self.plugin = plugin
        self.name = plugin.name
        traits = traits_of(plugin)
        self.is_declared = traits.is_declared or not is_concerned
        self.has_stamp = traits.has_stamp
        self.stamp: Hashable = None if is_concerned else ()
        self.answer: State | Skip | Refusal | None = None if is_concerned else SKIP

    def refresh(self, pod: PodInfo, fragments: Mapping[str, Hashable], view: View, times: PluginTimes | None) -> bool:
        """Ask the plugin unless its answer still holds. Whether there is another answer now."""
        ask = self.plugin.pre_filter
        if times is not None:
            ask = times.timing(ask, self.name, "PreFilter")
        try:
            stamp = self.plugin.stamp(fragments[self.name], view) if self.has_stamp else ()
            if self.is_declared and self.answer is not None and stamp == self.stamp:
                return False
            answer = ask(pod, view)
        except Exception as error:
            raise PluginError(self.name, "PreFilter", error) from error
        is_other = answer is not self.answer or (answer is not SKIP and stamp != self.stamp)
        self.stamp = stamp
        self.answer = answer
        return is_other


class ClassFilters:
    """The PreFilter and Filter answers of one class. After ``refresh`` read the attributes; do not change them."""

    def __init__(self, profile: Profile, unconcerned: frozenset[str]) -> None:
        self._times: PluginTimes | None = None
        self.evaluated: frozenset[PluginPoint] = frozenset()
        """Who has something to say about the pods, in PreFilter and in Filter."""
        self._slots = [_Slot(index, plugin) for index, plugin in enumerate(profile.filter_plugins)]
        self._asked_slots = self._slots
        self._pre_slots = [_PreSlot(plugin, plugin.name not in unconcerned) for plugin in profile.pre_filter_plugins]
        self._moving_pre_slots = [slot for slot in self._pre_slots if slot.has_stamp or not slot.is_declared]
        self._is_pre_filtered = False
        self._epoch: tuple[int, ...] = ()
        """Of the view when all stamps were looked at last."""
        self._goes_by_stamps = all(slot.is_declared for slot in self._pre_slots)
        self._moved_by: dict[int, list[_Slot]] = {}
        """Flags of the row journal → who must look at such rows, as long as nothing else changes."""
        self._stamped_slots = [slot for slot in self._slots if slot.has_own_stamp]
        self._slot_of = {slot.name: slot for slot in self._slots}
        self.stamps_version = 0
        """Grows when a filter plugin's stamp is another one."""
        self._error_codes: list[int] = []
        """Which of ``refusals`` are errors."""
        self._refusal_ids: dict[tuple[int, Refusal], int] = {}
        self._only: frozenset[str] | None = None
        self._position = -1
        self._node_version = -1
        self.states: States = {}
        """Plugin name → what its PreFilter answered, for those that ran."""
        self.pre_refusal: Refusal | None = None
        """The PreFilter answer that rejects the pod as a whole."""
        self.pre_rejectors: tuple[str, ...] = ()
        """Plugins behind ``pre_refusal``, or that restricted the search (``subset_plugins``)."""
        self.subset_plugins: tuple[str, ...] = ()
        """Plugins that named the only nodes worth looking at, sorted."""
        self.refusals: list[Refusal] = [Refusal(Code.SUCCESS)]
        """Code → signed refusal; entry 0 is never used."""
        self.codes: npt.NDArray[np.int16] = np.zeros(0, np.int16)
        """A row's first refusal: FITS, NO_NODE, OUTSIDE, or an index into ``refusals``."""
        self.feasible_count = 0
        self.feasibility_version = 0
        self.changed_feasibility: set[int] | None = None
        """Rows that began or ceased to fit since the scores looked; None = possibly all."""
        self._rows: tuple[int, npt.NDArray[np.int64]] | None = None

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + sum(slot.codes.nbytes for slot in self._slots if slot.codes is not None)

    @property
    def feasible_rows(self) -> npt.NDArray[np.int64]:
        """Rows that fit, int64, ascending."""
        if self._rows is None or self._rows[0] != self.feasibility_version:
            self._rows = (self.feasibility_version, np.flatnonzero(self.codes == FITS))
        return self._rows[1]

    def error(self) -> Refusal | None:
        """A filter's ERROR on some row: it ends the attempt."""
        for code in self._error_codes:
            if bool((self.codes == code).any()):
                return self.refusals[code]
        return None

    def take_from(self, other: ClassFilters) -> None:
        """Begin with the answers of the same class elsewhere, where everything asked about is the same."""
        for slot, theirs in zip(self._slots, other._slots, strict=True):
            slot.stamp, slot.is_stale, slot.state = theirs.stamp, theirs.is_stale, theirs.state
            slot.codes = None if theirs.codes is None else theirs.codes.copy()
        for pre_slot, their in zip(self._pre_slots, other._pre_slots, strict=True):
            pre_slot.stamp, pre_slot.answer = their.stamp, their.answer
        self._asked_slots = [self._slots[slot.index] for slot in other._asked_slots]
        self._is_pre_filtered, self._epoch = other._is_pre_filtered, other._epoch
        self._position, self._node_version, self._only = other._position, other._node_version, other._only
        self._error_codes, self._refusal_ids = other._error_codes[:], dict(other._refusal_ids)
        self.evaluated, self.stamps_version = other.evaluated, other.stamps_version
        self.states, self.refusals = other.states, other.refusals[:]
        self.pre_refusal, self.pre_rejectors = other.pre_refusal, other.pre_rejectors
        self.subset_plugins = other.subset_plugins
        self.codes, self._rows = other.codes.copy(), other._rows
        self.feasible_count, self.feasibility_version = other.feasible_count, other.feasibility_version
        changed = other.changed_feasibility
        self.changed_feasibility = None if changed is None else set(changed)

    def time_by(self, times: PluginTimes | None) -> None:
        """Calls are timed until None is said."""
        self._times = times

    # --- refreshing ---------------------------------------------------------------------------------------------------

    def refresh_rows(self, pod: PodInfo, view: View, journal: RowJournal) -> None:
        """Bring the filters' answers up to date; ``refresh_pre_filters`` must have come before, and not refused the
        pod. Raises PluginError naming a plugin that raised.
        """
        table = view.table
        if len(self.refusals) > MOST_REFUSALS:
            self._forget_refusals()
        changes = journal.changes(self._position, MOST_SINGLE_ROWS) if self._position >= 0 else None
        is_full = changes is None or len(self.codes) != table.size
        if self._only is not None and self._node_version != table.node_version:
            is_full = True
        if changes is None or is_full:
            changes = NO_CHANGES
        self._position = journal.position
        self._node_version = table.node_version
        recombine = is_full or (changes.many is not None and bool(changes.flags & NODE_CHANGED))
        touched = set(changes.few_with(NODE_CHANGED)) if changes.flags & NODE_CHANGED else set()
        for slot in self._slots if is_full else self._moved_slots(changes.flags):
            try:
                recombine = self._refresh_slot(slot, pod, view, changes, touched, is_full) or recombine
            except Exception as error:
                self._position = -1
                raise PluginError(slot.name, "Filter", error) from error
        if recombine:
            self._combine(view)
        elif touched:
            self._combine_rows(view, touched)

    def _moved_slots(self, flags: int) -> list[_Slot]:
        slots = self._moved_by.get(flags)
        if slots is None:
            states = self.states
            slots = [
                slot
                for slot in self._asked_slots
                if flags & slot.flags or not slot.holds_for(states.get(slot.name, EMPTY_STATE))
            ]
            if all(slot.holds_for(states.get(slot.name, EMPTY_STATE)) for slot in slots):
                self._moved_by[flags] = slots
        return slots

    def _refresh_slot(
        self, slot: _Slot, pod: PodInfo, view: View, changes: RowChanges, touched: set[int], is_full: bool
    ) -> bool:
        """Whether the first refusals must be made anew for all rows."""
        state = self.states.get(slot.name, EMPTY_STATE)
        is_same = slot.holds_for(state)
        slot.state = state
        slot.is_stale = True
        had_refusals = slot.codes is not None
        if isinstance(state, Skip):
            slot.codes = None
            is_changed = had_refusals
        elif is_full or not is_same:
            codes = self._codes_of(slot, state, pod, view, view.rows)
            slot.codes = codes
            is_changed = had_refusals or codes is not None
        elif changes.many is not None:
            is_changed = bool(changes.flags & slot.flags) and self._many_rows(slot, state, pod, view, changes.many)
        else:
            self._few_rows(slot, state, pod, view, changes.few_with(slot.flags), touched)
            is_changed = False
        slot.is_stale = False
        return is_changed

    def refresh_pre_filters(self, pod: PodInfo, fragments: Mapping[str, Hashable], view: View) -> None:
        """Bring ``states`` and ``pre_refusal`` up to date. Raises PluginError naming a plugin that raised."""
        epoch = view.epoch
        if self._is_pre_filtered and self._goes_by_stamps and epoch == self._epoch:
            return
        for stamped in self._stamped_slots:
            self._look_at_stamp(stamped, fragments, view)
        slots = self._moving_pre_slots if self._is_pre_filtered else self._pre_slots
        is_other = not self._is_pre_filtered
        self._is_pre_filtered = False
        for slot in slots:
            if slot.refresh(pod, fragments, view, self._times):
                is_other = True
                self._mark_stale(self._slot_of.get(slot.name))
            if isinstance(slot.answer, Refusal) and slot.answer.code is not Code.UNSCHEDULABLE:
                # Ends the round: what comes after it is not asked, and all are looked at again next time.
                self._take_answers(slot)
                return
        self._is_pre_filtered = True
        self._epoch = epoch
        if is_other:
            self._take_answers(None)

    def _look_at_stamp(self, slot: _Slot, fragments: Mapping[str, Hashable], view: View) -> None:
        try:
            stamp = slot.plugin.stamp(fragments[slot.name], view)
        except Exception as error:
            raise PluginError(slot.name, "Filter", error) from error
        if stamp != slot.stamp:
            self._mark_stale(slot)
            slot.stamp = stamp

    def _mark_stale(self, slot: _Slot | None) -> None:
        if slot is not None:
            slot.is_stale = True
            self._moved_by.clear()
            self.stamps_version += 1

    def _take_answers(self, last: _PreSlot | None) -> None:
        """Sort the plugins' answers into states, node sets and refusals; ``last`` ended the round."""
        states: States = {}
        only: frozenset[str] | None = None
        restricting: list[str] = []
        self.pre_refusal = None
        self.pre_rejectors = ()
        asked: list[_PreSlot] = []
        for slot in self._pre_slots:
            asked.append(slot)
            answer, name = slot.answer, slot.name
            if isinstance(answer, Refusal):
                # An Unschedulable is remembered while the others still run: preemption needs what they work out. The
                # last word is what users read, but whatever helps with any of them may help the pod.
                rejectors = (name,) if slot is last else (*self.pre_rejectors, name)
                self.pre_refusal, self.pre_rejectors = answer.by(name), rejectors
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
        self.states = states
        self._moved_by.clear()
        self.subset_plugins = tuple(sorted(restricting))
        if only != self._only or self.pre_refusal is not None:
            # Nothing reads the rows of a pod that is refused as a whole; they are answered afresh when it no longer is.
            self._only = only
            self._position = -1
        self._asked_slots = [
            slot for slot in self._slots if states.get(slot.name, EMPTY_STATE) is not SKIP or slot.codes is not None
        ]
        said = {(slot.name, "PreFilter") for slot in asked if slot.answer is not SKIP}
        if self.pre_refusal is None:
            said |= {(slot.name, "Filter") for slot in self._slots if states.get(slot.name) is not SKIP}
        self.evaluated = frozenset(said)

    @property
    def only(self) -> frozenset[str] | None:
        """The only nodes to look at, by name; None = all."""
        return self._only

    def _codes_of(
        self, slot: _Slot, state: State, pod: PodInfo, view: View, rows: Rows
    ) -> npt.NDArray[np.int16] | None:
        """The plugin's answers in codes of the class, one a row asked; None where all fit."""
        ask = slot.plugin.filter
        if self._times is not None:
            ask = self._times.timing(ask, slot.name, "Filter")
        verdicts: Verdicts | None = ask(state, pod, view, rows)
        if verdicts is None or not verdicts.codes.any():
            return None
        ids = np.zeros(len(verdicts.refusals) + 1, np.int16)
        for place, refusal in enumerate(verdicts.refusals):
            ids[place + 1] = self._id(slot, refusal)
        return ids[verdicts.codes]

    def _many_rows(self, slot: _Slot, state: State, pod: PodInfo, view: View, rows: npt.NDArray[np.int64]) -> bool:
        """Whether any answer is another one."""
        codes = self._codes_of(slot, state, pod, view, rows)
        if slot.codes is None:
            if codes is None:
                return False
            slot.codes = np.zeros(view.table.size, np.int16)
        before = slot.codes[rows]
        if codes is None:
            codes = np.zeros(len(rows), np.int16)
        slot.codes[rows] = codes
        return bool((before != codes).any())

    def _few_rows(
        self, slot: _Slot, state: State, pod: PodInfo, view: View, rows: Sequence[int], touched: set[int]
    ) -> None:
        table = view.table
        if table.node_count != table.size:
            rows = [row for row in rows if table.exists[row]]
        if not rows:
            return
        ask = slot.plugin.filter_few
        if self._times is not None:
            ask = self._times.timing(ask, slot.name, "Filter")
        refusals = ask(state, pod, view, rows)
        codes = slot.codes
        for place, row in enumerate(rows):
            refusal = refusals[place]
            code = FITS if refusal is None else self._id(slot, refusal)
            if codes is None:
                if code == FITS:
                    continue
                codes = slot.codes = np.zeros(table.size, np.int16)
            if codes.item(row) != code:
                codes[row] = code
                touched.add(row)

    def _id(self, slot: _Slot, refusal: Refusal) -> int:
        key = (slot.index, refusal)
        found = self._refusal_ids.get(key)
        if found is None and len(self.refusals) < _MOST_CODES:
            found = self._refusal_ids[key] = len(self.refusals)
            self.refusals.append(refusal.by(slot.plugin.name))
            if refusal.code is Code.ERROR:
                self._error_codes.append(found)
        elif found is None:
            # More different refusals in one attempt than codes: the nodes that are left share one that was told before.
            found = next((code for code, known in enumerate(self.refusals) if known.code is refusal.code), 1)
        return found

    def _forget_refusals(self) -> None:
        """Reasons that tell of amounts or nodes are ever new ones: from time to time all rows are asked anew."""
        self.refusals = self.refusals[:1]
        self._error_codes = []
        self._refusal_ids = {}
        self._position = -1

    # --- the first refusal of each row --------------------------------------------------------------------------------

    def _combine(self, view: View) -> None:
        table = view.table
        codes = np.zeros(table.size, np.int16)
        for slot in reversed(self._slots):
            if slot.codes is not None:
                np.copyto(codes, slot.codes, where=slot.codes != FITS)
        if self._only is not None:
            inside = np.zeros(table.size, np.bool_)
            for name in self._only:
                row = table.existing_row(name)
                if row is not None:
                    inside[row] = True
            codes[~inside] = OUTSIDE
        if table.node_count != table.size:
            codes[~table.exists] = NO_NODE
        self.codes = codes
        self.feasible_count = table.size - int(np.count_nonzero(codes))
        self.feasibility_version += 1
        self.changed_feasibility = None

    def _combine_rows(self, view: View, rows: set[int]) -> None:
        table = view.table
        for row in rows:
            code = FITS
            if not table.exists[row]:
                code = NO_NODE
            elif self._only is not None and table.names[row] not in self._only:
                code = OUTSIDE
            else:
                for slot in self._slots:
                    if slot.codes is not None and slot.codes[row] != FITS:
                        code = int(slot.codes[row])
                        break
            before = int(self.codes[row])
            self.codes[row] = code
            if (before == FITS) != (code == FITS):
                self.feasible_count += 1 if code == FITS else -1
                self.feasibility_version += 1
                if self.changed_feasibility is not None:
                    self.changed_feasibility.add(row)
