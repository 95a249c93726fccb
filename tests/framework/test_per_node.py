from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.per_node import NodeView, PerNodeFilter, PerNodeScore
from scheduler.framework.plugin import FilterPlugin, Rows, ScorePlugin, Scores, State, Verdicts
from scheduler.messages.status import Refusal, unschedulable
from scheduler.objects.node import Node
from scheduler.testing.objects import node, pod
from tests.plugins.clusters import cluster, info, raw_scores, refusals

GPU = "example.com/gpu"


class Sociable(PerNodeFilter, PerNodeScore):
    """Fits where other pods are, and rather where much is requested."""

    name = "Sociable"

    def filter_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> Refusal | None:
        return None if node_view.pods else unschedulable(f"no pod is on {node.metadata.labels['rack']}")

    def score_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> int:
        return 100 * node_view.requested("cpu") // node_view.allocatable("cpu")


def test_a_plugin_may_answer_for_one_node_at_a_time() -> None:
    nodes = [node(name, labels={"rack": f"r-{name}"}) for name in ("a", "b", "c")]
    # A pod on an unknown node creates a row without a node: the plugin is not called for it.
    view = cluster(nodes, [pod("p", node="b", cpu="1"), pod("lost", node="gone")])
    assert refusals(Sociable(), info(), view) == {
        "a": unschedulable("no pod is on r-a"),
        "c": unschedulable("no pod is on r-c"),
    }
    assert raw_scores(Sociable(), info(), view) == {"a": 0, "b": 25, "c": 0}


def test_a_node_view_reads_every_resource_by_its_name() -> None:
    offered = {"ephemeral-storage": "10", GPU: "4"}
    wanted = {"cpu": "1", "memory": "2", "ephemeral-storage": "3", GPU: "4"}
    view = cluster([node("a", cpu="2", memory="5", allocatable=offered)], [pod("p", node="a", requests=wanted)])
    node_view = NodeView(view, 0)
    names = ("cpu", "memory", "ephemeral-storage", "pods", GPU, "example.com/none")
    assert [node_view.allocatable(name) for name in names] == [2000, 5, 10, 110, 4, 0]
    assert [node_view.requested(name) for name in names] == [1000, 2, 3, 1, 4, 0]


class BySize(PerNodeFilter, PerNodeScore):
    """What a vector plugin would say by arithmetic, said node by node."""

    name = "BySize"

    def filter_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> Refusal | None:
        free = node_view.allocatable("cpu") - node_view.requested("cpu")
        return None if free >= 1000 else unschedulable(f"{free}m free", "too small")

    def score_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> int:
        return min(100, node_view.requested("cpu") // 100)


class BySizeAtOnce(FilterPlugin, ScorePlugin):
    """The same for all rows at once."""

    name = "BySizeAtOnce"

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        free = (view.table.allocatable_cpu - view.table.requested_cpu)[rows]
        amounts, codes = np.unique(free, return_inverse=True)
        refused = tuple(unschedulable(f"{amount}m free", "too small") for amount in amounts.tolist())
        return Verdicts(np.where(free >= 1000, 0, codes.reshape(-1) + 1).astype(np.int16), refused)

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        return np.minimum(100, view.table.requested_cpu[rows] // 100)


sizes = st.lists(st.integers(1, 4), min_size=1, max_size=6)
placed = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3000)), max_size=8)


@settings(max_examples=60)
@given(sizes, placed)
def test_node_by_node_a_plugin_answers_as_its_twin_does_for_all_at_once(
    cpus: list[int], pods: list[tuple[int, int]]
) -> None:
    nodes = [node(f"n{number}", cpu=str(cpu)) for number, cpu in enumerate(cpus)]
    running = [pod(f"p{number}", node=f"n{place}", cpu=f"{cpu}m") for number, (place, cpu) in enumerate(pods)]
    view = cluster(nodes, running)
    assert refusals(BySize(), info(), view) == refusals(BySizeAtOnce(), info(), view)
    assert raw_scores(BySize(), info(), view) == raw_scores(BySizeAtOnce(), info(), view)
