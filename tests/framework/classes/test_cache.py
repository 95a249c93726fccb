from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Hashable
from typing import ClassVar, Unpack

import numpy as np

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.compose import build_profiles
from scheduler.config.loading import load
from scheduler.framework.class_run import ClassRun
from scheduler.framework.classes.cache import ClassCache, PodClass
from scheduler.framework.per_node import NodeView, PerNodeFilter, PerNodeScore
from scheduler.framework.plugin import PreScorePlugin, Reads, Rows, Scores, State
from scheduler.framework.profile import Profile
from scheduler.framework.shortcuts import ChangedRows, Fitting, GroupScores, GroupScoringPlugin
from scheduler.messages.status import Refusal
from scheduler.objects.kinds import Kind
from scheduler.objects.node import Node
from scheduler.plugins.registry import registry
from scheduler.testing.documents import PodFields
from scheduler.testing.fragments import affinity_json, pod_term, spread_json
from scheduler.testing.objects import node, pod
from tests.builders import service

PROFILE: Profile = next(iter(build_profiles(load(), registry()).values()))


def cluster(nodes: int) -> ClusterCache:
    cache = ClusterCache()
    for number in range(nodes):
        cache.observe_node(node(f"n{number}", cpu="4"))
    return cache


def find(
    classes: ClassCache, cache: ClusterCache, name: str, profile: Profile = PROFILE, **fields: Unpack[PodFields]
) -> PodClass:
    info = PodInfo(pod(name, **fields))
    pod_class, fragments = classes.find(profile, info, cache.view)
    run = ClassRun(info, fragments, cache.view, cache.journal)
    pod_class.filters.refresh_pre_filters(run)
    pod_class.filters.refresh_rows(run)
    pod_class.scores.refresh(run, pod_class.filters.first)
    return pod_class


class CountingItsStamps(PerNodeFilter, PerNodeScore):
    """Goes by the number of services."""

    name = "CountingItsStamps"
    reads = Reads.NODE
    asked: ClassVar[list[int]] = []

    def fragment(self, pod: PodInfo, view: View) -> Hashable:
        return ()

    def stamp(self, fragment: Hashable, view: View) -> Hashable:
        self.asked.append(view.version(Kind.SERVICE))
        return view.version(Kind.SERVICE)

    def filter_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> Refusal | None:
        return None

    def score_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> int:
        return len(node_view.view.all(Kind.SERVICE))


def test_a_plugin_that_filters_and_scores_is_asked_for_its_stamp_once_a_decision() -> None:
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: CountingItsStamps}]}}
"""
    profile = next(iter(build_profiles(load(text), registry((CountingItsStamps,))).values()))
    cache, classes = cluster(3), ClassCache()
    CountingItsStamps.asked.clear()
    for number in range(3):
        cache.observe_object(Kind.SERVICE, service(f"s{number}", {"app": "web"}))
        pod_class = find(classes, cache, f"p{number}", profile, cpu="1")
        assert pod_class.scores.shares_of(0)["CountingItsStamps"] == number + 1
    assert len(CountingItsStamps.asked) == 3


class Named(PerNodeScore):
    """Goes by the names of nodes, which never change: it reads nothing else of them, and no pods."""

    name = "Named"
    reads = Reads.NOTHING

    def fragment(self, pod: PodInfo, view: View) -> Hashable:
        return ()

    def score_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> int:
        return 10 * int(node.metadata.name[1:])


def test_a_new_node_is_scored_by_plugins_that_no_change_of_a_node_concerns() -> None:
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Named}], disabled: [{name: PodTopologySpread}, {name: ImageLocality}]}}
"""
    profile = next(iter(build_profiles(load(text), registry((Named,))).values()))
    cache, classes = cluster(3), ClassCache()
    find(classes, cache, "a", profile, cpu="1")
    for turn in range(6):
        # Rows change as new ones do: in their nodes, in their pods, and in whether the pod fits.
        cache.observe_node(node("n1", cpu="4", unschedulable=turn % 2 == 0))
        cache.observe_pod(PodInfo(pod(f"there-{turn}", cpu="100m", node="n2")))
        find(classes, cache, "a", profile, cpu="1")
    cache.observe_node(node("n3", cpu="4"))
    kept = find(classes, cache, "a", profile, cpu="1").scores
    fresh = find(ClassCache(), cache, "a", profile, cpu="1").scores
    assert kept.shares_of(3) == fresh.shares_of(3)
    assert kept.totals.tolist() == fresh.totals.tolist()


def test_pods_of_one_template_are_one_class() -> None:
    cache, classes = cluster(3), ClassCache()
    assert find(classes, cache, "a", cpu="1") is find(classes, cache, "b", cpu="1")
    assert find(classes, cache, "c", cpu="2") is not find(classes, cache, "d", cpu="1")


def test_a_cache_beside_another_has_no_class_with_a_key_of_that_one() -> None:
    cache, classes = cluster(3), ClassCache()
    apart = classes.apart()
    keys = [find(here, cache, f"p{cpu}", cpu=cpu).key for here in (classes, apart) for cpu in "12"]
    assert len(set(keys)) == 4


def test_the_class_used_longest_ago_leaves_where_the_columns_take_too_many_bytes() -> None:
    cache = cluster(100)
    one = find(ClassCache(), cache, "a", cpu="1")
    one.weigh()
    classes = ClassCache(limit_bytes=3 * one.nbytes, bytes_a_node=0)
    for cpu in range(1, 20):
        find(classes, cache, f"p{cpu}", cpu=f"{cpu * 10}m")
    assert 2 <= len(classes) <= 4


def test_a_large_cluster_has_room_for_as_many_classes_as_a_small_one() -> None:
    small, large = cluster(10), cluster(1_000)
    kept = []
    for cache in (small, large):
        classes = ClassCache(limit_bytes=8_000, limit_classes=20, bytes_a_node=10)
        for cpu in range(1, 30):
            find(classes, cache, f"p{cpu}", cpu=f"{cpu * 10}m")
        kept.append(len(classes))
    assert kept[0] == kept[1] >= 20


def test_classes_that_fit_everywhere_share_the_list_of_their_rows() -> None:
    cache, classes = cluster(3), ClassCache()
    cache.observe_node(node("large", cpu="8"))
    first, other, demanding = (find(classes, cache, f"p{cpu}", cpu=cpu) for cpu in "125")
    assert first.filters.feasible_rows is other.filters.feasible_rows
    assert first.filters.feasible_rows.tolist() == [0, 1, 2, 3]
    assert demanding.filters.feasible_rows.tolist() == [3]


def test_what_a_plugin_has_counted_by_node_is_part_of_the_size_of_the_class() -> None:
    cache, classes = cluster(100), ClassCache()
    plain = find(classes, cache, "a", cpu="1")
    spread = find(classes, cache, "b", cpu="1", spread=[spread_json("kubernetes.io/hostname", {}, soft=True)])
    assert spread.weigh() >= plain.weigh() + 100 * np.dtype(np.float64).itemsize


def test_scores_of_nodes_that_fit_are_normalised_again_when_another_is_full() -> None:
    cache, classes = cluster(1), ClassCache()
    spot, loud = "spot:PreferNoSchedule", "loud:PreferNoSchedule"
    cache.observe_node(node("n1", cpu="4", taints=[spot]))
    cache.observe_node(node("n2", cpu="4", taints=[spot, loud]))
    found = []
    for turn in range(3):
        scores = find(classes, cache, f"p{turn}", cpu="1").scores
        found.append([scores.shares_of(row)["TaintToleration"] for row in (0, 1)])
        if turn == 1:
            cache.observe_pod(PodInfo(pod("large", cpu="4", node="n2")))
    # The weight is 3.
    assert found == [[300, 150], [300, 150], [300, 0]]


def test_preferences_for_pods_in_a_zone_compare_the_zones_with_nodes_that_fit() -> None:
    cache, classes = ClusterCache(), ClassCache()
    for number, zone in enumerate("aabbcc"):
        cache.observe_node(node(f"n{number}", cpu="4", zone=zone))
    prefers = affinity_json(preferred=[(10, pod_term({"app": "web"}, "topology.kubernetes.io/zone"))])
    found = []
    there = [("web0", "n0", "100m"), ("web1", "n1", "100m"), ("web2", "n2", "100m"), ("x", "n0", "3"), ("y", "n1", "3")]
    for name, node_name, cpu in there:
        labels = {"app": "web"} if name.startswith("web") else {}
        cache.observe_pod(PodInfo(pod(name, cpu=cpu, labels=labels, node=node_name)))
        scores = find(classes, cache, f"p-{name}", cpu="1", affinity=prefers).scores
        found.append([scores.shares_of(row)["InterPodAffinity"] for row in (0, 2, 4)])
    # The weight is 2. In the end no node of the zone a fits.
    assert found[:-1] == [[200, 0, 0], [200, 0, 0], [200, 100, 0], [200, 100, 0]]
    assert found[-1][1:] == [200, 0]


def test_a_node_that_moves_to_another_zone_has_the_preference_for_the_pods_there() -> None:
    cache, classes = ClusterCache(), ClassCache()
    for number, zone in enumerate("aabb"):
        cache.observe_node(node(f"n{number}", cpu="4", zone=zone))
    prefers = affinity_json(preferred=[(10, pod_term({"app": "web"}, "topology.kubernetes.io/zone"))])
    found = []
    for turn in range(4):
        if turn < 3:
            cache.observe_pod(PodInfo(pod(f"web{turn}", labels={"app": "web"}, node="n0")))
        else:
            cache.observe_node(node("n3", cpu="4", zone="a"))
        scores = find(classes, cache, f"p{turn}", cpu="1", affinity=prefers).scores
        found.append(scores.shares_of(3)["InterPodAffinity"])
    assert found == [0, 0, 0, 200]


class ByRowsOrGroups(PreScorePlugin, GroupScoringPlugin):
    """Adds the number of services to the score of n1, and says so either by group or of that node alone."""

    name = "ByRowsOrGroups"
    reads = Reads.NODE
    by_group: ClassVar[bool] = False
    asked: ClassVar[list[list[int]]] = []

    def fragment(self, pod: PodInfo, view: View) -> Hashable:
        return ()

    def stamp(self, fragment: Hashable, view: View) -> Hashable:
        return view.version(Kind.SERVICE)

    def pre_score(self, pod: PodInfo, view: View, rows: Rows) -> State:
        return State()

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        found = self._scores(view)[rows]
        self.asked.append(np.arange(view.table.size)[rows].tolist())
        return found

    def normalize(self, state: State, scores: Scores, view: View, rows: Rows) -> Scores:
        return scores

    def score_by_group(
        self, before: State | GroupScores, pod: PodInfo, view: View, fitting: Fitting
    ) -> GroupScores | ChangedRows:
        if not self.by_group:
            return ChangedRows(State(), [1])
        groups = np.arange(view.table.size)
        members = fitting.members(groups, len(groups))
        return GroupScores(State(), groups, self._scores(view), members, fitting.version)

    def _scores(self, view: View) -> Scores:
        scores = np.arange(view.table.size)
        scores[1] += len(view.all(Kind.SERVICE))
        return scores


def test_rows_that_changed_are_asked_about_alone_where_scores_by_row_are_kept_and_all_of_them_where_none_are() -> None:
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: ByRowsOrGroups}]}}
"""
    profile = next(iter(build_profiles(load(text), registry((ByRowsOrGroups,))).values()))
    cache, classes = cluster(4), ClassCache()
    ByRowsOrGroups.asked.clear()
    for number, by_group in enumerate((False, False, True, False, False)):
        ByRowsOrGroups.by_group = by_group
        cache.observe_object(Kind.SERVICE, service(f"s{number}", {"app": "web"}))
        scores = find(classes, cache, f"p{number}", profile, cpu="1").scores
        assert [scores.shares_of(row)["ByRowsOrGroups"] for row in range(4)] == [0, 2 + number, 2, 3]
    assert ByRowsOrGroups.asked == [[0, 1, 2, 3], [1], [0, 1, 2, 3], [1]]


def test_no_template_is_kept_of_a_pod_like_no_other() -> None:
    cache, classes = cluster(3), ClassCache()
    claim = {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}
    for name in ("a", "b"):
        with_own_claim = pod(name, spec={"volumes": [{"name": "scratch", "ephemeral": claim}]})
        classes.find(PROFILE, PodInfo(with_own_claim), cache.view)
    assert len(classes._templates) == 0
    classes.find(PROFILE, PodInfo(pod("c")), cache.view)
    assert len(classes._templates) == 1


def test_templates_are_bounded_in_bytes_however_small_the_pods_are() -> None:
    """Of a StatefulSet each pod is a template of its own: 200 bytes of JSON, and ten times that in memory."""
    cache, classes = cluster(3), ClassCache(template_bytes=2**18, limit_classes=2)
    for number in range(100):
        find(classes, cache, f"p{number}", cpu="1", labels={"pod": f"p{number}"})
    gc.collect()
    tracemalloc.start()
    for number in range(100, 700):
        find(classes, cache, f"p{number}", cpu=f"{number}m", labels={"pod": f"p{number}"})
    gc.collect()
    full, _ = tracemalloc.get_traced_memory()
    classes.clear()
    gc.collect()
    empty, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 2**17 < full - empty < 2 * 2**18


def test_templates_are_bounded_in_bytes_however_large_the_pods_are() -> None:
    """Forty pods of 200 KiB each, no two alike, do not stay in memory when they are gone."""
    cache, classes = cluster(3), ClassCache(template_bytes=2**20)
    for number in range(40):
        find(classes, cache, f"p{number}", cpu="1", annotations={"note": f"{number}" + "x" * 200_000})
    assert len(classes._templates) <= 6
    kept = find(classes, cache, "p39", cpu="1", annotations={"note": "39" + "x" * 200_000})
    assert kept is find(classes, cache, "small", cpu="1"), "what no plugin reads makes no class"
