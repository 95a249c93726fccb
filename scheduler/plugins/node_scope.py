"""NodeScope: keeps a profile to its own nodes, those that its ``nodeScope`` in the TandemConfiguration selects.

A profile with a ``nodeScope`` decides as if each of its pods required the selector's labels besides what it requires
itself. The plugin comes before all other filters and no profile can switch it off. Refuses with ``node(s) were outside
of this profile's nodeScope``, which no preemption can help. Not part of kube-scheduler.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from scheduler.cluster.node_matching import matches_requirement
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View
from scheduler.config.names import NODE_SCOPE_PLUGIN
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource
from scheduler.framework.findings import Cause, RowArray, grouped, label_values
from scheduler.framework.plugin import FilterPlugin, Finding, FragmentReads, Reads, Rows, State, Verdicts
from scheduler.messages.status import Refusal, unresolvable
from scheduler.objects.node import Node
from scheduler.objects.requirements import Requirement
from scheduler.objects.selectors import Selector

OUTSIDE_OF_SCOPE = unresolvable("node(s) were outside of this profile's nodeScope")
_REFUSALS = (OUTSIDE_OF_SCOPE,)


class NodeScope(FilterPlugin):
    """``selector``: of the labels of the nodes that the profile may use."""

    name = NODE_SCOPE_PLUGIN
    reads = Reads.NODE
    fragment_reads = FragmentReads.TEMPLATE

    def __init__(self, selector: Selector) -> None:
        super().__init__()
        self._selector = selector

    def fragment(self, pod: PodInfo, view: View) -> tuple[()]:
        """The same for all pods."""
        return ()

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        inside = view.table.selected(self._selector)[rows]
        return None if inside.all() else Verdicts(np.logical_not(inside).astype(np.int16), _REFUSALS)

    def filter_row(self, state: State, pod: PodInfo, view: View, row: int) -> Refusal | None:
        return None if self._has(view.table.nodes[row]) else OUTSIDE_OF_SCOPE

    def why_not(self, state: State, pod: PodInfo, view: View, rows: RowArray) -> tuple[Finding, ...]:
        table = view.table
        return grouped(
            view,
            rows,
            [
                Cause(~matches_requirement(table, one, rows), partial(_unmet, table, one))
                for one in self._selector.requirements
            ],
        )

    def events(self) -> tuple[EventRegistration, ...]:
        return (
            EventRegistration(
                ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL), self._node_came_into_scope
            ),
        )

    def _node_came_into_scope(self, _pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        return Hint.QUEUE if self._has(new) and not self._has(old) else Hint.SKIP

    def _has(self, node: Node | None) -> bool:
        return node is not None and self._selector.matches(node.metadata.labels)


def _unmet(table: NodeTable, one: Requirement, rows: RowArray) -> str:
    return f"nodeScope wants {one}: {label_values(table, one.key, rows)}"
