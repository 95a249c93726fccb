"""Plugins written for one node at a time.

The quick way to write a plugin of your own: derive from ``PerNodeFilter``, ``PerNodeScore`` or both and answer for one
node. It costs some microseconds per node and pod, so it suits plugins that are not called for thousands of nodes many
times a second; for those, answer for all rows at once (``framework/plugin.py``). No built-in plugin is written this
way.

    class SameRack(PerNodeFilter):
        name = "SameRack"

        def filter_one(self, state, pod, node, node_view):
            wanted = pod.labels.get("rack")
            if wanted and node.metadata.labels.get("rack") != wanted:
                return unschedulable("node(s) stand in another rack")
            return None
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.plugin import FilterPlugin, Rows, ScorePlugin, Scores, State, Verdicts
from scheduler.messages.status import Refusal
from scheduler.objects.node import Node


class NodeView(Struct, frozen=True):
    """One row of the node table, read by name instead of by column. Valid only during the call."""

    view: View
    row: int

    @property
    def pods(self) -> tuple[PodInfo, ...]:
        """The pods bound to the node or assumed on it."""
        return tuple(self.view.table.pods[self.row].values())

    def allocatable(self, resource: str) -> int:
        """Milli-CPU for ``cpu``, bytes for memory and storage, else whole units; 0 if the node has none."""
        return self.view.table.allocatable(resource).item(self.row)

    def requested(self, resource: str) -> int:
        """The sum of the pods' requests, in the same units."""
        return self.view.table.requested(resource).item(self.row)


class PerNodeFilter(FilterPlugin):
    """A filter that evaluates one node at a time."""

    def filter_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> Refusal | None:
        """The refusal of this node; None if the pod fits."""
        raise NotImplementedError

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        codes = np.zeros(_length(view, rows), np.int16)
        numbers: dict[Refusal, int] = {}
        for place, node, node_view in _nodes(view, rows):
            refusal = self.filter_one(state, pod, node, node_view)
            if refusal is not None:
                codes[place] = numbers.setdefault(refusal, len(numbers) + 1)
        return Verdicts(codes, tuple(numbers)) if numbers else None

    def filter_row(self, state: State, pod: PodInfo, view: View, row: int) -> Refusal | None:
        node = view.table.nodes[row]
        return None if node is None else self.filter_one(state, pod, node, NodeView(view, row))


class PerNodeScore(ScorePlugin):
    """A score that evaluates one node at a time."""

    def score_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> int:
        """The node's score, higher is better: 0 to 100, unless the plugin also has a ``normalize``."""
        raise NotImplementedError

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        scores = np.zeros(_length(view, rows), np.int64)
        for place, node, node_view in _nodes(view, rows):
            scores[place] = self.score_one(state, pod, node, node_view)
        return scores

    def score_row(self, state: State, pod: PodInfo, view: View, row: int) -> int:
        node = view.table.nodes[row]
        return 0 if node is None else self.score_one(state, pod, node, NodeView(view, row))


def _length(view: View, rows: Rows) -> int:
    return len(range(*rows.indices(view.table.size))) if isinstance(rows, slice) else len(rows)


def _nodes(view: View, rows: Rows) -> Iterator[tuple[int, Node, NodeView]]:
    """(index in the answer, node, its view) of the rows that have a node."""
    listed = range(*rows.indices(view.table.size)) if isinstance(rows, slice) else rows.tolist()
    for place, row in enumerate(listed):
        node = view.table.nodes[row]
        if node is not None:
            yield place, node, NodeView(view, row)
