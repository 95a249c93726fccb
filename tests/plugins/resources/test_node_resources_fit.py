from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler.config.args import decode_args
from scheduler.framework.events import Hint
from scheduler.framework.placements import Placed, Placement
from scheduler.messages.status import Code, Refusal
from scheduler.plugins.resources.fit_args import NodeResourcesFitArgs
from scheduler.plugins.resources.node_resources_fit import Needs, NodeResourcesFit
from scheduler.testing.fragments import container_json
from scheduler.testing.objects import node, pod
from tests.builders import device_class
from tests.plugins.clusters import cluster, info, raw_scores, reasons, refusals

GPU = "example.com/gpu"


def fit(**raw: Any) -> NodeResourcesFit:
    args, faults = decode_args(NodeResourcesFitArgs, raw, "args", "NodeResourcesFit")
    assert args is not None and not faults, faults
    assert not NodeResourcesFit.validate_args(args, "args")
    return NodeResourcesFit(args)


def faults_of(**raw: Any) -> list[str]:
    args, faults = decode_args(NodeResourcesFitArgs, raw, "args", "NodeResourcesFit")
    assert args is not None and not faults, faults
    return [f"{path}: {message}" for path, message in NodeResourcesFit.validate_args(args, "args")]


# --- filter -----------------------------------------------------------------------------------------------------------


def test_what_is_requested_of_a_node_counts_and_not_what_it_has() -> None:
    view = cluster([node("a", cpu="2"), node("b", cpu="2")], [pod("p", node="a", cpu="1500m")])
    assert refusals(NodeResourcesFit(), info(cpu="1"), view) == {
        "a": Refusal(Code.UNSCHEDULABLE, ("Insufficient cpu",))
    }
    assert not refusals(NodeResourcesFit(), info(cpu="500m"), view)


def test_all_that_runs_short_is_listed_in_a_fixed_order() -> None:
    offered = {"ephemeral-storage": "10Gi", GPU: "1", "hugepages-2Mi": "4Mi"}
    view = cluster(
        [node("a", cpu="1", memory="1Gi", pods=1, allocatable=offered)],
        [
            pod(
                "p",
                node="a",
                requests={"cpu": "1", "memory": "1Gi", "ephemeral-storage": "10Gi", GPU: "1", "hugepages-2Mi": "4Mi"},
            )
        ],
    )
    wanted = info(
        requests={"hugepages-2Mi": "2Mi", GPU: "1", "ephemeral-storage": "1", "memory": "1", "cpu": "1m"},
    )
    found = refusals(NodeResourcesFit(), wanted, view)["a"]
    assert found.code is Code.UNSCHEDULABLE
    assert found.reasons == (
        "Too many pods",
        "Insufficient cpu",
        "Insufficient memory",
        "Insufficient ephemeral-storage",
        "Insufficient example.com/gpu",
        "Insufficient hugepages-2Mi",
    )


def test_one_request_larger_than_the_empty_node_makes_eviction_useless() -> None:
    view = cluster([node("a", cpu="1", memory="1Gi")], [pod("p", node="a", cpu="1")])
    found = refusals(NodeResourcesFit(), info(cpu="500m", memory="2Gi"), view)["a"]
    assert found == Refusal(Code.UNRESOLVABLE, ("Insufficient cpu", "Insufficient memory"))


def test_nodes_are_grouped_by_what_they_lack() -> None:
    nodes = [
        node("small", cpu="1", memory="1Gi"),
        node("busy", cpu="4", memory="8Gi"),
        node("full", cpu="4", memory="8Gi", pods=1),
        node("fine", cpu="4", memory="8Gi"),
    ]
    pods = [pod("p1", node="busy", cpu="3", memory="7Gi"), pod("p2", node="full")]
    view = cluster(nodes, pods)
    assert refusals(NodeResourcesFit(), info(cpu="2", memory="2Gi"), view) == {
        "small": Refusal(Code.UNRESOLVABLE, ("Insufficient cpu", "Insufficient memory")),
        "busy": Refusal(Code.UNSCHEDULABLE, ("Insufficient cpu", "Insufficient memory")),
        "full": Refusal(Code.UNSCHEDULABLE, ("Too many pods",)),
    }


def test_a_pod_that_requests_nothing_fits_an_overcommitted_node() -> None:
    view = cluster([node("a", cpu="1")], [pod("p", node="a", cpu="2", memory="100Gi")])
    assert not refusals(NodeResourcesFit(), info(), view)
    assert reasons(NodeResourcesFit(), info(cpu="1m"), view) == {"a": ("Insufficient cpu",)}


def test_pods_that_request_more_of_a_resource_than_int64_holds_stop_no_other_pod() -> None:
    taken = [pod(f"p{number}", node="a", requests={GPU: "5E"}) for number in range(2)]
    view = cluster([node("a", allocatable={GPU: "2"}), node("b", allocatable={GPU: "2"})], taken)
    assert "b" not in refusals(NodeResourcesFit(), info(requests={GPU: "1"}), view)


FULL = str(2**63 - 1)
"""Memory that the API server accepts in a pod, which may name its node itself."""


def test_memory_beyond_int64_leaves_a_node_no_room_whichever_way_it_is_asked() -> None:
    taken = [pod("p", node="a", memory=FULL), pod("q", node="a", memory="1Gi")]
    view = cluster([node("a", memory="8Gi"), node("b", memory="8Gi")], taken)
    assert reasons(NodeResourcesFit(), info(memory="1Mi"), view) == {"a": ("Insufficient memory",)}
    assert NodeResourcesFit().filter_few(Needs.of(()), info(), view, [0, 1]) == [None, None]


@pytest.mark.parametrize(
    ("strategy", "scores"),
    [
        # -2^63 * 100 is 0 in int64, so that what is beyond it is all that counts, as in kube-scheduler. The third is no
        # percentage there, and fails the pod: "invalid score".
        ({"type": "LeastAllocated"}, [87, 97, 100, 75]),
        ({"type": "MostAllocated"}, [12, 2, 0, 25]),
        (
            {
                "type": "RequestedToCapacityRatio",
                "requestedToCapacityRatio": {
                    "shape": [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]
                },
            },
            [88, 98, 100, 75],
        ),
    ],
)
def test_memory_beyond_int64_stops_no_pod_that_asks_for_none(strategy: dict[str, Any], scores: list[int]) -> None:
    plugin = fit(scoringStrategy=strategy | {"resources": [{"name": "memory"}]})
    taken = [
        pod("a1", node="a", memory=FULL),
        pod("a2", node="a", memory="844103681"),  # with the default of 200 MB for the pod to be placed 1Gi beyond
        pod("b1", node="b", memory=FULL),
        pod("c1", node="c", memory=FULL),
        pod("c2", node="c", memory=str(2**63 - 2**40)),
        pod("d1", node="d", memory="1937768448"),
    ]
    view = cluster([node(name, memory="8Gi") for name in "abcd"], taken)
    found = raw_scores(plugin, info(), view)
    assert found == dict(zip("abcd", scores, strict=True))


def test_a_node_without_the_resource_can_not_be_helped() -> None:
    found = refusals(NodeResourcesFit(), info(requests={GPU: "1"}), cluster([node("a")]))
    assert found == {"a": Refusal(Code.UNRESOLVABLE, ("Insufficient example.com/gpu",))}


def test_a_request_of_zero_of_an_unknown_resource_fits() -> None:
    assert not refusals(NodeResourcesFit(), info(requests={GPU: "0"}), cluster([node("a")]))


def test_ignored_extended_resources_are_left_out_and_others_can_not_be_ignored() -> None:
    view = cluster([node("a")])
    pending = info(requests={GPU: "1", "hugepages-2Mi": "2Mi"})
    only_hugepages = {"a": ("Insufficient hugepages-2Mi",)}
    assert reasons(fit(ignoredResources=[GPU, "hugepages-2Mi"]), pending, view) == only_hugepages
    assert reasons(fit(ignoredResourceGroups=["example.com"]), pending, view) == only_hugepages


def test_a_resource_that_a_device_class_stands_for_is_left_to_dynamic_resources_where_the_node_has_none() -> None:
    nodes = [node("without"), node("with", allocatable={GPU: "1"})]
    view = cluster(nodes, [pod("p", node="with", requests={GPU: "1"})], [device_class("gpus", GPU)])
    assert reasons(NodeResourcesFit(), info(requests={GPU: "1"}), view) == {"with": ("Insufficient example.com/gpu",)}
    implicit = {"deviceclass.resource.kubernetes.io/gpus": "1"}
    assert not refusals(NodeResourcesFit(), info(requests=implicit), view)


def test_more_resources_short_than_combinations_are_tabled_for_give_the_same_answer() -> None:
    names = [f"example.com/r{number:02}" for number in range(14)]
    view = cluster([node("a", pods=0), node("b")])
    found = reasons(NodeResourcesFit(), info(requests=dict.fromkeys(names, "1")), view)
    assert found["b"] == tuple(f"Insufficient {name}" for name in names)
    assert found["a"] == ("Too many pods", *found["b"])


# --- score ------------------------------------------------------------------------------------------------------------


def test_the_least_allocated_node_scores_highest() -> None:
    view = cluster([node("a", cpu="4", memory="8Gi")], [pod("p", node="a", cpu="1", memory="2Gi")])
    assert raw_scores(NodeResourcesFit(), info(cpu="500m", memory="1Gi"), view) == {"a": 62}


def test_a_pod_without_requests_scores_with_defaults() -> None:
    view = cluster([node("a", cpu="4", memory="8Gi")], [pod("p", node="a", cpu="1", memory="2Gi")])
    assert raw_scores(NodeResourcesFit(), info(), view) == {"a": 72}
    assert raw_scores(NodeResourcesFit(), info(cpu="0", memory="0"), view) == {"a": 75}


def test_requests_of_the_pod_as_a_whole_do_not_count_in_the_score() -> None:
    view = cluster([node("a", cpu="4", memory="8Gi")])
    whole = info(spec={"resources": {"requests": {"cpu": "2", "memory": "4Gi"}}})
    assert raw_scores(NodeResourcesFit(), whole, view) == raw_scores(NodeResourcesFit(), info(), view)


def test_weights_count_and_a_resource_that_a_node_lacks_does_not() -> None:
    resources = [{"name": "cpu", "weight": 3}, {"name": GPU, "weight": 5}, {"name": "memory", "weight": 0}]
    plugin = fit(scoringStrategy={"type": "LeastAllocated", "resources": resources})
    view = cluster([node("gpu", cpu="4", memory="8Gi", allocatable={GPU: "4"}), node("none", cpu="4", memory="8Gi")])
    pending = info(requests={"cpu": "1", "memory": "4Gi", GPU: "1"})
    assert raw_scores(plugin, pending, view) == {
        "gpu": (75 * 3 + 75 * 5 + 50) // 9,
        "none": (75 * 3 + 50) // 4,
    }
    assert raw_scores(plugin, info(cpu="1", memory="4Gi"), view) == {"gpu": 68, "none": 68}


def test_most_allocated_caps_at_what_the_node_has() -> None:
    plugin = fit(scoringStrategy={"type": "MostAllocated"})
    view = cluster([node("a", cpu="2", memory="8Gi")], [pod("p", node="a", cpu="3", memory="2Gi")])
    assert raw_scores(plugin, info(memory="2Gi"), view) == {"a": (100 + 50) // 2}


def test_a_shape_scores_by_utilization_and_resources_that_score_nothing_do_not_count() -> None:
    shape = [{"utilization": 0, "score": 0}, {"utilization": 50, "score": 0}, {"utilization": 100, "score": 10}]
    plugin = fit(scoringStrategy={"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}})
    view = cluster([node("a", cpu="4", memory="8Gi")])
    assert raw_scores(plugin, info(cpu="3", memory="1Gi"), view) == {"a": 50}
    assert raw_scores(plugin, info(cpu="3", memory="8Gi"), view) == {"a": 75}
    assert raw_scores(plugin, info(cpu="1", memory="1Gi"), view) == {"a": 0}
    assert raw_scores(plugin, info(cpu="9", memory="1Gi"), view) == {"a": 100}


def test_the_mean_of_a_shape_is_rounded_half_up() -> None:
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    plugin = fit(scoringStrategy={"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}})
    view = cluster([node("a", cpu="100m", memory="100")])
    assert raw_scores(plugin, info(cpu="11m", memory="10"), view) == {"a": 11}
    assert raw_scores(plugin, info(cpu="12m", memory="11"), view) == {"a": 12}


@pytest.mark.parametrize("memory", ["60Ti", "70Ti", "70368744177663", "80Pi"])
def test_percentages_of_huge_memories_are_exact(memory: str) -> None:
    plugin = fit(scoringStrategy={"type": "LeastAllocated", "resources": [{"name": "memory"}]})
    view = cluster([node("a", memory=memory)])
    offered = int(view.table.allocatable_memory[0])
    for percent in range(0, 100, 7):
        wanted = -(-offered * percent // 100) or 1
        scores = raw_scores(plugin, info(memory=str(wanted)), view)
        assert scores == {"a": (offered - wanted) * 100 // offered}


@pytest.mark.parametrize(
    ("strategy", "requested", "score"),
    [
        # As in kube-scheduler; the second is -2 there, which fails the pod: "invalid score".
        ("LeastAllocated", "200Mi", 3),
        ("LeastAllocated", "1000000000000000000", 0),
        ("LeastAllocated", "2Ei", 0),
        ("MostAllocated", "30000000000000000", 2),
        ("MostAllocated", "1000000000000000000", 6),
        ("MostAllocated", "2Ei", 4),
    ],
)
def test_a_hundred_times_a_memory_beyond_int64_begins_again(strategy: str, requested: str, score: int) -> None:
    plugin = fit(scoringStrategy={"type": strategy, "resources": [{"name": "memory"}]})
    view = cluster([node("a", memory="1Ei"), node("b", memory="2Gi")])
    scores = raw_scores(plugin, info(memory=requested), view)
    assert scores is not None
    assert scores["a"] == score


def test_a_product_below_zero_lowers_the_mean_as_in_kube_scheduler() -> None:
    view = cluster([node("a", cpu="4", memory="1E")])
    assert raw_scores(NodeResourcesFit(), info(cpu="1", memory="860000000000000000"), view) == {"a": (75 - 4) // 2}


def test_of_a_placement_an_extended_resource_that_no_pod_of_the_group_requests_does_not_count() -> None:
    """Disk counts all the same, though none of them requests any."""
    there = pod("there", node="a", requests={"cpu": "1", "ephemeral-storage": "8Gi", GPU: "4"})
    offered = {"ephemeral-storage": "10Gi", GPU: "4"}
    view = cluster([node("a", cpu="2", allocatable=offered), node("b", cpu="2", allocatable=offered)], [there])
    resources = [{"name": name} for name in ("cpu", "ephemeral-storage", GPU)]
    plugin = fit(scoringStrategy={"type": "MostAllocated", "resources": resources})
    without, with_gpu = info(cpu="1"), info(cpu="1", requests={GPU: "1"})
    scores = [
        plugin.score_placement(Placed("default/g", Placement("all", np.array([0, 1])), pods, view))
        for pods in ([without], [with_gpu])
    ]
    assert scores == [(25 + 40) // 2, (25 + 40 + 50) // 3]


# --- events -----------------------------------------------------------------------------------------------------------


def test_a_leaving_pod_wakes_pods_if_it_held_a_node() -> None:
    hint = NodeResourcesFit().events()[0].hint
    assert hint(info(), info("x", node="n"), None) is Hint.QUEUE
    assert hint(info(), info("x", nominated="n"), None) is Hint.QUEUE
    assert hint(info(), info("x"), None) is Hint.SKIP


def test_a_shrinking_pod_wakes_pods_that_request_what_it_gave_back() -> None:
    hint = NodeResourcesFit().events()[0].hint
    large, small = info("x", node="n", cpu="2", memory="1Gi"), info("x", node="n", cpu="1", memory="1Gi")
    assert hint(info("p", cpu="1"), large, small) is Hint.QUEUE
    assert hint(info("p", memory="1Gi"), large, small) is Hint.SKIP
    assert hint(info("p", cpu="0"), large, small) is Hint.SKIP
    assert hint(info("p", cpu="1"), small, large) is Hint.SKIP
    assert hint(info("p", cpu="1"), info("x", cpu="2"), info("x", cpu="1")) is Hint.SKIP
    assert hint(info("p", cpu="1"), info("p", cpu="2"), info("p", cpu="1")) is Hint.QUEUE


def test_a_node_wakes_pods_that_fit_it_empty_and_request_what_grew() -> None:
    hint = NodeResourcesFit().events()[1].hint
    small, large = node("n", cpu="1"), node("n", cpu="4")
    assert hint(info(cpu="2"), None, large) is Hint.QUEUE
    assert hint(info(cpu="2"), None, small) is Hint.SKIP
    assert hint(info(cpu="2"), small, large) is Hint.QUEUE
    assert hint(info(memory="1Gi"), small, large) is Hint.SKIP
    assert hint(info(cpu="500m"), large, small) is Hint.SKIP
    assert hint(info(memory="1Gi"), node("n", pods=1), node("n", pods=2)) is Hint.QUEUE
    assert hint(info(), None, node("n", pods=0)) is Hint.SKIP
    assert hint(info(requests={GPU: "1"}), small, large) is Hint.SKIP
    assert hint(info(requests={GPU: "1"}), small, node("n", allocatable={GPU: "1"})) is Hint.QUEUE


@pytest.mark.parametrize("name", ["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", GPU])
def test_more_of_a_resource_on_a_node_wakes_pods_that_request_some_of_it(name: str) -> None:
    hint = NodeResourcesFit().events()[1].hint
    before, after = (node("n", allocatable={name: amount}) for amount in ("4Mi", "6Mi"))
    assert hint(info(requests={name: "2Mi"}), before, after) is Hint.QUEUE
    assert hint(info(requests={name: "2Mi"}), after, before) is Hint.SKIP
    assert hint(info(requests={name: "0"}), before, after) is Hint.SKIP


def test_ignored_resources_are_not_ignored_by_the_hint() -> None:
    hint = fit(ignoredResources=[GPU]).events()[1].hint
    assert hint(info(requests={GPU: "1"}), None, node("n")) is Hint.SKIP


def test_a_device_class_wakes_pods_that_request_its_resource() -> None:
    hint = NodeResourcesFit().events()[2].hint
    plain, mapped = device_class("gpus"), device_class("gpus", GPU)
    assert hint(info(requests={GPU: "1"}), None, mapped) is Hint.QUEUE
    assert hint(info(requests={GPU: "1"}), plain, mapped) is Hint.QUEUE
    assert hint(info(requests={GPU: "1"}), mapped, mapped) is Hint.SKIP
    assert hint(info(cpu="1"), None, mapped) is Hint.SKIP
    implicit = info(requests={"deviceclass.resource.kubernetes.io/gpus": "1"})
    assert hint(implicit, None, plain) is Hint.QUEUE
    assert hint(implicit, plain, mapped) is Hint.SKIP


# --- arguments and sharing --------------------------------------------------------------------------------------------


def test_faulty_arguments_are_all_named() -> None:
    assert faults_of(ignoredResourceGroups=["a/b"], scoringStrategy={"type": "Fastest"}) == [
        "args.ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'",
        'args.scoringStrategy.type: Unsupported value: "Fastest": supported values: '
        '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"',
    ]
    (weight,) = faults_of(scoringStrategy={"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}]})
    assert weight.endswith("resource weight of cpu not in valid range (0, 100]")


def test_a_shape_is_required_for_its_strategy_and_forbidden_for_the_others() -> None:
    (missing,) = faults_of(scoringStrategy={"type": "RequestedToCapacityRatio"})
    assert missing.endswith("must be specified when type is RequestedToCapacityRatio")
    (empty,) = faults_of(scoringStrategy={"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {}})
    assert empty.endswith("at least one point must be specified")
    (unwanted,) = faults_of(scoringStrategy={"type": "MostAllocated", "requestedToCapacityRatio": {"shape": []}})
    assert unwanted.endswith("must be nil when type is not RequestedToCapacityRatio")


def test_pods_with_the_same_requests_share_answers_and_others_do_not() -> None:
    view = cluster([])
    plugin = NodeResourcesFit()
    one = plugin.fragment(info("a", cpu="1", labels={"x": "1"}), view)
    assert one == plugin.fragment(info("b", cpu="1000m", labels={"x": "2"}), view)
    assert one != plugin.fragment(info("c", cpu="2"), view)
    two_containers = [container_json("x", cpu="500m"), container_json("y", cpu="500m")]
    assert one != plugin.fragment(info("d", containers=two_containers), view), "memory defaults differ in the score"
