"""How preemption may differ from kube-scheduler's; the defaults do not differ at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.config.tandem import PDBPolicy

if TYPE_CHECKING:
    from scheduler.cluster.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class PreemptionPolicy:
    """One value an attempt: some of it is configuration, some of it is what the engine knows about this preemptor."""

    pdb_policy: PDBPolicy = PDBPolicy.BEST_EFFORT
    """``STRICT``: a node on which a budget would be violated is no candidate."""
    victim_schedulers: frozenset[str] | None = None
    """The scheduler names whose pods may be removed; None = anybody's."""
    prefer_other_than_daemon_sets: bool = False
    """Of candidates that nothing else tells apart, take one that removes the fewest pods of DaemonSets."""
    excluded_nodes: frozenset[str] = frozenset()
    """Nodes on which others took the room again and again."""
    given_up_node: str = ""
    """The nominated node, if its victims have been dying for too long: the pod need not wait for them any more, and
    looks elsewhere."""
    victims_in_flight: tuple[PodInfo, ...] = ()
    """Victims of ours, deleted or about to be, which the status of the budgets does not show yet: they are subtracted
    from what the budgets allow."""

    def allows(self, victim: PodInfo, preemptor: PodInfo) -> bool:
        """Whether ``preemptor`` may have ``victim`` removed: it is less important, and within reach."""
        return victim.priority < preemptor.priority and (
            self.victim_schedulers is None or victim.pod.spec.scheduler_name in self.victim_schedulers
        )


UPSTREAM_POLICY = PreemptionPolicy()
