"""Where a decision compares a sample of the nodes, what it asks score plugins, and whose errors it meets."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import pytest

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.per_node import NodeView, PerNodeScore
from scheduler.framework.plugin import Reads, State
from scheduler.messages.commands import BindPod
from scheduler.objects.node import Node
from tests.engine.driver import Cluster


class Rating(PerNodeScore):
    """Reads a node's rating from its labels, and fails on what is no number."""

    name = "Rating"
    reads = Reads.NODE
    asked: ClassVar[list[str]] = []

    def fragment(self, pod: PodInfo, view: View) -> Hashable:
        return ()

    def score_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> int:
        self.asked.append(node.metadata.name)
        return int(node.metadata.labels.get("rating", "0"))


def _rated(nodes: int, **ratings: str) -> Cluster:
    """A sample is a hundred of the nodes, those after the ones of the sample before it."""
    Rating.asked.clear()
    weights = {"multiPoint": {"enabled": [{"name": "Rating", "weight": 100}]}}
    cluster = Cluster(Rating, profile={"percentageOfNodesToScore": 5, "plugins": weights})
    for number in range(nodes):
        name = f"n{number}"
        cluster.node(name, labels={"rating": ratings[name]} if name in ratings else {}, cpu="4")
    return cluster


def _messages(cluster: Cluster, *names: str) -> list[str]:
    for name in names:
        cluster.pod(name, cpu="1m")
    return [attempt.message if (attempt := cluster.schedule()) else "not tried" for _ in names]


@pytest.mark.parametrize(
    ("rating", "error"),
    [
        ("five", "invalid literal for int() with base 10: 'five'"),
        ("101", 'plugin "Rating" returns an invalid score 101, it should in the range of [0, 100] after normalizing'),
    ],
)
def test_what_a_plugin_gets_wrong_on_a_node_outside_of_the_sample_ends_no_attempt(rating: str, error: str) -> None:
    cluster = _rated(300, n150=rating)
    first, second, third, fourth = _messages(cluster, "a", "b", "c", "d")
    assert error in second
    assert (first, third, fourth) == ("", "", "")
    assert [bool(cluster.writes(BindPod, name)) for name in "abcd"] == [True, False, True, True]


def test_a_class_asks_about_its_first_sample_alone_then_about_all_nodes_and_then_about_those_that_changed() -> None:
    cluster = _rated(300)
    asked: list[set[str]] = []
    for name in ("a", "b", "c", "d"):
        cluster.pod(name, cpu="1m")
        cluster.schedule()
        asked.append(set(Rating.asked))
        Rating.asked.clear()
        if name == "c":
            cluster.node("n250", labels={"rating": "7"}, cpu="4")
    everywhere = {f"n{number}" for number in range(300)}
    assert asked == [{f"n{number}" for number in range(100)}, everywhere, set(), {"n250"}]


def test_the_best_node_of_each_sample_is_taken_whatever_changed_outside_of_it() -> None:
    cluster = _rated(300, n20="9", n120="9", n220="9")
    chosen: list[str] = []
    for number, name in enumerate("abcdef"):
        cluster.pod(name, cpu="1m")
        cluster.schedule()
        chosen.append(cluster.node_of(name))
        better = (number * 100 + 150) % 300
        cluster.node(f"n{better}", labels={"rating": f"{20 + number}"}, cpu="4")
    assert chosen == ["n20", "n150", "n250", "n50", "n150", "n250"]
