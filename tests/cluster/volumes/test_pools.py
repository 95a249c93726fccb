"""Finding the volume or the capacity that a node can use, against looking at each of them."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.volumes.pools import CapacityPool, VolumePool, reaches
from scheduler.objects.quantity import parse
from scheduler.objects.selectors import NOTHING, SelectorError, parse_selector
from scheduler.objects.storage import CSIStorageCapacity, PersistentVolume
from scheduler.testing.fragments import expression, node_term
from tests import builders

KEYS, VALUES = ("host", "zone"), ("a", "b", "c")

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
expressions = st.one_of(
    st.builds(
        lambda key, operator, values: f"{key} {operator} {','.join(values)}",
        st.sampled_from(KEYS),
        st.sampled_from(("In", "NotIn")),
        st.lists(st.sampled_from(VALUES), min_size=1, max_size=2),
    ),
    st.builds("{} {}".format, st.sampled_from(KEYS), st.sampled_from(("Exists", "DoesNotExist"))),
)
terms = st.lists(st.lists(expressions, min_size=1, max_size=2), max_size=2)


def _volume(name: str, size: int, affinity: list[list[str]], phase: str, claimed: bool) -> PersistentVolume:
    return builders.volume(
        name,
        size=f"{size}Gi",
        phase=phase,
        claimed_by={"namespace": "default", "name": "c", "uid": ""} if claimed else None,
        node_affinity=[node_term(*each) for each in affinity] or None,
    )


volumes = st.builds(
    _volume,
    st.sampled_from(("v1", "v2", "v3", "v4", "v5")),
    st.integers(1, 3),
    terms,
    st.sampled_from(("Available", "Available", "Released")),
    st.sampled_from((False, False, True)),
)


@given(st.lists(st.tuples(volumes, st.booleans()), max_size=12), labels, st.integers(0, 3), st.sets(st.just("v1")))
@settings(max_examples=150)
def test_the_smallest_volume_is_the_one_that_looking_at_each_would_find(
    changes: list[tuple[PersistentVolume, bool]], node: dict[str, str], size: int, taken: set[str]
) -> None:
    pool = VolumePool()
    kept: dict[str, PersistentVolume] = {}
    for volume, stays in changes:
        pool.put(volume)
        kept[volume.metadata.name] = volume
        if not stays:
            pool.drop(volume.metadata.name)
            del kept[volume.metadata.name]
    fitting = [
        (volume.storage_capacity, name)
        for name, volume in kept.items()
        if volume.spec.claim_ref is None
        and volume.status.phase == "Available"
        and volume.storage_capacity >= parse(f"{size}Gi")
        and name not in taken
        and reaches(volume, node)
    ]
    found = pool.smallest((parse(f"{size}Gi"), ""), node, taken, lambda _: True)
    assert (found.metadata.name if found is not None else None) == (min(fitting)[1] if fitting else None)
    aside = [volume.metadata.name for volume in pool.set_aside_for(builders.claim("c"))]
    assert aside == sorted(name for name, volume in kept.items() if volume.spec.claim_ref is not None)
    assert len(pool) == len(kept)


def test_a_volume_that_is_not_accepted_gives_way_to_the_next() -> None:
    pool = VolumePool()
    for name in ("a", "b"):
        pool.put(_volume(name, 1, [], "Available", False))
    found = pool.smallest((0, ""), {}, (), lambda volume: volume.metadata.name != "a")
    assert found is not None and found.metadata.name == "b"


def _capacity(name: str, limit: int | None, topology: Any) -> CSIStorageCapacity:
    return builders.csi_capacity(name, "s", topology=topology, capacity=f"{limit}Gi" if limit is not None else None)


topologies = st.one_of(
    st.none(),
    labels,
    st.builds(
        lambda each: {"matchExpressions": each},
        st.lists(expressions.map(expression), min_size=1, max_size=2),
    ),
    st.just({"matchExpressions": [{"key": "a", "operator": "Near"}]}),
)


@given(
    st.lists(st.builds(_capacity, st.sampled_from("xyz"), st.none() | st.integers(1, 3), topologies), max_size=8),
    labels,
    st.integers(1, 3),
)
@settings(max_examples=150)
def test_there_is_capacity_where_some_object_says_so(
    changes: list[CSIStorageCapacity], node: dict[str, str], size: int
) -> None:
    pool = CapacityPool()
    kept: dict[str, CSIStorageCapacity] = {}
    for capacity in changes:
        pool.put(capacity)
        kept[capacity.key] = capacity
    wanted = parse(f"{size}Gi")
    expected = any(each.limit is not None and each.limit >= wanted and _covers(each, node) for each in kept.values())
    assert pool.has(wanted, node) is expected


def _covers(capacity: CSIStorageCapacity, node: dict[str, str]) -> bool:
    try:
        selector = parse_selector(capacity.node_topology)
    except SelectorError:
        return False
    return selector != NOTHING and selector.matches(node)
