"""PodTopologySpread against a model that looks at every pod, and its dry runs against the changed cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.plugin import State
from scheduler.objects.node import Node
from scheduler.objects.node_selectors import required_node_affinity
from scheduler.objects.taints import first_untolerated_taint
from scheduler.plugins.spread.constraints import Constraint, own_constraints
from scheduler.plugins.spread.state import SpreadFilterState
from scheduler.testing.documents import NodeFields
from scheduler.testing.fragments import spread_json
from scheduler.testing.objects import node, pod
from tests.plugins.clusters import cluster, info, reasons
from tests.plugins.spread.cases import DELETED, HOST, MISSING, PLUGIN, UNEVEN, WEB, ZONE


def _counts(constraint: Constraint, pending: PodInfo, nodes: Iterable[Node], pods: list[Any], keys: list[str]) -> Any:
    counts: dict[str, int] = {}
    required = required_node_affinity(pending.pod)
    for each in nodes:
        labels = each.metadata.labels
        if not all(key in labels for key in keys):
            continue
        if constraint.honors_affinity and not required.matches(labels, each.metadata.name):
            continue
        if constraint.honors_taints and first_untolerated_taint(each.spec.taints, pending.pod.spec.tolerations):
            continue
        here = sum(
            other.spec.node_name == each.metadata.name
            and other.metadata.namespace == pending.namespace
            and other.metadata.deletion_timestamp is None
            and not constraint.selector.is_everything
            and constraint.selector.matches(other.metadata.labels)
            for other in pods
        )
        value = labels[constraint.topology_key]
        counts[value] = counts.get(value, 0) + here
    return counts


def _plain_filter(pending: PodInfo, nodes: list[Node], pods: list[Any]) -> dict[str, tuple[str, ...]]:
    constraints = own_constraints(pending, "DoNotSchedule", reads_label_keys=True)
    keys = [one.topology_key for one in constraints]
    found: dict[str, tuple[str, ...]] = {}
    for each in nodes:
        for one in constraints:
            value = each.metadata.labels.get(one.topology_key)
            if value is None:
                found[each.metadata.name] = MISSING
                break
            counts = _counts(one, pending, nodes, pods, keys)
            lowest = 0 if len(counts) < one.min_domains else min(counts.values())
            if counts.get(value, 0) + one.selector.matches(pending.labels) - lowest > one.max_skew:
                found[each.metadata.name] = UNEVEN
                break
    return found


NODE_FIELDS: st.SearchStrategy[NodeFields] = st.fixed_dictionaries(
    {
        "zone": st.sampled_from(["a", "b", "", None]),
        "taints": st.sampled_from([[], ["k:NoSchedule"], ["k:PreferNoSchedule"]]),
        "labels": st.sampled_from([{}, {"disk": "ssd"}]),
    }
).map(lambda fields: cast(NodeFields, fields))
NODES = st.lists(NODE_FIELDS, min_size=1, max_size=5).map(
    lambda each: [node(f"n{index}", **fields) for index, fields in enumerate(each)]
)
PODS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.sampled_from([WEB, {"app": "db"}, {}, {"app": "web", "v": "1"}]),
        st.sampled_from(["default", "default", "other"]),
        st.sampled_from([None, None, DELETED]),
    ),
    max_size=10,
).map(
    lambda each: [
        pod(f"p{index}", node=f"n{row}", labels=labels, namespace=namespace, deleted=deleted)
        for index, (row, labels, namespace, deleted) in enumerate(each)
    ]
)
CONSTRAINTS = st.lists(
    st.builds(
        lambda key, selector, skew, domains, affinity_policy, taints_policy, keys: spread_json(
            key,
            selector,
            max_skew=skew,
            minDomains=domains,
            nodeAffinityPolicy=affinity_policy,
            nodeTaintsPolicy=taints_policy,
            matchLabelKeys=keys,
        ),
        st.sampled_from([ZONE, HOST]),
        st.sampled_from([WEB, {}, None, {"matchExpressions": [{"key": "app", "operator": "Exists"}]}]),
        st.integers(1, 3),
        st.sampled_from([None, 1, 3]),
        st.sampled_from(["Honor", "Ignore", None]),
        st.sampled_from(["Honor", "Ignore", None]),
        st.sampled_from([[], ["v"]]),
    ),
    min_size=1,
    max_size=3,
)
PENDING = st.builds(
    lambda constraints, labels, selector, tolerations: info(
        spread=constraints, labels=labels, node_selector=selector, tolerations=tolerations
    ),
    CONSTRAINTS,
    st.sampled_from([WEB, {"app": "web", "v": "1"}, {}]),
    st.sampled_from([None, {"disk": "ssd"}]),
    st.sampled_from([[], ["k"]]),
)


@settings(max_examples=150)
@given(NODES, PODS, PENDING)
def test_the_filter_answers_as_a_plain_model_does(nodes: list[Node], pods: list[Any], pending: PodInfo) -> None:
    assert reasons(PLUGIN, pending, cluster(nodes, pods)) == _plain_filter(pending, nodes, pods)


def _changed(state: State, one: View, other: PodInfo, sign: int) -> State:
    changed = state.with_pod(one, 0, other, sign)
    assert isinstance(state, SpreadFilterState)
    assert changed is state or not state.ignores(other)
    return changed


def _is_exact(other: Any, pending: PodInfo) -> bool:
    """Whether dry runs count the pod as PreFilter does: not so for terminating pods and the empty selector."""
    return other.metadata.deletion_timestamp is None and not any(
        one.selector.is_everything for one in own_constraints(pending, "DoNotSchedule", reads_label_keys=True)
    )


@settings(max_examples=100)
@given(NODES, PODS, PENDING, st.lists(st.integers(0, 20), min_size=1, max_size=4))
def test_a_state_with_pods_changed_is_the_state_of_the_changed_cluster(
    nodes: list[Node], pods: list[Any], pending: PodInfo, moves: list[int]
) -> None:
    row = moves[0] % len(nodes)
    name = nodes[row].metadata.name
    view = cluster(nodes, pods)
    one = view.one_row(row)
    before = PLUGIN.pre_filter(pending, view)
    assert isinstance(before, State)
    state: State = before
    left = list(pods)
    for number, move in enumerate(moves):
        here = [other for other in left if other.spec.node_name == name and _is_exact(other, pending)]
        if here and move % 2:
            gone = here[move % len(here)]
            left.remove(gone)
            state = _changed(state, one, PodInfo(gone), -1)
        else:
            extra = pod(f"extra{number}", node=name, labels=WEB)
            if _is_exact(extra, pending):
                left.append(extra)
                state = _changed(state, one, PodInfo(extra), 1)
    changed = cluster(nodes, left)
    after = PLUGIN.pre_filter(pending, changed)
    assert isinstance(after, State)
    for index in range(len(nodes)):
        expected = PLUGIN.filter_row(after, pending, changed, index)
        assert PLUGIN.filter_row(state, pending, view, index) == expected
    untouched = PLUGIN.pre_filter(pending, view)
    assert isinstance(untouched, State)
    for index in range(len(nodes)):
        expected = PLUGIN.filter_row(untouched, pending, view, index)
        assert PLUGIN.filter_row(before, pending, view, index) == expected
