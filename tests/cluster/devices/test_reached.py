"""What nodes can reach: kept and shared answers are those of a cluster that is looked at for the first time."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.devices.pools import Pool, PoolState
from scheduler.objects.devices import ResourceSlice
from scheduler.objects.kinds import Kind, decode, decode_as
from scheduler.testing.objects import node
from tests.cluster.devices.test_facts import held, row, show
from tests.device_documents import gpu, resource_slice

NODES = ("n0", "n1", "n2")
ON_GPU_NODES = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}
PLACES: tuple[dict[str, Any], ...] = (
    *[{"nodeName": name} for name in NODES],
    {"nodeName": None, "allNodes": True},
    {"nodeName": None, "nodeSelector": ON_GPU_NODES},
    {"nodeName": None, "perDeviceNodeSelection": True},
)


def a_cluster() -> ClusterCache:
    cache = ClusterCache()
    for name in NODES:
        cache.observe_node(node(name, labels={"gpu": "yes"} if name != "n2" else {}))
    return cache


@st.composite
def slices(draw: st.DrawFn) -> dict[str, Any]:
    """One of few names, so that many are replaced; few pools, so that many have several slices."""
    name, pool = draw(st.sampled_from("abcd")), draw(st.sampled_from(("p", "q")))
    where: dict[str, Any] = dict(draw(st.sampled_from(PLACES)))
    count = draw(st.integers(0, 2))
    places: list[dict[str, Any]] = [{"nodeName": "n0"}, {"allNodes": True}, {"nodeSelector": ON_GPU_NODES}]
    devices = [
        gpu(f"{name}-{number}", **(draw(st.sampled_from(places)) if "perDeviceNodeSelection" in where else {}))
        for number in range(count)
    ]
    has_counters, consumes = draw(st.tuples(st.booleans(), st.booleans()))
    if has_counters:
        # The API server admits no slice with both.
        devices = []
        where["sharedCounters"] = [{"name": f"set-{draw(st.integers(0, 1))}", "counters": {"memory": {"value": "2"}}}]
    elif devices and consumes:
        consumed = [{"counterSet": "set-0", "counters": {"memory": {"value": "1"}}}]
        devices = [{**one, "consumesCounters": consumed} for one in devices]
    where["pool"] = {"name": pool, "generation": draw(st.integers(1, 2)), "resourceSliceCount": draw(st.integers(1, 3))}
    made = resource_slice("", *devices, name=name)
    made["spec"] |= where
    return made


@st.composite
def claims(draw: st.DrawFn) -> dict[str, Any]:
    """A claim that holds a device of its own, whether there is such a device or not."""
    name = draw(st.sampled_from("abcd"))
    return held(name, draw(st.sampled_from(("p", "q"))), f"{name}-0")


Change = tuple[Kind, dict[str, Any], bool]
CHANGES = st.tuples(st.just(Kind.RESOURCE_SLICE), slices(), st.booleans()) | st.tuples(
    st.just(Kind.RESOURCE_CLAIM), claims(), st.booleans()
)


def apply(cache: ClusterCache, change: Change) -> None:
    kind, document, is_there = change
    if is_there:
        show(cache, kind, document)
    else:
        cache.remove_object(kind, decode(kind, msgspec.json.encode(document)).key)


def as_values(pools: tuple[Pool, ...]) -> list[Any]:
    return [
        (
            (pool.key, pool.state, pool.fault, pool.counter_sets),
            [(one.device.id, one.is_reachable) for one in pool.devices],
            [part.name for part in pool.parts],
            sorted(device.id for device in pool.consumers),
        )
        for pool in pools
    ]


def alike(cache: ClusterCache) -> set[frozenset[str]]:
    """Nodes whose devices look alike, together."""
    found: dict[int, set[str]] = defaultdict(set)
    cache.devices.looks.forget_if_crowded()
    for name in NODES:
        found[cache.devices.signature(row(cache, name))].add(name)
    return set(map(frozenset, found.values()))


@settings(max_examples=150)
@given(st.lists(CHANGES, max_size=12), st.booleans())
def test_kept_answers_are_those_of_a_first_look(changes: list[Change], asks_in_between: bool) -> None:
    cache = a_cluster()
    for number, change in enumerate(changes):
        apply(cache, change)
        if asks_in_between and number < len(changes) - 1:
            alike(cache)
    fresh = a_cluster()
    for kind in (Kind.RESOURCE_SLICE, Kind.RESOURCE_CLAIM):
        for one in cache.objects.all(kind).values():
            fresh.observe_object(kind, one)
    fork = cache.fork()
    for name in NODES:
        wanted = as_values(fresh.devices.pools(row(fresh, name)))
        assert as_values(cache.devices.pools(row(cache, name))) == wanted
        assert as_values(fork.devices.pools(row(fork, name))) == wanted
    assert alike(cache) == alike(fork) == alike(fresh)


def test_a_faulty_pool_is_seen_from_afar_without_the_devices_that_take_from_its_counters() -> None:
    counters = resource_slice("n0", pool="p", name="b")
    counters["spec"] |= {
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 3},
        "sharedCounters": [{"name": "set-0", "counters": {"memory": {"value": "2"}}}],
    }
    consumed = [{"counterSet": "set-0", "counters": {"memory": {"value": "1"}}}]
    consumer = resource_slice("n0", {**gpu("a-0"), "consumesCounters": consumed}, pool="p", name="a")
    for asks_in_between in (False, True):
        cache = a_cluster()
        show(cache, Kind.RESOURCE_SLICE, counters)
        if asks_in_between:
            cache.devices.pools(row(cache, "n1"))
        show(cache, Kind.RESOURCE_SLICE, consumer)
        (pool,) = cache.devices.pools(row(cache, "n1"))
        assert (pool.key[1], pool.state, pool.consumers) == ("p", PoolState.INCOMPLETE, ())


def test_the_counters_of_a_faulty_pool_that_move_to_another_node_are_of_the_node_before_no_more() -> None:
    cache = a_cluster()
    for name in ("n0", "n1"):
        counters = resource_slice(name, pool="p", name="b")
        counters["spec"] |= {
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 2},
            "sharedCounters": [{"name": "set-0", "counters": {"memory": {"value": "2"}}}],
        }
        show(cache, Kind.RESOURCE_SLICE, counters)
        others = frozenset(NODES) - {name}
        assert alike(cache) == {frozenset({name}), others}


def on_all_nodes(number: int, devices: int = 2) -> dict[str, Any]:
    made = resource_slice("", *[gpu(f"gpu-{one}") for one in range(devices)], pool=f"p{number}", name=f"s{number}")
    made["spec"] |= {"nodeName": None, "allNodes": True}
    return made


def test_nodes_that_reach_the_same_slices_share_one_answer() -> None:
    cache = a_cluster()
    for number in range(3):
        show(cache, Kind.RESOURCE_SLICE, on_all_nodes(number))
    first, second, third = [cache.devices.pools(row(cache, name)) for name in NODES]
    assert first is second is third
    show(cache, Kind.RESOURCE_SLICE, resource_slice("n0", gpu("gpu-0")))
    first, second, third = [cache.devices.pools(row(cache, name)) for name in NODES]
    assert second is third
    assert [pool.key[1] for pool in first] == ["n0", "p0", "p1", "p2"]
    assert all(any(pool is other for other in second) for pool in first[1:])


def test_a_device_of_one_nodes_slice_of_a_pool_concerns_no_other_node() -> None:
    cache = a_cluster()
    for name in NODES:
        made = resource_slice(name, gpu(f"gpu-of-{name}"), pool="p")
        made["spec"]["pool"]["resourceSliceCount"] = len(NODES)
        show(cache, Kind.RESOURCE_SLICE, made)
    looks, versions = [cache.devices.signature(row(cache, name)) for name in NODES], cache.devices.row_versions().copy()
    show(cache, Kind.RESOURCE_CLAIM, held("c", "p", "gpu-of-n1"))
    changed = cache.devices.row_versions() != versions
    assert [bool(changed[row(cache, name)]) for name in NODES] == [False, True, False]
    assert [cache.devices.signature(row(cache, name)) != look for name, look in zip(NODES, looks, strict=True)] == [
        False,
        True,
        False,
    ]


def test_a_pool_that_comes_slice_by_slice_touches_its_nodes_once() -> None:
    cache = a_cluster()
    slices = []
    for name in NODES:
        made = resource_slice(name, gpu(f"gpu-of-{name}"), pool="p")
        made["spec"]["pool"]["resourceSliceCount"] = len(NODES)
        slices.append(decode_as(ResourceSlice, msgspec.json.encode(made)))
        show(cache, Kind.RESOURCE_SLICE, made)
    before = cache.devices.row_versions().copy()
    for _ in range(100):
        cache.remove_object(Kind.RESOURCE_SLICE, slices[0].key)
        cache.observe_object(Kind.RESOURCE_SLICE, slices[0])
    grown = cache.devices.row_versions() - before
    assert [int(grown[row(cache, name)]) for name in NODES[1:]] == [1, 1]


def test_of_pools_that_came_and_went_while_nothing_asked_nothing_is_left() -> None:
    cache = a_cluster()
    for number in range(20):
        pool = {"name": f"p{number}", "generation": 1, "resourceSliceCount": 2}
        for name in ("n0", "n1"):
            made = resource_slice(name, gpu("gpu-0"), name=f"{name}-{number}")
            made["spec"]["pool"] = pool
            show(cache, Kind.RESOURCE_SLICE, made)
        for name in ("n0", "n1"):
            cache.remove_object(Kind.RESOURCE_SLICE, f"{name}-{number}")
    assert not cache.devices._reached._touched
    assert cache.devices.pools(row(cache, "n0")) == ()
