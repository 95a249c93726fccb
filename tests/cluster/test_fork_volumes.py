"""Volumes on a fork and on the cache below it."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from scheduler import testing
from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.cluster.volumes.ranked import Wish
from scheduler.cluster.volumes.reserved import Release, Reservation, StaticBinding
from scheduler.objects.kinds import Kind
from scheduler.objects.quantity import parse
from scheduler.objects.storage import PersistentVolumeClaim
from scheduler.testing.fragments import node_term
from scheduler.testing.objects import pod
from tests import builders
from tests.cluster.cache_answers import GOLD


def with_volumes() -> ClusterCache:
    """Two nodes, each with a volume of 1Gi that only it reaches, and with room for one more to be made."""
    cache = ClusterCache()
    for number in range(2):
        node = testing.node(f"n{number}", labels={"host": f"h{number}"})
        cache.observe_node(node)
        affinity = [node_term(f"host In h{number}")]
        volume = builders.volume(f"v{number}", storage_class="fast", node_affinity=affinity, labels={"tier": "gold"})
        cache.observe_object(Kind.PERSISTENT_VOLUME, volume)
        capacity = builders.csi_capacity(f"k{number}", "fast", topology={"host": f"h{number}"}, capacity="1Gi")
        cache.observe_object(Kind.CSI_STORAGE_CAPACITY, capacity)
    cache.observe_object(Kind.PERSISTENT_VOLUME_CLAIM, builders.claim("c", storage_class="fast"))
    cache.observe_pod(PodInfo(pod("user", node="n0", claims=["c"])))
    return cache


def ranks(cache: ClusterCache) -> list[bool]:
    """Whether each row has a volume to offer. Asked twice, since answers are kept."""
    pool = cache.volumes.pool("fast")

    def ask(table: NodeTable) -> list[bool]:
        (found,) = pool.given(table, [Wish(pool.ranks(parse("1Gi"), GOLD, lambda _: True))])
        return [bool(rank != np.iinfo(np.int64).max) for rank in found]

    assert ask(cache.table) == ask(cache.table)
    return ask(cache.table)


def has_room(cache: ClusterCache) -> list[bool]:
    found: list[bool] = cache.volumes.capacity("fast").rows_with(cache.table, parse("1Gi")).tolist()
    return found


def reserve_first(cache: ClusterCache) -> None:
    claim = cache.objects.find(PersistentVolumeClaim, "default/c")
    assert claim is not None
    taken = builders.volume(
        "v0", storage_class="fast", claimed_by={"namespace": "default", "name": "c", "uid": claim.metadata.uid}
    )
    cache.apply(Reservation("pod-user", "n0", (StaticBinding(taken, claim, is_changed=True),), ()))


@pytest.mark.parametrize("is_fork_first", [True, False])
def test_a_volume_that_one_side_sets_aside_is_free_on_the_other(is_fork_first: bool) -> None:
    cache = with_volumes()
    assert ranks(cache) == [True, True]
    fork = cache.fork()
    assert ranks(fork) == [True, True]
    one, other = (fork, cache) if is_fork_first else (cache, fork)
    reserve_first(one)
    assert (ranks(one), ranks(other)) == ([False, True], [True, True])
    other.remove_object(Kind.PERSISTENT_VOLUME, "v1")
    assert (ranks(one), ranks(other)) == ([False, True], [True, False])
    one.apply(Release("pod-user"))
    assert (ranks(one), ranks(other)) == ([True, True], [True, False])


@pytest.mark.parametrize("is_fork_first", [True, False])
def test_capacity_and_labels_of_one_side_say_nothing_of_the_other(is_fork_first: bool) -> None:
    cache = with_volumes()
    assert has_room(cache) == [True, True]
    fork = cache.fork()
    one, other = (fork, cache) if is_fork_first else (cache, fork)
    one.remove_object(Kind.CSI_STORAGE_CAPACITY, "default/k0")
    assert (has_room(one), has_room(other)) == ([False, True], [True, True])
    other.observe_node(testing.node("n1", labels={"host": "elsewhere"}, resource_version="2"))
    assert (has_room(one), has_room(other)) == ([False, True], [True, False])
    assert (ranks(one), ranks(other)) == ([True, True], [True, False])


def test_a_fork_that_asked_for_volumes_is_gone_at_once() -> None:
    """What is kept of an answer is shared with the parent, and must not hold the fork."""
    cache = with_volumes()
    gc.collect()
    gc.disable()
    try:
        fork = cache.fork()
        assert ranks(fork) == has_room(fork) == [True, True]
        table = weakref.ref(fork.table)
        del fork
        assert table() is None
    finally:
        gc.enable()


def test_volumes_that_change_beside_one_fork_after_the_other_leave_no_layers_behind() -> None:
    """Each copy would otherwise stand on the one before, for as long as the live cluster is up."""
    cache = with_volumes()
    maps = []
    for _ in range(3):
        fork = cache.fork()
        reserve_first(cache)
        cache.apply(Release("pod-user"))
        maps.append(weakref.ref(fork.volumes.pool("fast")._labels._columns._rows_of))
        del fork
    gc.collect()
    assert [each() for each in maps] == [None] * 3
    assert ranks(cache) == [True, True]
