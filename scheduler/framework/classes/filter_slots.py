"""One plugin's cached answers for one class of pods, and what they depend on. See ``filters.py``."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.errors import PluginError
from scheduler.framework.class_run import PRE_FILTER, ClassRun
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin, State
from scheduler.framework.shortcuts import ByValue, CountingPlugin
from scheduler.framework.traits import traits_of
from scheduler.messages.status import SKIP, Refusal, Skip


class KnownByValue(Struct, frozen=True):
    """The answers for all rows, by the values of a label."""

    answer: ByValue
    node_version: int
    size: int
    """Of the table."""

    def says_the_same(self, other: KnownByValue) -> bool:
        """Whether every row has the same answer. Value ids mean the same until a node changes."""
        mine, theirs = self.answer, other.answer
        return (
            self.node_version == other.node_version
            and self.size == other.size
            and mine.key == theirs.key
            and mine.refusals is theirs.refusals
            and mine.codes.tobytes() == theirs.codes.tobytes()
        )


class FilterSlot:
    """One Filter plugin's answers: a code a row, or None where every row fits."""

    __slots__ = (
        "codes",
        "counting",
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

    def __init__(self, index: int, plugin: FilterPlugin) -> None:
        self.index = index
        self.name = plugin.name
        self.plugin = plugin
        traits = traits_of(plugin)
        self.is_declared = traits.is_declared
        self.flags = traits.flags
        self.has_own_stamp = traits.has_stamp and not isinstance(plugin, PreFilterPlugin)
        """Whether the stamp is compared here and not by a PreFilter slot."""
        self.stamp: Hashable = None
        self.is_stale = False
        """The stamp has changed: all rows must be evaluated again, even if the state is the same."""
        self.version = 0
        """Grows each time it becomes stale."""
        self.state: State | Skip | None = None
        self.codes: npt.NDArray[np.int16] | None = None
        self.counting = plugin if isinstance(plugin, CountingPlugin) else None
        self.known: KnownByValue | None = None
        """What ``codes`` are, by the values of a label; None where they do not come from that."""

    def take_from(self, other: FilterSlot) -> None:
        self.stamp, self.is_stale, self.state, self.version = other.stamp, other.is_stale, other.state, other.version
        self.codes = None if other.codes is None else other.codes.copy()
        self.known = other.known

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


class PreFilterSlot:
    """One PreFilter plugin's answer."""

    __slots__ = ("answer", "counting", "has_stamp", "is_declared", "name", "plugin", "stamp")

    def __init__(self, plugin: PreFilterPlugin, is_concerned: bool) -> None:
        self.plugin = plugin
        self.name = plugin.name
        traits = traits_of(plugin)
        self.is_declared = traits.is_declared or not is_concerned
        self.has_stamp = traits.has_stamp
        self.counting = plugin if isinstance(plugin, CountingPlugin) else None
        self.stamp: Hashable = None if is_concerned else ()
        self.answer: State | Skip | Refusal | None = None if is_concerned else SKIP

    def take_from(self, other: PreFilterSlot) -> None:
        self.stamp, self.answer = other.stamp, other.answer

    def _recounted(self, run: ClassRun) -> State | None:
        if self.counting is None or not isinstance(self.answer, State):
            return None
        state: State | None = run.timed(self.counting.recounted, self.name, "PreFilter")(self.answer, run.view)
        return state

    def refresh(self, run: ClassRun) -> bool:
        """Calls the plugin unless its answer is still valid; returns whether the answer has changed. Raises
        PluginError."""
        try:
            stamp = run.stamp_of(self.plugin) if self.has_stamp else ()
            if self.is_declared and self.answer is not None and stamp == self.stamp:
                return False
            known = run.pod_answers.get((self.name, PRE_FILTER)) if run.pod_answers else None
            answer = self._recounted(run) if known is None and self.stamp is not None else known
            if answer is None:
                answer = run.timed(self.plugin.pre_filter, self.name, "PreFilter")(run.pod, run.view)
        except Exception as error:
            raise PluginError(self.name, "PreFilter", error) from error
        has_changed = answer is not self.answer or (answer is not SKIP and stamp != self.stamp)
        self.stamp = stamp
        self.answer = answer
        return has_changed
