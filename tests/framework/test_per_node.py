from __future__ import annotations

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.per_node import NodeView, PerNodeFilter, PerNodeScore
from scheduler.framework.plugin import State
from scheduler.framework.status import Refusal, unschedulable
from scheduler.objects.node import Node
from tests.builders import node, pod
from tests.plugins.clusters import cluster, info, raw_scores, refusals

GPU = "example.com/gpu"


class Sociable(PerNodeFilter, PerNodeScore):
    """Fits where other pods are, and rather where much is requested."""

    name = "Sociable"

    def filter_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> Refusal | None:
        return None if node_view.pods else unschedulable(f"nobody is on {node.metadata.labels['rack']}")

    def score_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> int:
        return 100 * node_view.requested("cpu") // node_view.allocatable("cpu")


def test_a_plugin_may_answer_for_one_node_at_a_time() -> None:
    nodes = [node(name, labels={"rack": f"r-{name}"}) for name in ("a", "b", "c")]
    # A pod on a node that is not there makes a row without a node: nobody is asked about it.
    view = cluster(nodes, [pod("p", node="b", cpu="1"), pod("lost", node="gone")])
    assert refusals(Sociable(), info(), view) == {
        "a": unschedulable("nobody is on r-a"),
        "c": unschedulable("nobody is on r-c"),
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
