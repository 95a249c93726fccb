"""NodeName: a pod with ``spec.nodeName`` fits that node only.

Such a pod is bound already and never queued; the rule matters for what-if questions ("would it fit there?").
Refuses with ``node(s) didn't match the requested node name``. No arguments.
"""

from __future__ import annotations

import numpy as np

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Resource
from scheduler.framework.plugin import FilterPlugin, FragmentReads, Reads, Rows, State, Verdicts
from scheduler.messages.status import Refusal, unresolvable

OTHER_NODE = unresolvable("node(s) didn't match the requested node name")
_REFUSALS = (OTHER_NODE,)
_EVENTS = (EventRegistration(ClusterEvent(Resource.NODE, Action.ADD)),)


class NodeName(FilterPlugin):
    """See docs/kube-scheduler/plugins.md §3.4."""

    name = "NodeName"
    reads = Reads.NODE
    fragment_reads = FragmentReads.TEMPLATE

    def fragment(self, pod: PodInfo, view: View) -> str:
        return pod.pod.spec.node_name

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        wanted = pod.pod.spec.node_name
        if not wanted:
            return None
        codes = np.ones(view.table.size, np.int16)
        row = view.table.row(wanted)
        if row is not None:
            codes[row] = 0
        return Verdicts(codes[rows], _REFUSALS)

    def filter_row(self, state: State, pod: PodInfo, view: View, row: int) -> Refusal | None:
        wanted = pod.pod.spec.node_name
        return OTHER_NODE if wanted and view.table.names[row] != wanted else None

    def events(self) -> tuple[EventRegistration, ...]:
        return _EVENTS
