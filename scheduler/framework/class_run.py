"""One run of the scheduling cycle as the class cache sees it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from msgspec import Struct, field

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.row_journal import RowJournal
from scheduler.cluster.view import View
from scheduler.framework.plugin import Plugin, State, Verdicts
from scheduler.framework.plugin_times import Call, PluginTimes
from scheduler.messages.status import Refusal, Skip

Fragments = Mapping[str, Hashable]
"""Plugin name → fragment, for the plugins that declare what they read."""

Answers = Mapping[str, Verdicts | None]
"""Plugin → its filter's answer."""

NO_ANSWERS: Answers = {}

PluginPoint = tuple[str, str]
"""A plugin's name and the extension point at which it is called."""

PRE_FILTER, PRE_SCORE = "PreFilter", "PreScore"

PodAnswers = Mapping[PluginPoint, State | Skip | Refusal]
"""The answers of PreFilter and PreScore about a large pod that were computed in slices before."""

NO_POD_ANSWERS: PodAnswers = {}


class ClassRun(Struct):
    """The pod of this run, the cluster as it sees it, and whether the plugins' calls are timed."""

    pod: PodInfo
    fragments: Fragments
    view: View
    journal: RowJournal
    """The rows that changed in ``view``, by version."""
    times: PluginTimes | None = None
    answers: Answers = NO_ANSWERS
    """What plugins have said to all rows that are searched already, as they are in ``view``."""
    pod_answers: PodAnswers = NO_POD_ANSWERS
    stamps: dict[str, Hashable] = field(default_factory=dict)
    """The stamps of plugins, by name, that were read already: nothing changes in ``view`` during a run."""

    def stamp_of(self, plugin: Plugin) -> Hashable:
        """The plugin's stamp: its filter and its scores ask for the same. Raises what the plugin raises."""
        stamps, name = self.stamps, plugin.name
        if name not in stamps:
            stamps[name] = plugin.stamp(self.fragments[name], self.view)
        return stamps[name]

    def timed(self, call: Call, plugin: str, point: str) -> Call:
        """The call itself or, in a timed run, one that takes the same arguments and is timed."""
        return call if self.times is None else self.times.timing(call, plugin, point)
