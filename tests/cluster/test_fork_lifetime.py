"""When a fork is gone, and what is kept while it lives."""

from __future__ import annotations

import gc
import weakref

from scheduler import testing
from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_counts import ALL_NAMESPACES
from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.kinds import Kind
from scheduler.testing.objects import pod
from tests.builders import service
from tests.cluster.cache_answers import EVERY_APP, WEB
from tests.engine.driver import Cluster


def small() -> ClusterCache:
    cache = ClusterCache()
    cache.observe_node(testing.node("n", taints=["a=b:NoSchedule"], zone="east"))
    cache.observe_pod(PodInfo(pod("p", node="n", labels={"app": "web"})))
    return cache


def test_a_fork_without_references_is_gone_at_once() -> None:
    """Without a collector of cycles: a fork that lingers would make every change of the live cluster dearer."""
    cache = small()
    gc.collect()
    gc.disable()
    try:
        fork = cache.fork()
        parts = [weakref.ref(part) for part in (fork, fork.table, fork.pod_counts._groups, fork.fork().table)]
        del fork
        assert [part() for part in parts] == [None] * len(parts)
    finally:
        gc.enable()


def test_an_attempt_on_a_fork_keeps_no_part_of_it_alive() -> None:
    """Not even what plugins keep from one attempt to the next."""
    cluster = Cluster()
    cluster.node("n", zone="east")
    cluster.show(service("s", {"app": "web"}))
    fork = cluster.engine.cache.fork()
    parts = [weakref.ref(part) for part in (fork, fork.table, fork.objects, fork.objects.all(Kind.SERVICE))]
    cluster.engine.preview(pod("p", labels={"app": "web"}), cluster.now, cluster=fork)
    del fork
    gc.collect()
    assert [part() for part in parts] == [None] * len(parts)


class CollectingRow(int):
    """The garbage collector runs whenever it likes: here whenever the row is looked up."""

    __slots__ = ()

    def __hash__(self) -> int:
        gc.collect()
        return int.__hash__(self)


def test_a_fork_may_be_collected_in_the_middle_of_a_change_of_the_table() -> None:
    table = small().table
    cycle: list[object] = [table.fork()]
    cycle.append(cycle)
    del cycle
    assert table.remove_pod(CollectingRow(0), "pod-p").name == "p"


def test_no_id_is_used_again_while_a_fork_lives() -> None:
    cache = small()
    fork = cache.fork()
    known = cache.table.vocabulary.taints
    for number in range(400):
        cache.observe_node(testing.node("n", taints=[f"a={number}:NoSchedule"], resource_version=str(number)))
    assert cache.table.vocabulary.taints is known
    assert len(known) > 400
    assert known.values[fork.table.taint_set[0]] == (("a", "b", "NoSchedule"),)
    del fork
    cache.observe_node(testing.node("n", taints=["a=last:NoSchedule"], resource_version="last"))
    assert len(cache.table.vocabulary.taints) <= 64


def test_a_query_of_a_fork_never_means_another_elsewhere() -> None:
    cache = small()
    fork = cache.fork()
    mine = fork.pod_counts.intern(ALL_NAMESPACES, WEB)
    assert mine != cache.pod_counts.intern(ALL_NAMESPACES, EVERY_APP)
    assert fork.pod_counts.counts(mine).tolist() == [1]
