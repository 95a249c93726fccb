"""What is kept for samples of nodes, against what is worked out for all of them."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.compose import build_profiles
from scheduler.config.loading import load
from scheduler.framework.class_run import ClassRun
from scheduler.framework.classes.cache import ClassCache
from scheduler.framework.plugin import PreScorePlugin, Reads, Rows, ScorePlugin, Scores, State
from scheduler.framework.profile import Profile
from scheduler.framework.shortcuts import Fitting, GroupScores, GroupScoringPlugin
from scheduler.messages.status import SKIP, Skip
from scheduler.objects.kinds import Kind
from scheduler.plugins.registry import registry
from scheduler.testing.fragments import affinity_json, pod_term, spread_json
from scheduler.testing.objects import node, pod
from tests.builders import service

WEIGHTED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    score:
      disabled: [{name: NodeResourcesFit}]
      enabled: [{name: NodeResourcesFit, weight: 2}]
"""
"""A share of NodeResourcesFit is at most 200, which a byte holds, and with another plugin's the sum is more."""
PROFILE: Profile = next(iter(build_profiles(load(WEIGHTED), registry()).values()))

LIGHT = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: TaintToleration, weight: 1}]
"""
"""Each share that is the same for all nodes is a number of at most 256, of which Python has one object each."""


class ByServices(ScorePlugin):
    """Goes by the number of services, which its stamp alone tells of."""

    name = "ByServices"
    reads = Reads.NODE

    def fragment(self, pod: PodInfo, view: View) -> Hashable:
        return ()

    def stamp(self, fragment: Hashable, view: View) -> Hashable:
        return view.version(Kind.SERVICE)

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        return np.arange(view.table.size)[rows] * len(view.all(Kind.SERVICE)) % 101


class Declining(PreScorePlugin, ScorePlugin):
    """Skips each pod, and so is never to be asked for scores."""

    name = "Declining"
    reads = Reads.NODE
    asked: ClassVar[int] = 0

    def fragment(self, pod: PodInfo, view: View) -> Hashable:
        return ()

    def pre_score(self, pod: PodInfo, view: View, rows: Rows) -> Skip:
        return SKIP

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        type(self).asked += 1
        return np.zeros(view.table.size, np.int64)[rows]


class Crowding(PreScorePlugin, GroupScoringPlugin):
    """Scores nodes by group, by what fits, once there is a service; it skips as long as there is none."""

    name = "Crowding"
    reads = Reads.FEASIBLE

    def fragment(self, pod: PodInfo, view: View) -> Hashable:
        return ()

    def stamp(self, fragment: Hashable, view: View) -> Hashable:
        return view.version(Kind.SERVICE)

    def pre_score(self, pod: PodInfo, view: View, rows: Rows) -> State | Skip:
        return State() if view.all(Kind.SERVICE) else SKIP

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        return self._groups(view)[rows]

    def normalize(self, state: State, scores: Scores, view: View, rows: Rows) -> Scores:
        return scores * 40 + len(view.all(Kind.SERVICE))

    def score_by_group(self, before: State | GroupScores, pod: PodInfo, view: View, fitting: Fitting) -> GroupScores:
        groups = self._groups(view)
        members = fitting.members(groups, 3)
        finals = self.normalize(State(), np.arange(3), view, view.rows) * (members > 0)
        return GroupScores(State(), groups, finals, members, fitting.version)

    def _groups(self, view: View) -> Scores:
        return np.arange(view.table.size) % 3


def with_plugin(plugin: type[ScorePlugin]) -> Profile:
    text = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {{multiPoint: {{enabled: [{{name: {plugin.name}}}]}}}}
"""
    return next(iter(build_profiles(load(text), registry((plugin,))).values()))


def nodes(count: int) -> ClusterCache:
    cache = ClusterCache()
    for number in range(count):
        cache.observe_node(node(f"n{number}", cpu="64", memory="64Gi"))
    return cache


def compared(
    classes: ClassCache, cache: ClusterCache, profile: Profile = PROFILE, **fields: Any
) -> tuple[list[int], list[int]]:
    """The totals of every other node by what is kept for samples, and by what is kept for all nodes. ``fields``: of
    the pod."""
    rows = np.arange(1, cache.table.size, 2)
    info = PodInfo(pod("asking", cpu="1", **fields))
    pod_class, fragments = classes.find(profile, info, cache.view)
    run = ClassRun(info, fragments, cache.view, cache.journal)
    filters = pod_class.filters
    filters.refresh_pre_filters(run)
    filters.refresh_rows(run)
    pod_class.scores.refresh(run, filters.first)
    sampled = pod_class.sampled_scores.totals(run, filters.first, rows)
    return sampled.tolist(), pod_class.scores.rank(run, rows)[0].tolist()


def test_sums_are_kept_true_where_pods_come_to_many_nodes_between_two_samples() -> None:
    cache, classes = ClusterCache(), ClassCache()
    for number in range(100):
        cache.observe_node(node(f"n{number}", cpu="64", memory="64Gi"))
    for turn in range(4):
        sampled, all_nodes = compared(classes, cache)
        assert sampled == all_nodes
        assert max(sampled) > 255
        for number in range(40):
            name = f"p{turn}-{number}"
            cache.observe_pod(PodInfo(pod(name, cpu="1", memory=f"{1 + number % 3}Gi", node=f"n{number}")))


def test_samples_have_the_scores_of_nodes_that_came_since() -> None:
    cache, classes = ClusterCache(), ClassCache()
    for number in range(100):
        cache.observe_node(node(f"n{number}", cpu=str(8 + number % 5), memory="64Gi"))
        # The last ones come one by one between decisions.
        if number >= 95:
            sampled, all_nodes = compared(classes, cache)
            assert sampled == all_nodes
    cache.observe_node(node("n0", cpu="32", memory="64Gi"))
    sampled, all_nodes = compared(classes, cache)
    assert sampled == all_nodes


def test_samples_have_the_scores_of_many_nodes_that_came_at_once() -> None:
    cache, classes = ClusterCache(), ClassCache()
    light = next(iter(build_profiles(load(LIGHT), registry()).values()))
    zone = spread_json("topology.kubernetes.io/zone", {"app": "web"}, soft=True)
    for count in (10, 41):
        for number in range(cache.table.size, count):
            cache.observe_node(node(f"n{number}", zone="east"))
        for _ in range(3):
            sampled, all_nodes = compared(classes, cache, light, labels={"app": "web"}, spread=[zone])
            assert sampled == all_nodes


def test_samples_have_the_scores_of_a_stamp_that_changes_while_no_node_does() -> None:
    cache, classes, profile = nodes(9), ClassCache(), with_plugin(ByServices)
    found: list[list[int]] = []
    for number in range(4):
        sampled, all_nodes = compared(classes, cache, profile)
        assert sampled == all_nodes
        found.append(sampled)
        cache.observe_object(Kind.SERVICE, service(f"s{number}", {"app": "web"}))
    assert all(before != after for before, after in pairwise(found))


def test_a_plugin_that_skips_is_not_asked_about_nodes_that_change() -> None:
    cache, classes, profile = nodes(9), ClassCache(), with_plugin(Declining)
    Declining.asked = 0
    for turn in range(4):
        sampled, all_nodes = compared(classes, cache, profile)
        assert sampled == all_nodes
        cache.observe_node(node("n1", cpu=str(turn + 8), memory="64Gi"))
    assert Declining.asked == 0


def test_samples_of_nodes_that_score_differently_are_normalised_node_by_node() -> None:
    cache, classes = nodes(9), ClassCache()
    cache.observe_node(node("n3", cpu="64", memory="64Gi", taints=["spot:PreferNoSchedule"]))
    for _ in range(3):
        sampled, all_nodes = compared(classes, cache)
        assert sampled == all_nodes
        assert len(set(sampled)) == 2


def test_samples_have_the_scores_of_single_nodes_that_preferred_pods_came_to() -> None:
    cache, classes = nodes(9), ClassCache()
    prefers = affinity_json(preferred=[(10, pod_term({"app": "web"}))])
    for number in range(1, 9):
        cache.observe_pod(PodInfo(pod(f"web{number}", labels={"app": "web"}, node=f"n{number}")))
        sampled, all_nodes = compared(classes, cache, affinity=prefers)
        assert sampled == all_nodes
        assert len(set(sampled)) == (2 if number < 7 else 1)


def test_a_plugin_that_compares_nodes_is_asked_again_when_it_may_no_longer_skip() -> None:
    cache, classes, profile = nodes(9), ClassCache(), with_plugin(Crowding)
    found: list[list[int]] = []
    for number in range(5):
        sampled, all_nodes = compared(classes, cache, profile)
        assert sampled == all_nodes
        found.append(sampled)
        if number % 2:
            cache.observe_object(Kind.SERVICE, service(f"s{number}", {"app": "web"}))
    assert found[0] == found[1] != found[2] == found[3] != found[4]
