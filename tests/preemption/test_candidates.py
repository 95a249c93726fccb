from __future__ import annotations

from random import Random

import numpy as np
import pytest

from scheduler.messages.status import failure, unresolvable, unschedulable
from scheduler.preemption.candidates import candidates_wanted, potential_rows, walk
from scheduler.testing.objects import node, pod
from tests.preemption.situations import Situation

FULL = unschedulable("Insufficient cpu")


@pytest.mark.parametrize(
    ("potential", "percentage", "absolute", "wanted"),
    [(5000, 10, 100, 500), (999, 10, 100, 100), (50, 10, 100, 50), (1999, 10, 1, 199), (7, 100, 0, 7), (9, 5, 0, 0)],
)
def test_a_percentage_of_the_nodes_but_not_fewer_than_a_number_and_not_more_than_all(
    potential: int, percentage: int, absolute: int, wanted: int
) -> None:
    assert candidates_wanted(potential, percentage, absolute) == wanted


def test_only_nodes_that_refuse_for_now_are_candidates_in_the_order_of_nodes() -> None:
    nodes = [node("a", zone="1"), node("b", zone="1"), node("c", zone="2"), node("d", zone="2"), node("e", zone="2")]
    statuses = {"a": FULL, "b": unresolvable("never"), "c": FULL, "d": failure("broken"), "e": FULL}
    context = Situation(nodes).attempt(pod(), statuses=statuses)
    names = context.view.table.names
    assert [names[row] for row in potential_rows(context)] == ["a", "c", "e"]


def test_nodes_without_a_status_are_candidates_where_the_whole_pod_was_refused_for_now() -> None:
    nodes = [node("a"), node("b")]
    situation = Situation(nodes, [pod("left-behind", node="gone")])
    refused = situation.attempt(pod(), statuses={"a": unresolvable("never")}, absent=FULL)
    assert [refused.view.table.names[row] for row in potential_rows(refused)] == ["b"]
    assert not len(potential_rows(situation.attempt(pod(), statuses={})))


def test_the_walk_goes_once_round_from_a_random_node() -> None:
    rows = np.arange(5, dtype=np.int64)
    walks = {tuple(walk(rows, Random(seed)).tolist()) for seed in range(60)}
    assert walks == {(0, 1, 2, 3, 4), (1, 2, 3, 4, 0), (2, 3, 4, 0, 1), (3, 4, 0, 1, 2), (4, 0, 1, 2, 3)}
