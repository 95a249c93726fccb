"""Answers for all rows, for an array of rows and for one row agree: `refusals` and `raw_scores` compare them."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.view import View
from scheduler.framework.plugin import FilterPlugin, ScorePlugin
from scheduler.objects.selector_fields import LabelSelector, SelectorExpression
from scheduler.objects.selectors import equality_selector, parse_selector
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_declared_features import RESTART_ALL_CONTAINERS, NodeDeclaredFeatures
from scheduler.plugins.node_name import NodeName
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_scope import NodeScope
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.resources.fit_args import (
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from scheduler.plugins.resources.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
    NodeResourcesBalancedAllocationArgs,
)
from scheduler.plugins.resources.node_resources_fit import NodeResourcesFit
from scheduler.plugins.taint_toleration import TaintToleration
from scheduler.testing.fragments import affinity_json, container_json, node_term
from scheduler.testing.objects import node, pod
from tests.plugins.clusters import cluster, info, raw_scores, refusals

GPU = "example.com/gpu"
RESOURCES = (ResourceSpec("cpu", 1), ResourceSpec("memory", 3), ResourceSpec(GPU, 5), ResourceSpec("ephemeral-storage"))
SHAPE = (UtilizationShapePoint(10, 0), UtilizationShapePoint(33, 10), UtilizationShapePoint(95, 3))

PLUGINS: list[FilterPlugin | ScorePlugin] = [
    NodeUnschedulable(),
    NodeName(),
    TaintToleration(),
    NodeAffinity(),
    NodeScope(equality_selector({"disk": "ssd"})),
    NodeScope(parse_selector(LabelSelector(match_expressions=(SelectorExpression("cores", "NotIn", ("3",)),)))),
    NodePorts(),
    NodeDeclaredFeatures(),
    ImageLocality(),
    NodeResourcesFit(),
    NodeResourcesFit(NodeResourcesFitArgs((), ("example.com",), ScoringStrategy("LeastAllocated", RESOURCES))),
    NodeResourcesFit(NodeResourcesFitArgs(scoring_strategy=ScoringStrategy("MostAllocated", RESOURCES))),
    NodeResourcesFit(
        NodeResourcesFitArgs(
            scoring_strategy=ScoringStrategy(
                "RequestedToCapacityRatio", RESOURCES, RequestedToCapacityRatioParam(SHAPE)
            )
        )
    ),
    NodeResourcesBalancedAllocation(),
    NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArgs(RESOURCES)),
]

amounts = st.one_of(st.integers(0, 8), st.integers(0, 2**47), st.integers(2**45, 2**58)).map(str)
milli_cpu = st.integers(0, 5000).map(lambda number: f"{number}m")
taints = st.lists(
    st.sampled_from(["a=1:NoSchedule", "a=2:NoExecute", "b:PreferNoSchedule", "c=1:PreferNoSchedule"]), max_size=3
)
labels = st.dictionaries(st.sampled_from(["disk", "cores"]), st.sampled_from(["ssd", "hdd", "3", "17"]))
terms = st.lists(
    st.sampled_from(["disk In ssd,3", "disk NotIn hdd", "cores Exists", "cores DoesNotExist", "cores Gt 3", "disk In"]),
    min_size=1,
    max_size=2,
).map(lambda texts: node_term(*texts))
requests = st.fixed_dictionaries(
    {}, optional={"cpu": milli_cpu, "memory": amounts, GPU: amounts, "ephemeral-storage": amounts}
)
images = st.lists(st.sampled_from(["app:v1", "app", "tool:v1"]), min_size=1, max_size=3)


@st.composite
def views(draw: st.DrawFn) -> View:
    nodes = [
        node(
            f"n{number}",
            cpu=draw(st.none() | milli_cpu),
            memory=draw(st.none() | amounts),
            pods=draw(st.integers(0, 3)),
            allocatable=draw(st.fixed_dictionaries({}, optional={GPU: amounts, "ephemeral-storage": amounts})),
            labels=draw(labels),
            taints=draw(taints),
            unschedulable=draw(st.booleans()),
            images={
                name: draw(st.integers(1, 2**31)) for name in draw(st.sets(st.sampled_from(["app:v1", "app:latest"])))
            },
            features=draw(st.sampled_from([[], [RESTART_ALL_CONTAINERS]])),
        )
        for number in range(draw(st.integers(1, 5)))
    ]
    pods = [
        # Pods of nodes that are not there leave rows without a node in the table.
        pod(f"p{number}", node=f"n{draw(st.integers(0, 5))}", requests=draw(requests), ports=draw(port_lists))
        for number in range(draw(st.integers(0, 6)))
    ]
    return cluster(nodes, pods)


port_lists = st.lists(
    st.builds(
        lambda number, ip: {"hostPort": number, "containerPort": 1, "hostIP": ip},
        st.sampled_from([80, 81]),
        st.sampled_from(["", "10.0.0.1", "0.0.0.0"]),
    ),
    max_size=2,
)


@st.composite
def pending_pods(draw: st.DrawFn) -> Any:
    spec = {"nodeName": draw(st.sampled_from(["", "n0", "n9"]))}
    rules = [{"action": "RestartAllContainers"}] if draw(st.booleans()) else []
    first, *more = draw(images)
    containers = [
        container_json(requests=draw(requests), image=first, ports=draw(port_lists), restartPolicyRules=rules),
        *[container_json(f"c{number}", image=image) for number, image in enumerate(more)],
    ]
    affinity = affinity_json(
        node_required=draw(st.none() | st.lists(terms, max_size=2)),
        node_preferred=draw(st.lists(st.tuples(st.integers(1, 9), terms.filter(_is_usable)), max_size=2)),
    )
    selector = draw(st.just({}) | labels)
    tolerations = draw(st.lists(st.sampled_from(["a=1", "a:NoExecute", "b", "", "c=2"]), max_size=2))
    return info(containers=containers, affinity=affinity, node_selector=selector, tolerations=tolerations, spec=spec)


def _is_usable(term: dict[str, Any]) -> bool:
    return all(expression.get("values") or "xist" in expression["operator"] for expression in term["matchExpressions"])


@settings(max_examples=60)
@given(views(), pending_pods())
def test_every_form_of_a_plugin_gives_the_same_answers(view: View, pending: Any) -> None:
    for plugin in PLUGINS:
        if isinstance(plugin, FilterPlugin):
            refusals(plugin, pending, view)
        if isinstance(plugin, ScorePlugin):
            raw_scores(plugin, pending, view)
