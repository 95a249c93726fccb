from __future__ import annotations

from typing import Any

from scheduler.config.args import decode_args
from scheduler.plugins.resources.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
    NodeResourcesBalancedAllocationArgs,
)
from scheduler.testing.objects import node, pod
from tests.plugins.clusters import cluster, info, raw_scores

GPU = "example.com/gpu"


def balanced(*names: str) -> NodeResourcesBalancedAllocation:
    raw = {"resources": [{"name": name} for name in names]}
    args, faults = decode_args(NodeResourcesBalancedAllocationArgs, raw, "args", "NodeResourcesBalancedAllocation")
    assert args is not None and not faults, faults
    return NodeResourcesBalancedAllocation(args)


def faults_of(resources: list[dict[str, Any]]) -> list[str]:
    args, _ = decode_args(
        NodeResourcesBalancedAllocationArgs, {"resources": resources}, "args", "NodeResourcesBalancedAllocation"
    )
    assert args is not None
    return [f"{path}: {message}" for path, message in NodeResourcesBalancedAllocation.validate_args(args, "args")]


def test_the_change_of_the_balance_is_scored() -> None:
    view = cluster([node("a", cpu="4", memory="8Gi")], [pod("p", node="a", cpu="1", memory="2Gi")])
    plugin = NodeResourcesBalancedAllocation()
    assert raw_scores(plugin, info(cpu="500m"), view) == {"a": 71}
    assert raw_scores(plugin, info(cpu="500m", memory="1Gi"), view) == {"a": 75}


def test_a_pod_that_evens_out_a_node_scores_above_the_neutral_75() -> None:
    view = cluster([node("a", cpu="4", memory="8Gi")], [pod("p", node="a", cpu="2")])
    assert raw_scores(NodeResourcesBalancedAllocation(), info(memory="4Gi"), view) == {"a": 87}


def test_pods_on_the_node_count_with_what_they_request_and_no_defaults() -> None:
    plugin = NodeResourcesBalancedAllocation()
    nodes = [node("a", cpu="1", memory="8Gi")]
    with_pods = cluster(nodes, [pod(f"p{number}", node="a") for number in range(5)])
    assert raw_scores(plugin, info(cpu="100m"), with_pods) == raw_scores(plugin, info(cpu="100m"), cluster(nodes))


def test_requests_beyond_int64_give_a_score_that_stops_no_pod() -> None:
    # The kubelet refuses such a pod, which named its node itself. In kube-scheduler others fail until then.
    taken = [pod("p", node="a", cpu="9223372036854775807m"), pod("q", node="a", cpu="4")]
    nodes = [node("a", cpu="4", memory="8Gi", allocatable={GPU: "1"})]
    view = cluster(nodes, taken)
    for plugin in (NodeResourcesBalancedAllocation(), balanced("cpu", "memory", GPU)):
        assert raw_scores(plugin, info(requests={"cpu": "1000", GPU: "1"}), view) == {"a": 100}


def test_a_pod_that_requests_none_of_the_resources_is_skipped() -> None:
    view = cluster([node("a", allocatable={GPU: "4"})])
    assert raw_scores(NodeResourcesBalancedAllocation(), info(requests={GPU: "1"}), view) is None
    assert raw_scores(NodeResourcesBalancedAllocation(), info(cpu="0"), view) is None
    assert raw_scores(balanced("cpu", GPU), info(requests={GPU: "1"}), view) == {"a": 68}


def test_a_node_that_lacks_one_of_two_resources_is_neutral() -> None:
    view = cluster([node("a", cpu="4", memory="8Gi"), node("b", cpu="4", memory=None)])
    assert raw_scores(NodeResourcesBalancedAllocation(), info(cpu="4"), view) == {"a": 50, "b": 75}


def test_three_resources_count_where_a_node_has_them() -> None:
    plugin = balanced("cpu", "memory", GPU)
    view = cluster(
        [
            node("all", cpu="4", memory="8Gi", allocatable={GPU: "4"}),
            node("two", cpu="4", memory="8Gi"),
            node("one", cpu="4", memory=None),
        ]
    )
    pending = info(requests={"cpu": "4", GPU: "1"})
    scores = raw_scores(plugin, pending, view)
    # All: fractions 1, 0 and a quarter, whose standard deviation is 0.4249.
    assert scores == {"all": 50 + (50 + 57 - 100) // 2, "two": 50, "one": 75}


def test_usage_above_what_a_node_has_counts_as_full() -> None:
    view = cluster([node("a", cpu="1", memory="1Gi")], [pod("p", node="a", cpu="5", memory="5Gi")])
    assert raw_scores(NodeResourcesBalancedAllocation(), info(cpu="1"), view) == {"a": 75}


def test_weights_must_be_one_and_names_distinct() -> None:
    assert faults_of([{"name": "cpu", "weight": 2}, {"name": "memory", "weight": 0}, {"name": "cpu", "weight": 1}]) == [
        "args.resources[0].weight: Invalid value: 2: must be 1",
        'args.resources[2].name: Duplicate value: "cpu"',
    ]
