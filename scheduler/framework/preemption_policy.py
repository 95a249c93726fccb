"""How preemption may differ from kube-scheduler's; the defaults do not differ at all."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from scheduler.cluster.pod_info import PodInfo
from scheduler.config.tandem import PDBPolicy
from scheduler.objects.selectors import EVERYTHING, Selector

_SUSPENDED = "Preemption is suspended on the node"
TAKEN_AGAIN = f"{_SUSPENDED}: others took the room again and again"
EVICTION_REFUSED = f"{_SUSPENDED}: an eviction was refused"
VICTIMS_REMAINED = f"{_SUSPENDED}: its victims did not end in time"


class PreemptionPolicy(Struct, frozen=True):
    """One value an attempt: some of it is configuration, some of it is what the engine knows about this preemptor."""

    pdb_policy: PDBPolicy = PDBPolicy.BEST_EFFORT
    """``STRICT``: a node on which a budget would be violated is no candidate."""
    victim_schedulers: frozenset[str] | None = None
    """The scheduler names whose pods may be removed; None: of every scheduler."""
    node_scope: Selector = EVERYTHING
    """The nodes whose pods may be removed. For a single pod the filters refuse all others; no filter is asked about the
    victims of a group, nor about those that an extender names."""
    prefer_other_than_daemon_sets: bool = False
    """Of candidates that nothing else tells apart, take one that removes the fewest pods of DaemonSets."""
    excluded_nodes: Mapping[str, str] = field(default_factory=dict)
    """Nodes that are not tried, with the reason shown."""
    given_up_node: str = ""
    """The nominated node, if there is nothing to wait for on it any more: the pod looks elsewhere, though victims may
    still be dying there."""
    victims_in_flight: tuple[PodInfo, ...] = ()
    """Victims of ours, deleted or about to be, which the status of the budgets does not show yet: they are subtracted
    from what the budgets allow."""
    is_nominated_node_being_cleared: bool = False
    """Pods are being removed from the nominated node, for any preemptor. Their deletion is decided and counts as begun:
    the pod waits, where kube-scheduler's would remove others until the deletion is seen."""
    is_full: bool = False
    """The limit of running preemptions is reached: no further one may begin."""

    def allows(self, victim: PodInfo, preemptor: PodInfo) -> bool:
        """Whether ``preemptor`` may have ``victim`` removed: it is less important, and within reach."""
        return victim.priority < preemptor.priority and (
            self.victim_schedulers is None or victim.pod.spec.scheduler_name in self.victim_schedulers
        )


UPSTREAM_POLICY = PreemptionPolicy()
