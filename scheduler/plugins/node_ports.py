"""NodePorts: a node whose host ports are taken will not do for a pod that wants the same (``ports[].hostPort``).

Ports of containers and sidecars count, those of plain init containers do not. A port is taken by the same port and
protocol at the same ``hostIP``, or at any address where one of the two wants all of them (``0.0.0.0``, which is what no
``hostIP`` means). Refuses with ``node(s) didn't have free ports for the requested pod ports``; preemption may help. No
arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from functools import partial

import numpy as np
from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource
from scheduler.framework.findings import Cause, RowArray, grouped, pods_on
from scheduler.framework.plugin import (
    FilterPlugin,
    Finding,
    FragmentReads,
    PreFilterPlugin,
    Reads,
    Rows,
    State,
    Verdicts,
)
from scheduler.framework.tallies import RowPods, Tally, shares_on, summed
from scheduler.messages.status import SKIP, Refusal, Skip, unschedulable
from scheduler.objects.ports import HostPort, any_port_conflicts, key_of

PORTS_TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports")
_REFUSALS = (PORTS_TAKEN,)


class WantedPorts(Struct, State, frozen=True):
    """Pods that take and leave ports are in the view, so this counts nothing."""

    ports: tuple[HostPort, ...]

    def tallies(self, pods: RowPods) -> tuple[Tally, ...]:
        wanted = self.ports

        def share_of(info: PodInfo) -> int:
            return bool(info.ports) and any_port_conflicts(wanted, info.ports)

        table = pods.view.table
        shares = shares_on(table.rows_by_port.having(map(key_of, wanted)), pods, share_of, _ports_of)
        # Two pods may have the same port, and what a node has in use is a set: the first to leave frees it.
        holders = (shares > 0).sum(axis=1)

        def is_freed(position: int) -> bool:
            return not _is_taken(wanted, table.ports[int(pods.rows[position])])

        return (
            Tally(
                PORTS_TAKEN,
                pods,
                shares.sum(axis=1),
                np.zeros(len(pods.rows), np.int64),
                shares,
                summed(share_of),
            ).with_accounts(
                lambda position: _PortAccount(wanted, table.ports[int(pods.rows[position])] or ()),
                [
                    position
                    for position in np.flatnonzero(holders).tolist()
                    if holders[position] > 1 or is_freed(position)
                ],
            ),
        )


class _PortAccount:
    """The ports of one row as the node table keeps them: a set, which one of two pods that share a port frees it of."""

    def __init__(self, wanted: tuple[HostPort, ...], used: Collection[HostPort]) -> None:
        self._wanted = wanted
        self._used = set(used)
        self._beside: set[HostPort] = set()

    def change(self, info: PodInfo, sign: int) -> None:
        if sign > 0:
            self._used.update(info.ports)
        else:
            self._used.difference_update(info.ports)

    def beside(self, infos: Sequence[PodInfo], sign: int) -> None:
        self._beside = {port for info in infos for port in info.ports} if sign > 0 else set()

    @property
    def number(self) -> int:
        return any_port_conflicts(self._wanted, self._used | self._beside)


class NodePorts(PreFilterPlugin, FilterPlugin):
    """See docs/kube-scheduler/plugins.md §3.7."""

    name = "NodePorts"
    reads = Reads.USAGE
    fragment_reads = FragmentReads.TEMPLATE

    def fragment(self, pod: PodInfo, view: View) -> tuple[HostPort, ...]:
        return pod.ports

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip | Refusal:
        return WantedPorts(pod.ports) if pod.ports else SKIP

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        table, wanted = view.table, pod.ports
        taken = [row for row in table.rows_by_port.having(map(key_of, wanted)) if _is_taken(wanted, table.ports[row])]
        if not taken:
            return None
        codes = np.zeros(table.size, np.int16)
        codes[taken] = 1
        return Verdicts(codes[rows], _REFUSALS)

    def filter_row(self, state: State, pod: PodInfo, view: View, row: int) -> Refusal | None:
        there = view.table.ports[row]
        return PORTS_TAKEN if there and any_port_conflicts(pod.ports, there) else None

    def why_not(self, state: State, pod: PodInfo, view: View, rows: RowArray) -> tuple[Finding, ...]:
        ports = view.table.ports
        there = [ports[row] for row in rows.tolist()]
        return grouped(
            view,
            rows,
            [
                Cause(
                    np.array([_is_taken((port,), used) for used in there], np.bool_),
                    partial(_holders, view.table, port),
                )
                for port in pod.ports
            ],
        )

    def events(self) -> tuple[EventRegistration, ...]:
        return _EVENTS


def _holders(table: NodeTable, port: HostPort, rows: RowArray) -> str:
    taken_by = pods_on(table, rows.tolist(), lambda info: any_port_conflicts((port,), info.ports))
    return f"host port {port.port}/{port.protocol} at {port.ip} is taken by {taken_by or 'a pod'}"


def _ports_of(info: PodInfo) -> tuple[HostPort, ...]:
    return info.ports


def _is_taken(wanted: tuple[HostPort, ...], there: Collection[HostPort] | None) -> bool:
    return bool(there) and any_port_conflicts(wanted, there or ())


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
