"""What every row gets out of a pool at once, against asking for one node's labels after the other."""

from __future__ import annotations

from functools import partial

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import testing
from scheduler.cluster.table import NodeTable
from scheduler.cluster.volumes.pools import CapacityPool, VolumePool
from scheduler.cluster.volumes.ranked import RankedThings, SlotLabels, Wish
from scheduler.cluster.volumes.reach import NO_RANK, Reach
from scheduler.objects.quantity import parse
from scheduler.objects.requirements import Operator, Requirement
from scheduler.objects.selectors import EVERYTHING, Selector
from scheduler.objects.storage import PersistentVolume
from scheduler.testing.fragments import node_term
from tests import builders

KEYS = ("host", "zone", "rack", "size")
_labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(("a", "b", "c", "1", "7")))
_expressions = st.one_of(
    st.builds(
        lambda key, operator, values: f"{key} {operator} {','.join(values)}",
        st.sampled_from(KEYS),
        st.sampled_from(("In", "In", "NotIn")),
        st.lists(st.sampled_from(("a", "b", "c", "7")), min_size=1, max_size=3),
    ),
    st.builds("{} {}".format, st.sampled_from(KEYS), st.sampled_from(("Exists", "DoesNotExist"))),
    st.sampled_from(("size Gt 3", "size Lt 3", "zone Gt 0")),
)
_affinity = st.lists(st.lists(_expressions, min_size=1, max_size=5), max_size=3)
_tables = st.lists(_labels, min_size=1, max_size=6)


def table_of(nodes: list[dict[str, str]]) -> NodeTable:
    table = NodeTable()
    for number, labels in enumerate(nodes):
        table.put_node(testing.node(f"n{number}", labels=labels))
    return table


def labels_of(table: NodeTable, row: int) -> dict[str, str]:
    node = table.nodes[row]
    assert node is not None
    return dict(node.metadata.labels)


def _volume(name: str, size: int, affinity: list[list[str]], disk: str) -> PersistentVolume:
    return builders.volume(
        name,
        size=f"{size}Gi",
        labels={"disk": disk},
        node_affinity=[node_term(*each) for each in affinity] or None,
    )


_volumes = st.builds(
    _volume, st.sampled_from([f"v{n}" for n in range(7)]), st.integers(1, 3), _affinity, st.sampled_from("xy")
)
_selectors = st.sampled_from(
    (EVERYTHING, Selector((Requirement("disk", Operator.IN, ("x",)),)), Selector((Requirement("no", Operator.ABSENT),)))
)


@settings(max_examples=200)
@given(
    _tables,
    st.lists(st.tuples(_volumes, st.booleans()), max_size=14),
    st.lists(st.tuples(st.integers(0, 3), _selectors), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 5), _labels), max_size=2),
)
def test_claims_get_on_every_row_what_they_get_one_after_the_other(
    nodes: list[dict[str, str]],
    changes: list[tuple[PersistentVolume, bool]],
    claims: list[tuple[int, Selector]],
    relabelled: list[tuple[int, dict[str, str]]],
) -> None:
    table = table_of(nodes)
    pool = VolumePool()
    for number, (volume, stays) in enumerate(changes):
        pool.put(volume)
        if not stays:
            pool.drop(volume.metadata.name)
        if number == len(changes) // 2:
            agree(table, pool, claims)
    for number, labels in relabelled:
        table.put_node(testing.node(f"n{number}", labels=labels))
    agree(table, pool, claims)


def _is_matched(selector: Selector, volume: PersistentVolume) -> bool:
    return selector.matches(volume.metadata.labels)


def agree(table: NodeTable, pool: VolumePool, claims: list[tuple[int, Selector]]) -> None:
    sizes = [parse(f"{gigabytes}Gi") for gigabytes, _ in claims]
    wishes = [
        Wish(pool.ranks(size, selector, lambda volume: True), rows)
        for size, (_, selector), rows in zip(sizes, claims, _rows_chosen(table, len(claims)), strict=True)
    ]
    given_away: list[set[str]] = [set() for _ in range(table.size)]
    for size, (_, selector), wish, ranks in zip(sizes, claims, wishes, pool.given(table, wishes), strict=True):
        names: dict[int, str] = {}
        for row in range(table.size):
            if wish.rows is not None and not wish.rows[row]:
                assert ranks[row] == NO_RANK
                continue
            found = pool.smallest((size, ""), labels_of(table, row), given_away[row], partial(_is_matched, selector))
            assert (found is None) == (ranks[row] == NO_RANK)
            if found is not None:
                given_away[row].add(found.metadata.name)
                # A rank stands for one volume, whatever the row.
                assert names.setdefault(int(ranks[row]), found.metadata.name) == found.metadata.name
        assert len(set(names.values())) == len(names)


def _rows_chosen(table: NodeTable, count: int) -> list[np.ndarray | None]:
    """Some claims choose on every other row only, or every third."""
    numbers = np.arange(table.size)
    return [None if claim % 3 == 0 else numbers % (claim % 3 + 1) == 0 for claim in range(count)]


@settings(max_examples=150)
@given(_tables, st.lists(st.tuples(st.sampled_from("xyz"), st.integers(1, 3), _labels, st.booleans()), max_size=8))
def test_rows_have_capacity_where_their_labels_have(
    nodes: list[dict[str, str]], changes: list[tuple[str, int, dict[str, str], bool]]
) -> None:
    table = table_of(nodes)
    pool = CapacityPool()
    for name, limit, topology, stays in changes:
        capacity = builders.csi_capacity(name, "s", topology=topology, capacity=f"{limit}Gi")
        pool.put(capacity)
        if not stays:
            pool.drop(capacity.key)
        for gigabytes in (1, 2, 3):
            size = parse(f"{gigabytes}Gi")
            expected = [pool.has(size, labels_of(table, row)) for row in range(table.size)]
            assert pool.rows_with(table, size).tolist() == expected


def test_places_that_nothing_names_any_more_are_forgotten() -> None:
    table = table_of([{"host": f"h{number}"} for number in range(3)])
    reach = Reach()

    def at(host: str) -> list[tuple[Requirement, ...]]:
        return [(Requirement("host", Operator.IN, (host,)),), (Requirement("host", Operator.IN, ("h0",)),)]

    reach.put(1, at("h2"))
    for number in range(5_000):
        reach.put(2, at(f"other-{number}"))
        reach.drop(2)
    ranks = np.array([NO_RANK, 7], np.int64)
    assert reach.least(table, ranks).tolist() == [7, NO_RANK, 7]
    reach.drop(1)
    assert reach.least(table, ranks).tolist() == [NO_RANK] * 3


def test_sizes_of_any_magnitude_are_distinguished() -> None:
    things = RankedThings()
    for name, size in (("large", 10**30 + 1), ("larger", 10**30 + 2), ("small", 1)):
        things.put(name, size, [()])
    ranks = things.ranks(10**30 + 2)
    assert [things.names[slot] for slot in np.flatnonzero(ranks != NO_RANK)] == ["larger"]


def test_what_each_wish_gets_does_not_depend_on_how_many_rows_are_looked_at_together() -> None:
    table = table_of([{"host": f"h{number % 3}"} for number in range(7)])
    things = RankedThings()
    for number in range(6):
        things.put(f"t{number}", 1, [(Requirement("host", Operator.IN, (f"h{number % 2}",)),)])
    wishes = [Wish(things.ranks(1))] * 4
    together = [column.tolist() for column in things.given(table, wishes)]
    assert [column.tolist() for column in things.given(table, wishes, max_pairs=1)] == together
    assert [column[:3] for column in together] == [[0, 1, NO_RANK], [2, 3, NO_RANK], [4, 5, NO_RANK], [NO_RANK] * 3]


def test_labels_of_slots_that_are_used_again_are_the_new_ones() -> None:
    labels = SlotLabels()
    labels.put(1, {"disk": "x"})
    labels.put(2, {"disk": "y"})
    wanted = Selector((Requirement("disk", Operator.IN, ("x",)),))
    slots = np.array([1, 2], np.int64)
    assert labels.matching(wanted, slots).tolist() == [True, False]
    labels.put(1, {})
    labels.put(2, {"disk": "x"})
    labels.put(3, {"disk": "x"})
    assert labels.matching(wanted, np.array([1, 2, 3], np.int64)).tolist() == [False, True, True]
