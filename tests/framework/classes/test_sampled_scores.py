"""What is kept for samples of nodes, against what is worked out for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.compose import build_profiles
from scheduler.config.loading import load
from scheduler.framework.class_run import ClassRun
from scheduler.framework.classes.cache import ClassCache
from scheduler.framework.profile import Profile
from scheduler.plugins.registry import registry
from scheduler.testing.fragments import spread_json
from scheduler.testing.objects import node, pod

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
