"""The cost of a fork of the whole cluster, at 5,000 nodes, with few pods and with many."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_counts import ALL_NAMESPACES
from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.selector_fields import LabelSelector
from scheduler.objects.selectors import parse_selector
from scheduler.testing.objects import node, pod

NODES = 5_000
ROUNDS = 200
APPS = 300


def forks() -> dict[str, float]:
    """Microseconds of CPU, medians: to fork; to fork, place 100 pods there and drop it; to place a pod in the live
    cache with no fork, and the first one on a row while a fork lives."""
    found = {}
    for pods in (5_000, 50_000):
        cache = _cluster(pods)
        found[f"fork, {pods:,} pods"] = _median(cache.fork)
        found[f"fork of a fork, {pods:,} pods"] = _median(cache.fork().fork)
        found[f"fork and place 100, {pods:,} pods"] = _median(partial(_try_out, cache))
        found[f"place and remove, no fork, {pods:,} pods"] = _placing(cache)
        living = cache.fork()
        found[f"place and remove, a fork lives, {pods:,} pods"] = _placing(cache)
        assert len(living.pods) == pods
    return found


def _cluster(pods: int) -> ClusterCache:
    cache = ClusterCache()
    for number in range(NODES):
        cache.observe_node(node(f"node-{number:05}", cpu="32", memory="128Gi", pods=110, zone=f"zone-{number % 10}"))
    for number in range(pods):
        cache.observe_pod(_pod(f"p{number}", number))
    for app in range(100):
        selector = parse_selector(LabelSelector(match_labels={"app": f"app-{app}"}))
        cache.pod_counts.counts(cache.pod_counts.intern(ALL_NAMESPACES, selector))
    cache.table.label("kubernetes.io/hostname")
    cache.table.label("topology.kubernetes.io/zone")
    return cache


def _pod(name: str, number: int) -> PodInfo:
    labels = {"app": f"app-{number % APPS}"}
    return PodInfo(pod(name, node=f"node-{number % NODES:05}", labels=labels, cpu="100m", memory="200Mi"))


_NEW = [_pod(f"new-{number}", 37 * number) for number in range(ROUNDS)]


def _try_out(cache: ClusterCache) -> None:
    fork = cache.fork()
    for info in _NEW[:100]:
        fork.assume(info)


def _placing(cache: ClusterCache) -> float:
    infos = iter(_NEW)

    def place() -> None:
        info = next(infos)
        cache.observe_pod(info)
        cache.remove_pod(info.uid)

    return _median(place)


def _median(step: Callable[[], object]) -> float:
    spent = []
    for _ in range(ROUNDS):
        started = time.process_time_ns()
        step()
        spent.append(time.process_time_ns() - started)
    return statistics.median(spent) / 1e3
