"""The order of nodes: zone by zone in turn, in each zone as the nodes came."""

from __future__ import annotations

from scheduler.cluster.table import NodeTable
from scheduler.testing.objects import node


def _in_order(table: NodeTable) -> list[str]:
    return [table.names[row] for row in table.order.rows.tolist()]


def _table() -> NodeTable:
    table = NodeTable()
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")):
        table.put_node(node(name, zone=zone))
    return table


def test_zones_take_turns() -> None:
    assert _in_order(_table()) == ["a1", "b1", "a2", "b2"]


def test_a_node_that_is_made_again_or_moves_to_another_zone_comes_last_there_at_once() -> None:
    table = _table()
    assert _in_order(table) == ["a1", "b1", "a2", "b2"]
    table.drop_node("a1")
    table.put_node(node("a1", zone="a"))
    assert _in_order(table) == ["a2", "b1", "a1", "b2"]
    table.put_node(node("a2", zone="b"))
    assert _in_order(table) == ["a1", "b1", "b2", "a2"]


def test_a_node_that_changes_in_its_zone_keeps_its_place() -> None:
    table = _table()
    table.put_node(node("a1", zone="a", cpu="64"))
    assert _in_order(table) == ["a1", "b1", "a2", "b2"]
