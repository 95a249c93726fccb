"""One plugin's cached answers for one class of pods, and what they depend on. See ``filters.py``."""

from __future__ import annotations

from collections.abc import Hashable
from copy import copy

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from scheduler.cluster.interning import ABSENT
from scheduler.cluster.longer import longer
from scheduler.errors import PluginError
from scheduler.framework.class_run import PRE_FILTER, ClassRun
from scheduler.framework.classes.first_refusals import FITS, CodedRows
from scheduler.framework.classes.refusal_table import RefusalTable
from scheduler.framework.plugin import FilterPlugin, NodeSubset, PreFilterPlugin, Rows, State, Verdicts
from scheduler.framework.shortcuts import ByValue, CountingPlugin
from scheduler.framework.traits import traits_of
from scheduler.messages.status import SKIP, Refusal, Skip


class KnownByValue(Struct, frozen=True):
    """The answers for all rows, by the values of a label."""

    answer: ByValue
    labels_version: int
    size: int
    """The number of rows of the table."""

    def differs_at(self, other: KnownByValue) -> list[int] | None:
        """The ids of the values whose rows have another answer, ABSENT for rows without the label; None where all rows
        have to be looked at. Value ids mean the same until a label of a node changes."""
        mine, theirs = self.answer, other.answer
        if (
            self.labels_version != other.labels_version
            or self.size != other.size
            or mine.key != theirs.key
            or mine.refusals is not theirs.refusals
            or len(mine.codes) != len(theirs.codes)
        ):
            return None
        if mine.codes is theirs.codes:
            return []
        differing: list[int] = (mine.codes != theirs.codes).nonzero()[0].tolist()
        return differing


class FilterSlot:
    """One Filter plugin's answers: a code a row, or None where every row fits."""

    __slots__ = (
        "codes",
        "counting",
        "counts_pods",
        "flags",
        "has_own_stamp",
        "index",
        "is_declared",
        "is_stale",
        "known",
        "name",
        "plugin",
        "stamp",
        "state",
        "version",
    )

    def __init__(self, index: int, plugin: FilterPlugin, *, has_pre_filter: bool) -> None:
        self.index = index
        self.name = plugin.name
        self.plugin = plugin
        traits = traits_of(plugin)
        self.is_declared = traits.is_declared
        self.flags = traits.flags
        self.counts_pods = traits.counts_pods
        self.has_own_stamp = traits.has_stamp and not has_pre_filter
        """Whether the stamp is compared here and not by a PreFilter slot: a profile may leave that point out."""
        self.stamp: Hashable = None
        self.is_stale = False
        """The stamp has changed: all rows must be evaluated again, even if the state is the same."""
        self.version = 0
        """Grows each time it becomes stale."""
        self.state: State | Skip | None = None
        self.codes: npt.NDArray[np.int16] | None = None
        self.counting = plugin if isinstance(plugin, CountingPlugin) else None
        self.known: KnownByValue | None = None
        """The answers by the values of a label, if ``codes`` come from that; else None."""

    def take_from(self, other: FilterSlot) -> None:
        self.stamp, self.is_stale, self.state, self.version = other.stamp, other.is_stale, other.state, other.version
        self.codes = None if other.codes is None else other.codes.copy()
        self.known = other.known

    def grow(self, size: int) -> None:
        """Take in rows of which nothing is known yet."""
        if self.codes is not None:
            self.codes = longer(self.codes, size, FITS)

    def holds_for(self, state: State | Skip) -> bool:
        """Whether the answers for unchanged rows are still valid with this state."""
        return self.state is state and self.is_declared and not self.is_stale

    def stamp_changed(self, run: ClassRun) -> bool:
        """Reads the plugin's stamp and returns whether it has changed. Raises PluginError."""
        try:
            stamp = run.stamp_of(self.plugin)
        except Exception as error:
            raise PluginError(self.name, "Filter", error) from error
        if stamp == self.stamp:
            return False
        self.stamp = stamp
        return True


def known_by_value(slot: FilterSlot, state: State, run: ClassRun) -> KnownByValue | None:
    """What the plugin says of every row, if that depends on one label of its node alone."""
    if slot.counting is None:
        return None
    answer = run.timed(slot.counting.filter_by_value, slot.name, "Filter")(state, run.view)
    return None if answer is None else KnownByValue(answer, run.view.table.labels_version, run.view.table.size)


def column_of(
    slot: FilterSlot, state: State, run: ClassRun, searched: Rows, refusals: RefusalTable, by_value: ByValue | None
) -> npt.NDArray[np.int16] | None:
    """The plugin's answers for all rows that are searched, as a column of codes; None if it refuses none. ``by_value``:
    the answers, if they are known so."""
    table = run.view.table
    codes: npt.NDArray[np.int16] | None
    if by_value is not None:
        ids = refusals.codes_of(slot.index, slot.plugin, by_value.refusals)
        codes = ids.take(by_value.codes).take(table.label(by_value.key)[searched])
    elif slot.name in run.answers:
        codes = _coded(slot, run.answers[slot.name], refusals)
    else:
        codes = codes_of(slot, state, run, searched, refusals)
    if codes is None or not np.count_nonzero(codes):
        return None
    if isinstance(searched, slice):
        return codes
    column = np.zeros(table.size, np.int16)
    column[searched] = codes
    return column


def codes_of(
    slot: FilterSlot, state: State, run: ClassRun, rows: Rows, refusals: RefusalTable
) -> npt.NDArray[np.int16] | None:
    """The plugin's answers as codes of the class, one per row of ``rows``; None if all fit."""
    return _coded(slot, run.timed(slot.plugin.filter, slot.name, "Filter")(state, run.pod, run.view, rows), refusals)


def _coded(slot: FilterSlot, verdicts: Verdicts | None, refusals: RefusalTable) -> npt.NDArray[np.int16] | None:
    if verdicts is None or not np.count_nonzero(verdicts.codes):
        return None
    return refusals.codes_of(slot.index, slot.plugin, verdicts.refusals).take(verdicts.codes)


def takes_values(
    slot: FilterSlot, known: KnownByValue, run: ClassRun, refusals: RefusalTable, blocks: list[CodedRows]
) -> bool:
    """Updates the rows of the values whose answers have changed, and adds them to ``blocks``; False where all rows must
    be updated, as these are no less work."""
    values = None if slot.known is None else known.differs_at(slot.known)
    if not values or values[0] == ABSENT:
        return values == []
    table, answer = run.view.table, known.answer
    column = table.label_values(answer.key)
    found = [column.rows_with(value) for value in values]
    if 2 * sum(map(len, found)) > table.size:
        return False
    if slot.codes is None:
        slot.codes = np.zeros(table.size, np.int16)
    for value, rows in zip(values, found, strict=True):
        if not len(rows):
            # The table holds some of the rows only, and none with this value.
            continue
        said = answer.codes.item(value)
        code = refusals.code_of(slot.index, slot.plugin, answer.refusals[said - 1]) if said else FITS
        slot.codes[rows] = code
        blocks.append((rows, code))
    return True


class PreFilterSlot:
    """One PreFilter plugin's answer."""

    __slots__ = ("answer", "counting", "counts_pods", "has_stamp", "is_declared", "name", "plugin", "stamp")

    def __init__(self, plugin: PreFilterPlugin, is_concerned: bool) -> None:
        self.plugin = plugin
        self.name = plugin.name
        traits = traits_of(plugin)
        self.is_declared = traits.is_declared or not is_concerned
        self.has_stamp = traits.has_stamp
        self.counts_pods = traits.counts_pods
        self.counting = plugin if isinstance(plugin, CountingPlugin) else None
        self.stamp: Hashable = None if is_concerned else ()
        self.answer: State | Skip | Refusal | None = None if is_concerned else SKIP

    def take_from(self, other: PreFilterSlot) -> None:
        self.stamp, self.answer = other.stamp, other.answer

    def _recounted(self, run: ClassRun) -> State | None:
        if self.counting is None or not isinstance(self.answer, State):
            return None
        state: State | None = run.timed(self.counting.recounted, self.name, "PreFilter")(self.answer, run.pod, run.view)
        return state

    def refresh(self, run: ClassRun) -> bool:
        """Calls the plugin unless its answer is still valid; returns whether the answer has changed. Raises
        PluginError."""
        try:
            stamp = run.stamp_of(self.plugin) if self.has_stamp else ()
            if self.is_declared and self.answer is not None and stamp == self.stamp:
                return False
            known = run.pod_answers.get((self.name, PRE_FILTER)) if run.pod_answers else None
            answer = self._recounted(run) if known is None else known
            if answer is None:
                answer = run.timed(self.plugin.pre_filter, self.name, "PreFilter")(run.pod, run.view)
            if self.has_stamp and self.counting is None:
                answer = _with_state_of_its_own(answer)
        except Exception as error:
            raise PluginError(self.name, "PreFilter", error) from error
        has_changed = answer is not self.answer or (answer is not SKIP and stamp != self.stamp)
        self.stamp = stamp
        self.answer = answer
        return has_changed


def _with_state_of_its_own(answer: State | Skip | Refusal) -> State | Skip | Refusal:
    """The answer with a State that no other answer has: results of filters are kept by the State that they were asked
    with, and a plugin may give one object to all, EMPTY_STATE for one, while what it reads is in its stamp alone."""
    if isinstance(answer, NodeSubset):
        return replace(answer, inner=copy(answer.inner))
    return copy(answer) if isinstance(answer, State) else answer
