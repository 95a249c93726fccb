"""Which filter plugins a wave asks, and what it must know of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.node_filter import counts_pods
from scheduler.framework.plugin import EMPTY_STATE, FilterPlugin, Reads, State
from scheduler.messages.status import Skip
from scheduler.preemption.dry_run import Trial

Ignores = Callable[["PodInfo"], bool]
"""``ignores`` of a State that counts pods promises that ``with_pod`` of this pod changes nothing, whatever the row. It
may depend on the namespace, labels, affinity and termination of the pod alone."""


@dataclass(frozen=True, slots=True)
class AskedFilter:
    """A filter plugin that did not skip."""

    plugin: FilterPlugin
    state: State
    counts_pods: bool
    """Pods that come and go change the state."""
    ignores: Ignores | None
    """Which pods do not; None = any may."""
    has_tallies: bool = False
    """Its answers come from tallies."""

    @property
    def reads_usage(self) -> bool:
        return Reads.USAGE in self.plugin.reads and not self.has_tallies

    def state_for_row(self, view: View, row: int) -> State:
        """A state that answers as this one for the row, whichever of the row's pods come and go.

        ``for_row`` of a State that counts pods may give one that is cheaper to change, for no other row.
        """
        narrow: Callable[[View, int], State] | None = getattr(self.state, "for_row", None)
        return self.state if narrow is None else narrow(view, row)

    def counts(self, info: PodInfo) -> bool:
        """Whether this pod may change the state."""
        return self.counts_pods and (self.ignores is None or not self.ignores(info))


@dataclass(frozen=True, slots=True)
class WaveFilters:
    """In the order in which they are asked."""

    asked: tuple[AskedFilter, ...]
    on_usage: tuple[AskedFilter, ...]
    """Answers change with what is requested of a row."""
    counting: tuple[AskedFilter, ...]
    """Answers change with the pods of a row that they count, and with nothing else."""
    doubly_changing: tuple[AskedFilter, ...]
    """Both: what they count, the plain dry run must see to."""


def wave_filters(trial: Trial) -> WaveFilters | None:
    """None where a plugin does not say what it reads: then nothing is known of what changes its answers."""
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
        asked.append(AskedFilter(plugin, state, counts_pods(state), getattr(state, "ignores", None)))
    return WaveFilters(
        tuple(asked),
        tuple([one for one in asked if one.reads_usage]),
        tuple([one for one in asked if one.counts_pods and not one.reads_usage]),
        tuple([one for one in asked if one.counts_pods and one.reads_usage]),
    )


def any_plugin_counts(filters: Sequence[AskedFilter], info: PodInfo) -> bool:
    return any(one.counts(info) for one in filters)
