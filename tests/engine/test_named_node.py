"""Pods that name their node, as a DaemonSet's do: decided by a look at that node, as by a search over all of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.attempt import ERROR
from scheduler.framework.plugin import Plugin, Wait
from scheduler.messages.commands import BindPod, CallExtender, DeletePod
from scheduler.messages.status import unschedulable
from scheduler.testing.fragments import affinity_json, node_term, pod_term, spread_json
from tests.engine.driver import Cluster
from tests.engine.scripted import broken, calls_of, scripted

HOST = "kubernetes.io/hostname"


def for_node(*names: str, terms: int = 1, **affinity: Any) -> dict[str, Any]:
    """The affinity of a pod for these nodes. More terms of the same say nothing else, but only one is a shortcut."""
    return affinity_json(node_required=terms * [node_term(fields=[f"metadata.name In {','.join(names)}"])], **affinity)


def three_nodes(*plugins: Any, **fields: Any) -> Cluster:
    cluster = Cluster(*plugins, **fields)
    for name in ("n0", "n1", "n2"):
        cluster.node(name, labels={HOST: name})
    return cluster


def test_the_named_node_is_taken_and_no_other_is_asked_about() -> None:
    asked = scripted("Asked", filter=lambda pod, node: None)
    cluster = three_nodes(asked)
    cluster.pod("a", affinity=for_node("n1"))
    attempt = cluster.schedule()
    assert attempt is not None and cluster.node_of("a") == "n1"
    assert calls_of(asked) == ["filter a n1"]
    assert (attempt.feasible_nodes, attempt.only_nodes) == (1, frozenset({"n1"}))


def test_a_pod_that_does_not_fit_on_its_node_says_why_and_removes_others_there() -> None:
    cluster = three_nodes()
    cluster.pod("low", cpu="4", node="n1")
    cluster.pod("a", cpu="2", priority=10, affinity=for_node("n1"))
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.message == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )
    cluster.settle()
    assert [command.pod.name for command in cluster.sent if isinstance(command, DeletePod)] == ["low"]
    assert cluster.node_of("a") == "n1"


def test_room_for_a_nominated_pod_is_kept_free_on_the_named_node() -> None:
    cluster = three_nodes()
    cluster.lingering.add("low")
    cluster.pod("low", cpu="2", node="n1")
    cluster.pod("high", cpu="4", priority=10, affinity=for_node("n1"))
    cluster.settle()
    assert cluster.nominated("high") == "n1"
    cluster.pod("a", cpu="1", affinity=for_node("n1"))
    cluster.pod("b", cpu="1", affinity=for_node("n2"))
    cluster.settle()
    assert (cluster.node_of("a"), cluster.node_of("b")) == ("", "n2")


def test_a_name_that_no_node_has_is_a_search_that_finds_nothing() -> None:
    cluster = three_nodes()
    cluster.pod("a", affinity=for_node("gone"))
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.message.startswith("0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity].")


def test_a_plugin_that_refuses_the_pod_as_a_whole_is_heard() -> None:
    cluster = three_nodes(scripted("NotToday", pre_filter=lambda pod: unschedulable("not today")))
    cluster.pod("a", affinity=for_node("n1"))
    attempt = cluster.schedule()
    assert attempt is not None and attempt.node == ""
    assert attempt.message.startswith("0/3 nodes are available: not today.")


def test_the_labels_that_the_pod_asks_for_count_on_the_named_node_too() -> None:
    cluster = three_nodes()
    cluster.pod("a", affinity=for_node("n1"), node_selector={HOST: "n2"})
    cluster.schedule()
    assert cluster.node_of("a") == ""


def test_extenders_have_their_say() -> None:
    extender = {"urlPrefix": "http://extender", "filterVerb": "filter"}
    cluster = three_nodes(configuration={"extenders": [extender]})
    cluster.pod("a", affinity=for_node("n1"))
    assert cluster.schedule() is None
    assert isinstance(cluster.unanswered[0], CallExtender)


@pytest.mark.parametrize(
    "plugin", [scripted("Broken", pre_filter=broken), scripted("Broken", filter=broken)], ids=["PreFilter", "Filter"]
)
def test_a_plugin_that_raises_ends_the_attempt_with_its_name(plugin: type[Plugin]) -> None:
    cluster = three_nodes(plugin)
    cluster.pod("a", affinity=for_node("n1"))
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.result == ERROR and '"Broken"' in attempt.message


def test_plugins_reserve_and_permit_as_for_any_pod() -> None:
    plugin = scripted("Careful", reserve=lambda pod, node: None, permit=lambda pod, node: Wait(5))
    cluster = three_nodes(plugin)
    cluster.pod("a", affinity=for_node("n1"))
    cluster.schedule()
    assert not [command for command in cluster.unanswered if isinstance(command, BindPod)]
    cluster.allow("a", "Careful")
    assert [command.node for command in cluster.unanswered if isinstance(command, BindPod)] == ["n1"]


def test_a_measured_attempt_has_each_call_once_whether_the_pod_fits_or_not() -> None:
    plugin = scripted("Chatty", pre_filter=lambda pod: None, filter=lambda pod, node: _only_n1(node))
    for name, filters in (("n1", 1), ("n2", 1)):
        cluster = three_nodes(plugin)
        cluster.pod("a", affinity=for_node(name))
        attempt = cluster.schedule()
        assert attempt is not None and attempt.plugin_times is not None
        points = [one.point for one in attempt.plugin_times.take() if one.plugin == "Chatty"]
        assert (points.count("PreFilter"), points.count("Filter")) == (1, filters)


def _only_n1(node: str) -> Any:
    return None if node.endswith("n1") else unschedulable("not here")


@st.composite
def _pods(draw: st.DrawFn) -> dict[str, Any]:
    """Fields of a pod, with its node by number."""
    labels = {"app": draw(st.sampled_from(["web", "db"]))}
    fields: dict[str, Any] = {
        "node_name": f"n{draw(st.integers(0, 4))}",
        "labels": labels,
        "cpu": draw(st.sampled_from(["1", "2", "3"])),
        "priority": draw(st.integers(0, 2)),
        "together": {},
    }
    if draw(st.booleans()):
        fields["together"] = {"anti_required": [pod_term({"app": draw(st.sampled_from(["web", "db"]))}, HOST)]}
    if draw(st.booleans()):
        fields["spread"] = [spread_json(HOST, labels)]
    if draw(st.booleans()):
        fields["ports"] = [80]
    if draw(st.booleans()):
        fields["tolerations"] = [{"operator": "Exists"}]
    return fields


@given(
    st.lists(_pods(), min_size=1, max_size=12),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.sampled_from([None, 0, 50]),
)
def test_it_comes_to_what_a_search_over_all_nodes_comes_to(
    pods: list[dict[str, Any]], tainted: list[bool], percentage: int | None
) -> None:
    seen = []
    for terms in (1, 2):
        cluster = Cluster(profile={} if percentage is None else {"percentageOfNodesToScore": percentage})
        for number, is_tainted in enumerate(tainted):
            taints = ["dedicated:NoSchedule"] if is_tainted else []
            cluster.node(f"n{number}", labels={HOST: f"n{number}"}, taints=taints)
        for number, fields in enumerate(pods):
            own = {key: value for key, value in fields.items() if key not in ("node_name", "together")}
            affinity = for_node(fields["node_name"], terms=terms, **fields["together"])
            cluster.pod(f"p{number}", affinity=affinity, **own)
        said = []
        while (attempt := cluster.schedule()) is not None:
            said.append(
                (
                    *(attempt.pod, attempt.node, attempt.message, attempt.nominated_node, attempt.victims),
                    *(attempt.only_nodes, attempt.evaluated, attempt.evaluated_nodes, attempt.feasible_nodes),
                    *(attempt.statuses, list(attempt.durations), cluster.engine._context.next_start),
                )
            )
        seen.append(said)
    assert seen[0] == seen[1]
