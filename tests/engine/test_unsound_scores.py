"""A Score plugin whose score of a node that the pod does not fit on is out of range: what it costs the others."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.engine.attempt import ERROR
from scheduler.framework.plugin import Reads, Rows, ScorePlugin, Scores, State
from scheduler.messages.commands import BindPod
from tests.engine.driver import Cluster

NODES = 100


class Rating(ScorePlugin):
    """Scores by the node alone."""

    reads = Reads.NODE
    asked_about: ClassVar[int]
    """How many nodes it was asked about in all."""

    def fragment(self, pod: PodInfo, view: View) -> Hashable:
        return ()

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        scores = self.of(view)[rows]
        type(self).asked_about += len(scores)
        return scores

    def of(self, view: View) -> Scores:
        return np.full(view.table.size, 50, np.int64)


class Sound(Rating):
    name = "Sound"
    asked_about = 0


class Unsound(Rating):
    name = "Unsound"
    asked_about = 0
    excess: ClassVar[int] = 1000

    def of(self, view: View) -> Scores:
        scores = super().of(view)
        scores[0] = self.excess
        return scores


def cluster_with(excess: int) -> Cluster:
    """A cluster of which the node n0 is full, and pods of one class."""
    Sound.asked_about = Unsound.asked_about = 0
    Unsound.excess = excess
    cluster = Cluster(Sound, Unsound)
    for number in range(NODES):
        cluster.node(f"n{number}", cpu="4")
    cluster.pod("there", cpu="4", node="n0")
    for number in range(10):
        cluster.pod(f"p{number}", cpu="100m")
    return cluster


def test_the_other_plugins_answers_are_kept() -> None:
    cluster = cluster_with(1000)
    cluster.schedule_all()
    assert len(cluster.writes(BindPod)) == 10
    assert Sound.asked_about == NODES


def test_the_plugins_own_answers_are_kept_until_other_nodes_fit() -> None:
    cluster = cluster_with(1000)
    cluster.schedule_all()
    assert Unsound.asked_about <= 2 * NODES
    Unsound.excess = 0
    cluster.delete("there")
    for number in range(9):
        cluster.pod(f"q{number}", cpu="100m")
    cluster.schedule_all()
    assert len(cluster.writes(BindPod)) == 19
    assert Unsound.asked_about <= 3 * NODES


def test_the_score_is_an_error_once_a_pod_of_the_class_fits_there() -> None:
    cluster = cluster_with(-1)
    cluster.schedule_all()
    cluster.delete("there")
    cluster.pod("q", cpu="100m")
    cluster.schedule_all()
    assert cluster.attempt("q").result == ERROR
    assert "returns an invalid score -1" in cluster.attempt("q").message
