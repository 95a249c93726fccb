"""Which nodes a decision looks at, and which of them count as looked at where the search is a sample."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.engine.sampling import take_sample
from scheduler.framework.per_node import NodeView, PerNodeFilter, PerNodeScore
from scheduler.framework.plugin import NodeSubset, PreFilterPlugin, Reads, ScorePlugin, State
from scheduler.messages.commands import BindPod, CallExtender
from scheduler.messages.status import Refusal, failure, unschedulable
from scheduler.objects.node import Node
from tests.engine.driver import Cluster


class Inventory(PerNodeFilter):
    """Cannot say anything of a node that is labelled so."""

    name = "Inventory"

    def filter_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> Refusal | None:
        return failure("lost") if "lost" in node.metadata.labels else None


class Appraiser(PerNodeScore):
    """Raises on a node that is labelled so, or scores more than there is."""

    name = "Appraiser"

    def score_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> int:
        if "lost" in node.metadata.labels:
            raise LookupError("lost")
        return 1000 if "odd" in node.metadata.labels else 100 if node.name == "n7" else 3


class ReckonedAppraiser(Appraiser):
    """Its answers are kept: they depend on the node alone."""

    name = "ReckonedAppraiser"
    reads = Reads.NODE

    def fragment(self, pod: PodInfo, view: View) -> int:
        return 0


class OnlyTwo(PreFilterPlugin):
    name = "OnlyTwo"

    def pre_filter(self, pod: PodInfo, view: View) -> State:
        return NodeSubset(frozenset({"n0", "n1"}))


class NotToday(PreFilterPlugin):
    name = "NotToday"

    def pre_filter(self, pod: PodInfo, view: View) -> Refusal:
        return unschedulable("not today")


def _inventoried(*lost: str, nodes: int = 150, percentage: int = 10, small: str = "") -> Cluster:
    cluster = Cluster(Inventory, profile={"percentageOfNodesToScore": percentage})
    for number in range(nodes):
        name = f"n{number}"
        cluster.node(name, labels={"lost": "yes"} if name in lost else {}, cpu="1" if name == small else "4")
    return cluster


def _appraised(plugin: type[ScorePlugin], label: str, node: str, cpu: str = "4") -> Cluster:
    """One node is labelled; a sample has 100 of 150."""
    only = {
        "preScore": {"disabled": [{"name": "*"}]},
        "score": {"disabled": [{"name": "*"}], "enabled": [{"name": plugin.name}]},
    }
    cluster = Cluster(plugin, profile={"percentageOfNodesToScore": 10, "plugins": only})
    for number in range(150):
        name = f"n{number}"
        labels, has = ({label: "yes"}, cpu) if name == node else ({}, "4")
        cluster.node(name, labels=labels, cpu=has)
    return cluster


@pytest.mark.parametrize("plugin", [Appraiser, ReckonedAppraiser])
@pytest.mark.parametrize("label", ["lost", "odd"])
def test_a_score_that_fails_on_a_node_that_the_sample_leaves_out_ends_no_attempt(
    plugin: type[ScorePlugin], label: str
) -> None:
    """As in kube-scheduler, which scores no other nodes; the next sample has the node."""
    cluster = _appraised(plugin, label, "n120")
    cluster.pod("a")
    cluster.schedule()
    assert [bind.node for bind in cluster.writes(BindPod, "a")] == ["n7"]
    cluster.pod("b")
    attempt = cluster.schedule()
    assert attempt is not None
    assert "Appraiser" in attempt.message and not cluster.writes(BindPod, "b")


@pytest.mark.parametrize("plugin", [Appraiser, ReckonedAppraiser])
def test_a_score_that_fails_on_a_node_on_which_the_pod_does_not_fit_ends_no_attempt(plugin: type[ScorePlugin]) -> None:
    cluster = _appraised(plugin, "lost", "n5", cpu="1")
    cluster.pod("a", cpu="2")
    cluster.schedule()
    assert [bind.node for bind in cluster.writes(BindPod, "a")] == ["n7"]


@pytest.mark.parametrize("percentage", [10, 100, None])
def test_a_score_out_of_range_ends_the_attempt_once_the_pod_fits_on_that_node(percentage: int | None) -> None:
    """What was said of the node while the pod did not fit there counts then, though the node has not changed."""
    plugins = {"multiPoint": {"enabled": [{"name": "ReckonedAppraiser"}]}}
    sampled = {} if percentage is None else {"percentageOfNodesToScore": percentage}
    cluster = Cluster(ReckonedAppraiser, profile={"plugins": plugins, **sampled})
    cluster.node("n0", labels={"odd": "yes"})
    for number in range(1, 4):
        cluster.node(f"n{number}")
    cluster.pod("there", cpu="3", node="n0")
    for number in range(3):
        cluster.pod(f"a{number}", cpu="1500m")
        assert (attempt := cluster.schedule()) is not None and attempt.node
    cluster.delete("there")
    cluster.pod("b", cpu="1500m")
    attempt = cluster.schedule()
    assert attempt is not None
    assert "returns an invalid score 1000" in attempt.message


def test_plugins_count_as_asked_though_what_one_says_of_a_node_that_does_not_fit_is_out_of_range() -> None:
    evaluated = []
    for labels in ({}, {"odd": "yes"}):
        cluster = Cluster(ReckonedAppraiser)
        cluster.node("n0", labels=labels, cpu="1")
        for number in (1, 2, 3):
            cluster.node(f"n{number}")
        cluster.pod("a", cpu="2")
        attempt = cluster.schedule()
        assert attempt is not None and attempt.node
        evaluated.append(attempt.evaluated_scores)
    assert evaluated[0] == evaluated[1] != frozenset()


@pytest.mark.parametrize(("nominated", "counted"), [("", 101), ("n120", 102), ("n3", 101), ("gone", 101)])
def test_a_nominated_node_that_was_refused_counts_once_among_the_nodes_that_a_sample_has_looked_at(
    nominated: str, counted: int
) -> None:
    """So the next sample begins one place further on, unless it was met again on the way."""
    cluster = Cluster(profile={"percentageOfNodesToScore": 10})
    for number in range(150):
        cluster.node(f"n{number}", cpu="1" if number in (3, 120) else "4")
    cluster.pod("a", cpu="2", nominated=nominated)
    attempt = cluster.schedule()
    assert attempt is not None
    assert (attempt.feasible_nodes, attempt.evaluated_nodes) == (100, counted)


def test_an_error_on_a_node_that_the_sample_does_not_reach_ends_no_attempt() -> None:
    """As in kube-scheduler; the next sample reaches it, ends there, and the one after that begins there."""
    cluster = _inventoried("n120")
    for name in ("a", "b", "c"):
        cluster.pod(name)
    found = [cluster.schedule() for _ in range(3)]
    assert [(attempt.evaluated_nodes, attempt.message) for attempt in found if attempt is not None] == [
        (100, ""),
        (20, 'running "Inventory" filter plugin: lost'),
        (0, 'running "Inventory" filter plugin: lost'),
    ]
    assert cluster.writes(BindPod, "a")


def test_a_nominated_node_on_which_a_filter_ends_in_an_error_does_not_count_as_looked_at() -> None:
    cluster = _inventoried("n120")
    cluster.pod("a", nominated="n120")
    attempt = cluster.schedule()
    assert attempt is not None
    assert (attempt.feasible_nodes, attempt.evaluated_nodes) == (100, 100)


def test_a_node_that_refuses_the_pod_beside_those_nominated_there_is_not_asked_what_ends_in_an_error_without_them() -> (
    None
):
    cluster = _inventoried("n1", nodes=2, percentage=100, small="n1")
    never = {"preemptionPolicy": "Never", "nodeSelector": {"there": "is none"}}
    cluster.pod("big", cpu="1", priority=5, nominated="n1", spec=never)
    cluster.schedule()
    cluster.pod("a", cpu="1")
    cluster.schedule()
    assert cluster.write(BindPod, "a").node == "n0"


def test_a_plugin_that_names_the_only_nodes_is_among_the_rejectors_of_a_pod_that_another_refuses_as_a_whole() -> None:
    """An event that changes its answer may help the pod, too, as in kube-scheduler."""
    cluster = Cluster(OnlyTwo, NotToday)
    cluster.nodes_like(3)
    cluster.pod("a")
    cluster.schedule()
    assert cluster.attempt("a").rejectors == ("NotToday", "OnlyTwo")


@pytest.mark.parametrize(("failed", "evaluated", "then"), [({}, 99, "n100"), ({"n3": "no"}, 100, "n101")])
def test_a_nominated_node_that_an_extender_drops_without_a_reason_does_not_count_as_looked_at(
    failed: dict[str, str], evaluated: int, then: str
) -> None:
    """One that it refuses with a reason does. Among the nodes evaluated it counts once."""
    extenders = [{"urlPrefix": "http://e.test", "nodeCacheCapable": True, "filterVerb": "filter"}]
    cluster = Cluster(configuration={"extenders": extenders, "percentageOfNodesToScore": 10})
    cluster.nodes_like(150)
    cluster.pod("a", nominated="n3")
    cluster.pod("b")
    cluster.schedule()
    for passed in ([], [f"n{number}" for number in range(100) if number != 3]):
        cluster.answer(cluster.write(CallExtender), {"NodeNames": passed, "FailedNodes": failed})
    (binding,) = cluster.engine.bindings.under_way
    assert binding.attempt.evaluated_nodes == evaluated
    cluster.schedule()
    assert msgspec.json.decode(cluster.write(CallExtender).body)["NodeNames"][0] == then


@given(data=st.data())
def test_a_sample_is_what_a_walk_from_node_to_node_finds(data: st.DataObject) -> None:
    candidates = data.draw(st.permutations(range(data.draw(st.integers(0, 12)))))
    feasible = sorted(data.draw(st.sets(st.sampled_from(candidates)))) if candidates else []
    start, wanted = data.draw(st.integers(0, 30)), data.draw(st.integers(0, 13))
    refused_first = data.draw(st.integers(-1, 13))
    others = [row for row in candidates if row not in feasible and row != refused_first]
    failing = sorted(data.draw(st.sets(st.sampled_from(others)))) if others else []

    found: list[int] = []
    refused: set[int] = set()
    seen, failed = 0, -1
    for step in range(len(candidates)):
        row = candidates[(start + step) % len(candidates)]
        if row in feasible and len(found) == wanted:
            break
        if row in failing:
            failed = row
            break
        seen += 1
        if row in feasible:
            found.append(row)
        else:
            refused.add(row)
    seen += refused_first >= 0 and refused_first not in refused
    if len(feasible) <= wanted:
        found.sort()

    rows = [np.array(each, dtype=np.int64) for each in (candidates, feasible, failing)]
    sample = take_sample(rows[0], rows[1], start, wanted, refused_first, rows[2])
    assert (sample.seen, sample.failed) == (seen, failed)
    if failed < 0:
        assert sample.rows.tolist() == found


def test_a_pod_like_the_one_before_it_goes_to_the_node_that_is_best_now() -> None:
    cluster = Cluster()
    cluster.node("best", cpu="8", pods=1)
    cluster.node("next", cpu="8")
    cluster.node("busy", cpu="8")
    cluster.pod("there", cpu="2", node="next")
    cluster.pod("leaving", cpu="4", node="busy")
    cluster.pod("a", cpu="1")
    cluster.pod("b", cpu="1")
    cluster.schedule()
    assert cluster.node_of("a") == "best", "and it is full now"
    cluster.delete("leaving")
    cluster.schedule()
    assert cluster.node_of("b") == "busy"
