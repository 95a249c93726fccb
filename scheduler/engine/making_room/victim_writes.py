"""The writes that remove one victim: its condition, then its deletion; its eviction where budgets are strict."""

from __future__ import annotations

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.failure import reference
from scheduler.engine.internal import CancelBinding, Step, VictimSettled
from scheduler.engine.machine import ReadsBindings, ReadsPods
from scheduler.engine.making_room.removal import Removal
from scheduler.engine.making_room.victims import disruption_target, preempted
from scheduler.engine.tickets import Tickets, VictimTicket
from scheduler.messages.commands import DeletePod, EvictPod, PatchPodStatus
from scheduler.messages.now import Now


class VictimWrites:
    """``is_strict``: victims are evicted, so that the API server judges their budgets."""

    def __init__(self, known_pods: ReadsPods, bindings: ReadsBindings, tickets: Tickets) -> None:
        self.is_strict = False
        self._known_pods = known_pods
        self._bindings = bindings
        self._tickets = tickets

    def first(self, removal: Removal, victim: PodInfo, now: Now) -> list[Step]:
        """The first write about a victim, if one is needed."""
        settled = VictimSettled(removal.preemptor.uid, victim.uid)
        if self._bindings.can_cancel(victim.uid):
            event = preempted(removal.preemptor, victim, " (in kube-scheduler memory).")
            return [CancelBinding(victim.uid), event, settled]
        known = self._known_pods.by_uid(victim.uid)
        if known is None or known.is_terminating:
            return [settled]
        if self.is_strict:
            return [EvictPod(self._ticket(removal, victim, True), reference(victim), removal.is_at_last)]
        condition = disruption_target(removal.preemptor, known, now)
        if condition is None:
            return [DeletePod(self._ticket(removal, victim, True), reference(victim), removal.is_at_last)]
        ticket = self._ticket(removal, victim, False)
        return [PatchPodStatus(ticket, reference(victim), condition, is_continuation=removal.is_at_last)]

    def deletion(self, removal: Removal, victim: PodInfo) -> DeletePod:
        """The deletion of a victim that has its condition."""
        return DeletePod(self._ticket(removal, victim, True), reference(victim), is_continuation=True)

    def _ticket(self, removal: Removal, victim: PodInfo, is_deletion: bool) -> int:
        return self._tickets.issue(VictimTicket(removal.preemptor.uid, victim, is_deletion))
