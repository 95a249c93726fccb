"""NodeUnschedulable: keeps pods off cordoned nodes (``spec.unschedulable``, set by ``kubectl cordon``).

Pods that tolerate the taint ``node.kubernetes.io/unschedulable:NoSchedule``, such as those of a DaemonSet, fit anyway.
Refuses with ``node(s) were unschedulable``. No arguments.
"""

from __future__ import annotations

import numpy as np

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource, only_itself
from scheduler.framework.plugin import FilterPlugin, FragmentReads, Reads, Rows, State, Verdicts
from scheduler.messages.status import Refusal, unresolvable
from scheduler.objects.node import Node
from scheduler.objects.taints import UNSCHEDULABLE_TAINT, tolerated

UNSCHEDULABLE_NODE = unresolvable("node(s) were unschedulable")
_REFUSALS = (UNSCHEDULABLE_NODE,)


class NodeUnschedulable(FilterPlugin):
    """See docs/kube-scheduler/plugins.md §3.3."""

    name = "NodeUnschedulable"
    reads = Reads.NODE
    fragment_reads = FragmentReads.TEMPLATE

    def fragment(self, pod: PodInfo, view: View) -> bool:
        return _tolerates_cordon(pod)

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        cordoned = view.table.unschedulable[rows]
        if not cordoned.any() or _tolerates_cordon(pod):
            return None
        return Verdicts(cordoned.astype(np.int16), _REFUSALS)

    def filter_row(self, state: State, pod: PodInfo, view: View, row: int) -> Refusal | None:
        if view.table.unschedulable.item(row) and not _tolerates_cordon(pod):
            return UNSCHEDULABLE_NODE
        return None

    def events(self) -> tuple[EventRegistration, ...]:
        return _EVENTS


def _tolerates_cordon(pod: PodInfo) -> bool:
    tolerations = pod.pod.spec.tolerations
    return bool(tolerations) and tolerated(UNSCHEDULABLE_TAINT, tolerations)


def _node_became_schedulable(_pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
    if new is None or new.spec.unschedulable:
        return Hint.SKIP
    return Hint.QUEUE if old is None or old.spec.unschedulable else Hint.SKIP


def _own_pod_tolerates_now(pod: PodInfo, _old: PodInfo | None, new: PodInfo | None) -> Hint:
    return Hint.QUEUE if new is not None and new.uid == pod.uid and _tolerates_cordon(new) else Hint.SKIP


_EVENTS = (
    EventRegistration(
        ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT),
        _node_became_schedulable,
    ),
    EventRegistration(
        ClusterEvent(Resource.POD, Action.UPDATE_POD_TOLERATION),
        _own_pod_tolerates_now,
        only_itself,
    ),
)
