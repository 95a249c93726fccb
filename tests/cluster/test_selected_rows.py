"""The rows that a selector accepts stay what the nodes say, whichever nodes change."""

from __future__ import annotations

import random

import pytest

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.selected_rows import MAX_MASKS
from scheduler.cluster.table import NodeTable
from scheduler.cluster.taken_table import TakenTable
from scheduler.errors import InvariantViolation
from scheduler.objects.selectors import Selector, equality_selector
from scheduler.testing.objects import node, pod

OURS = equality_selector({"pool": "ours"})


def names(table: NodeTable, selector: Selector = OURS) -> set[str]:
    return {table.names[row] for row, is_in in enumerate(table.selected(selector).tolist()) if is_in}


@pytest.mark.parametrize("seed", range(10))
def test_any_changes_of_nodes_lead_to_the_rows_that_match(seed: int) -> None:
    chance = random.Random(seed)
    table = NodeTable(capacity=2)
    pools: dict[str, str] = {}
    forks: list[tuple[NodeTable, set[str]]] = []
    for _ in range(200):
        name = f"n{chance.randrange(12)}"
        if name in pools and chance.random() < 0.3:
            table.drop_node(name)
            del pools[name]
        else:
            pools[name] = chance.choice(["ours", "theirs"])
            table.put_node(node(name, labels={"pool": pools[name]}))
        expected = {name for name, pool in pools.items() if pool == "ours"}
        assert names(table) == expected
        table.check()
        if chance.random() < 0.1:
            forks.append((table.fork(), expected))
        rows = chance.sample(range(table.size), min(3, table.size))
        assert names(TakenTable(table, rows)) == expected & {table.names[row] for row in rows}
    for fork, expected in forks:
        assert names(fork) == expected


def test_a_fork_changes_its_own_rows_alone() -> None:
    table = NodeTable()
    table.put_node(node("a", labels={"pool": "ours"}))
    assert names(table) == {"a"}
    fork = table.fork()
    fork.put_node(node("a", labels={}))
    fork.put_node(node("b", labels={"pool": "ours"}))
    assert (names(fork), names(table)) == ({"b"}, {"a"})


def test_a_mask_that_was_given_away_stays_as_it_is_when_nodes_change() -> None:
    table = NodeTable()
    table.put_node(node("a", labels={"pool": "ours"}))
    given = table.selected(OURS)
    table.put_node(node("a", labels={"pool": "theirs"}))
    assert given.tolist() == [True]
    assert names(table) == set()


def test_rows_that_come_without_a_node_are_accepted_by_no_selector() -> None:
    cache = ClusterCache()
    cache.observe_node(node("a", labels={"pool": "ours"}))
    assert names(cache.table) == {"a"}
    for number in range(20):
        cache.observe_pod(PodInfo(pod(f"p{number}", node=f"unknown-{number}")))
    cache.check()
    assert names(cache.table) == {"a"}


def test_a_mask_that_is_wrong_is_found() -> None:
    table = NodeTable()
    table.put_node(node("a", labels={"pool": "ours"}))
    table.selected(OURS)[0] = False
    with pytest.raises(InvariantViolation):
        table.check()


def test_as_many_selectors_are_kept_as_may_be() -> None:
    table = NodeTable()
    table.put_node(node("a", labels={"pool": "ours"}))
    for number in range(2 * MAX_MASKS):
        assert names(table, equality_selector({"pool": f"p{number}"})) == set()
    assert len(table._selected._masks) == MAX_MASKS
    assert names(table) == {"a"}
