"""NodePorts: a node whose host ports are taken will not do for a pod that wants the same (``ports[].hostPort``).

Ports of containers and sidecars count, those of plain init containers do not. A port is taken by the same port and
protocol at the same ``hostIP``, or at any address where one of the two wants all of them (``0.0.0.0``, which is what no
``hostIP`` means). Refuses with ``node(s) didn't have free ports for the requested pod ports``; preemption may help. No
arguments.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource
from scheduler.framework.plugin import (
    EMPTY_STATE,
    FilterPlugin,
    FragmentReads,
    PreFilterPlugin,
    Reads,
    Rows,
    State,
    Verdicts,
)
from scheduler.messages.status import SKIP, Refusal, Skip, unschedulable
from scheduler.objects.ports import HostPort, any_port_conflicts

if TYPE_CHECKING:
    from scheduler.cluster.pod_info import PodInfo
    from scheduler.cluster.view import View

PORTS_TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports")
_REFUSALS = (PORTS_TAKEN,)


class NodePorts(PreFilterPlugin, FilterPlugin):
    """Reference plugins.md §3.7. Pods that take and leave ports are in the view, so the state counts nothing."""

    name = "NodePorts"
    reads = Reads.USAGE
    fragment_reads = FragmentReads.TEMPLATE

    def fragment(self, pod: PodInfo, view: View) -> tuple[HostPort, ...]:
        return pod.ports

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip | Refusal:
        return EMPTY_STATE if pod.ports else SKIP

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        wanted = pod.ports
        ports = view.table.ports
        used = ports[rows] if isinstance(rows, slice) else [ports[row] for row in rows.tolist()]
        taken = [place for place, there in enumerate(used) if there and any_port_conflicts(wanted, there)]
        if not taken:
            return None
        codes = np.zeros(len(used), np.int16)
        codes[taken] = 1
        return Verdicts(codes, _REFUSALS)

    def filter_row(self, state: State, pod: PodInfo, view: View, row: int) -> Refusal | None:
        there = view.table.ports[row]
        return PORTS_TAKEN if there and any_port_conflicts(pod.ports, there) else None

    def events(self) -> tuple[EventRegistration, ...]:
        return _EVENTS


def _ports_were_freed(pod: PodInfo, old: PodInfo | None, _new: PodInfo | None) -> Hint:
    if old is None or not (old.node_name or old.pod.status.nominated_node_name):
        return Hint.SKIP
    return Hint.QUEUE if old.ports and any_port_conflicts(pod.ports, old.ports) else Hint.SKIP


def _facet_of_pod(other: PodInfo) -> Hashable:
    return bool(other.node_name or other.pod.status.nominated_node_name), other.ports


_EVENTS = (
    EventRegistration(ClusterEvent(Resource.POD, Action.DELETE), _ports_were_freed, _facet_of_pod),
    EventRegistration(ClusterEvent(Resource.NODE, Action.ADD)),
)
