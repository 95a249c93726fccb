"""SchedulingGates: a pod waits as long as its ``spec.schedulingGates`` is not empty (KEP-3521).

A gated pod is not tried at all and costs nothing. Users or controllers remove the gates; with the last one gone the
pod is queued at once. No arguments.
"""

from __future__ import annotations

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.enqueue_context import EnqueueContext
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource, only_itself
from scheduler.framework.plugin import PreEnqueuePlugin, Reads
from scheduler.messages.status import Refusal, unresolvable


class SchedulingGates(PreEnqueuePlugin):
    """See docs/kube-scheduler/plugins.md §3.1."""

    name = "SchedulingGates"
    reads = Reads.NOTHING

    def pre_enqueue(self, pod: PodInfo, context: EnqueueContext) -> Refusal | None:
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return None
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]")

    def events(self) -> tuple[EventRegistration, ...]:
        return _EVENTS


def _own_gates_are_gone(pod: PodInfo, _old: PodInfo | None, new: PodInfo | None) -> Hint:
    return Hint.QUEUE if new is not None and new.uid == pod.uid else Hint.SKIP


_EVENTS = (
    EventRegistration(
        ClusterEvent(Resource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
        _own_gates_are_gone,
        only_itself,
    ),
)
