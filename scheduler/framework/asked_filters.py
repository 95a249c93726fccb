"""Filter plugins with the state of one pod, and what is known of how other pods change their answers."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.errors import PluginError
from scheduler.framework.plugin import FilterPlugin, Reads, State
from scheduler.messages.status import SKIP, Skip

Ignores = Callable[["PodInfo"], bool]
"""``ignores`` of a State that counts pods promises that ``with_pod`` of this pod changes nothing, whatever the row, and
that ``with_pod`` looks at no other row of the view. It may depend on the namespace, labels, affinity and termination of
the pod alone, but where the State has ``tallies``."""


class AskedFilter(Struct, frozen=True):
    """A filter plugin that did not skip."""

    plugin: FilterPlugin
    state: State
    counts_pods: bool
    """Pods that come and go change the state."""
    ignores: Ignores | None
    """Which pods do not; None = any may."""
    has_tallies: bool = False
    """Its answers come from tallies."""

    @classmethod
    def of(cls, plugin: FilterPlugin, state: State) -> AskedFilter:
        ignores = None if type(state).ignores is State.ignores else state.ignores
        return cls(plugin, state, counts_pods(state), ignores)

    @property
    def reads_usage(self) -> bool:
        return Reads.USAGE in self.plugin.reads and not self.has_tallies

    def state_for_row(self, view: View, row: int) -> State:
        """The state's ``for_row``."""
        return self.state.for_row(view, row)

    def counts(self, info: PodInfo) -> bool:
        """Whether this pod may change the state. Raises PluginError."""
        if not self.counts_pods or self.ignores is None:
            return self.counts_pods
        try:
            return not self.ignores(info)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise PluginError(self.plugin.name, "Ignores", error) from error


def counts_pods(state: State | Skip) -> bool:
    """Whether this state depends on the other pods of a node."""
    return state is not SKIP and type(state).with_pod is not State.with_pod  # type: ignore[union-attr]
