"""A table taken from another one is as if its nodes and pods had come to it one by one."""

from __future__ import annotations

import random

import pytest

from scheduler.cluster.node_columns import INT64_COLUMNS
from scheduler.cluster.node_order import NodeOrder
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.cluster.taken_table import TakenTable
from scheduler.testing.objects import node, pod


def a_table() -> NodeTable:
    table = NodeTable()
    for number in range(12):
        table.put_node(node(f"n{number}", zone=f"z{number % 3}" if number % 4 else None))
    table.drop_node("n5")
    table.add_pod(PodInfo(pod("left-behind", node="nowhere")))
    return table


@pytest.mark.parametrize("seed", range(10))
def test_rows_that_are_taken_are_in_the_order_in_which_they_would_have_come(seed: int) -> None:
    table = a_table()
    rows = random.Random(seed).sample(range(table.size), 7)
    expected = NodeOrder()
    for place, row in enumerate(rows):
        known = table.nodes[row]
        if known is not None:
            expected.put(place, known.metadata.labels)
    assert TakenTable(table, rows).order.rows.tolist() == expected.rows.tolist()


@pytest.mark.parametrize("seed", range(10))
def test_pods_added_together_charge_what_they_charge_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    rows = list(range(6))
    table = a_table()
    together, one_by_one = TakenTable(table, rows), TakenTable(table, rows)
    pods = {
        row: [
            PodInfo(
                pod(
                    f"p{row}-{number}",
                    requests={"cpu": f"{chance.randrange(3)}", "ephemeral-storage": f"{chance.randrange(2)}Gi"}
                    | ({"example.com/gpu": "1"} if chance.random() < 0.5 else {}),
                    ports=[80 + number] if chance.random() < 0.5 else [],
                )
            )
            for number in range(chance.randrange(3))
        ]
        for row in rows
    }
    together.add_pods(pods)
    for row, infos in pods.items():
        for info in infos:
            one_by_one.add_pod_to(row, info)
    assert together.pods == one_by_one.pods
    assert [used or None for used in together.ports] == [used or None for used in one_by_one.ports]
    for column in INT64_COLUMNS:
        assert getattr(together, column).tolist() == getattr(one_by_one, column).tolist()
    gpu = "example.com/gpu"
    assert together.requested(gpu).tolist() == one_by_one.requested(gpu).tolist()


def test_a_table_of_some_rows_has_their_columns_and_shares_none_of_them() -> None:
    table = a_table()
    rows = [7, 2, 5]
    taken = TakenTable(table, rows)
    before = {name: getattr(table, name).tolist() for name in INT64_COLUMNS}
    assert {name: getattr(taken, name).tolist() for name in INT64_COLUMNS} == {
        name: [values[row] for row in rows] for name, values in before.items()
    }
    assert taken.exists.tolist() == [True, True, False]
    assert taken.label("topology.kubernetes.io/zone").tolist() == [
        table.label("topology.kubernetes.io/zone")[row] for row in rows
    ]
    taken.add_pod(PodInfo(pod("new", node="n7", requests={"cpu": "1", "example.com/gpu": "1"})))
    taken.drop_node("n2")
    assert {name: getattr(table, name).tolist() for name in INT64_COLUMNS} == before
    assert table.exists[2] and table.is_nowhere("example.com/gpu")
