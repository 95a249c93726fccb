"""Which filter plugins a wave asks, and what it must know of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.asked_filters import AskedFilter
from scheduler.framework.plugin import EMPTY_STATE, FilterPlugin, Reads, State
from scheduler.messages.status import Skip
from scheduler.preemption.dry_run import Trial


class WaveFilters(Struct, frozen=True):
    """The filter plugins that a wave asks, in the order in which they are asked."""

    asked: tuple[AskedFilter, ...]
    on_usage: tuple[AskedFilter, ...]
    """The plugins whose answers change with what is requested of a row."""
    counting: tuple[AskedFilter, ...]
    """The plugins whose answers change with the pods of a row that they count, and with nothing else."""
    doubly_changing: tuple[AskedFilter, ...]
    """The plugins of both kinds: where they count pods, the plain dry run is needed."""

    @property
    def are_plain(self) -> bool:
        """Whether none of them keeps account of pods: then a dry run changes nothing but the requested resources."""
        return not any(one.counts_pods or one.has_tallies for one in self.asked)


def wave_filters(trial: Trial) -> WaveFilters | None:
    """The filters of a trial, by what a wave must know of each. None where a plugin does not say what it reads: then
    nothing is known of what changes its answers."""
    return filters_asked(trial.filters, trial.states)


def filters_asked(filters: Sequence[FilterPlugin], states: Mapping[str, State | Skip]) -> WaveFilters | None:
    """``wave_filters`` of plugins with their states."""
    asked: list[AskedFilter] = []
    for plugin in filters:
        state = states.get(plugin.name, EMPTY_STATE)
        if isinstance(state, Skip):
            continue
        if type(state).tallies is not State.tallies:
            asked.append(AskedFilter(plugin, state, counts_pods=False, ignores=None, has_tallies=True))
            continue
        if Reads.UNDECLARED in plugin.reads and not state.is_blind_to_pods:
            return None
        asked.append(AskedFilter.of(plugin, state))
    return WaveFilters(
        tuple(asked),
        tuple([one for one in asked if one.reads_usage]),
        tuple([one for one in asked if one.counts_pods and not one.reads_usage]),
        tuple([one for one in asked if one.counts_pods and one.reads_usage]),
    )


def any_plugin_counts(filters: Sequence[AskedFilter], info: PodInfo) -> bool:
    return any(one.counts(info) for one in filters)
