"""Pods that a taint of a question evicts, at once or once they tolerate it no longer."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.questions.answers import SECONDS
from scheduler.engine.questions.edits import AddTaint, Drain
from scheduler.engine.questions.question import Question
from scheduler.engine.questions.what_if import what_if
from scheduler.objects.steps import run_to_end
from tests.engine.driver import Cluster
from tests.engine.questions.asking import DAEMON, OWNER, ask, nodes_of

UNREACHABLE = "node.kubernetes.io/unreachable"
LOST = AddTaint("n0", UNREACHABLE, "NoExecute")


def _for(seconds: int | None) -> dict[str, Any]:
    stated = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"tolerations": [{"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", **stated}]}


def _cluster(*pods: dict[str, Any]) -> Cluster:
    cluster = Cluster()
    cluster.node("n0", cpu="8")
    cluster.node("n1", cpu="4")
    for number, fields in enumerate(pods):
        cluster.pod(f"web-{number}", **{"cpu": "1", "node": "n0", "metadata": OWNER, **fields})
    return cluster


@pytest.mark.parametrize(("seconds", "after"), [(300, 300), (1, 1), (0, 0), (-5, 0)])
def test_a_pod_that_tolerates_a_taint_for_a_time_moves_after_it(seconds: int, after: int) -> None:
    answer = ask(_cluster(_for(seconds)), LOST)
    assert [(one.node, one.left_node, one.after_seconds) for one in answer.placements] == [("n1", "n0", after)]
    expected = (f"evicted later: 1 pod, after tolerating the taint for {after} s",) if after else ()
    assert answer.notes == expected


def test_a_pod_that_tolerates_a_taint_without_a_limit_stays() -> None:
    answer = ask(_cluster(_for(None)), LOST)
    assert (answer.placements, answer.left, answer.notes) == ((), (), ())


def test_the_first_toleration_that_matches_counts() -> None:
    tolerations = [*_for(60)["tolerations"], {"operator": "Exists"}]
    assert ask(_cluster({"tolerations": tolerations}), LOST).placements[0].after_seconds == 60
    assert not ask(_cluster({"tolerations": tolerations[::-1]}), LOST).placements


def test_pods_that_leave_later_find_what_earlier_ones_have_left() -> None:
    patient = {"priority": 9, "preemption_policy": "Never"}
    cluster = _cluster({**_for(300), **patient, "cpu": "3"}, {**_for(30), "cpu": "2"}, {"cpu": "2"})
    answer = ask(cluster, LOST)
    assert nodes_of(answer) == {"web-2": "n1", "web-1": "n1", "web-0": ""}
    assert [one.after_seconds for one in answer.placements] == [0, 30, 300]
    assert answer.notes == ("evicted later: 2 pods, after tolerating the taint for 30 to 300 s",)


def test_a_pod_that_nothing_creates_again_ends_when_it_tolerates_the_taint_no_longer() -> None:
    answer = ask(_cluster({**_for(300), "metadata": {}}, {**_for(300), "metadata": DAEMON}), LOST)
    assert [(one.stays, one.why) for one in answer.left] == [
        (False, "has no controller that would create it again, after 300 s"),
        (False, "tolerates the taint for 300 s"),
    ]


def test_a_pod_that_tolerates_another_taint_for_a_time_may_come_back_to_its_node() -> None:
    cluster = _cluster({"tolerations": [{"operator": "Exists", "tolerationSeconds": 5}], "cpu": "3"})
    cluster.pod("there", cpu="2", node="n1")
    (placement,) = ask(cluster, AddTaint("n0", "k", "NoExecute")).placements
    assert (placement.node, placement.after_seconds) == ("n0", 5)


def test_a_pod_that_a_drain_evicts_first_is_not_evicted_again() -> None:
    answer = ask(_cluster(_for(300)), LOST, Drain("n0"))
    assert [one.after_seconds for one in answer.placements] == [0]


def test_pods_that_each_leave_after_another_time_are_looked_at_in_slices_while_there_is_time() -> None:
    """Those that nothing creates again cost no attempt, so that only the time ends it."""
    times = 500
    cluster = _cluster(*({**_for(1 + number), "metadata": {}, "cpu": "1m"} for number in range(times)))
    question = Question(edits=(LOST,))
    slices = what_if(cluster.engine, question, cluster.now)
    assert sum(1 for _ in slices) >= times
    looks = iter(range(times))
    bounded = run_to_end(what_if(cluster.engine, question, cluster.now, is_over=lambda: next(looks) == 10))
    assert (bounded.bound, len(bounded.left), bounded.not_tried) == (SECONDS, 10, times - 10)
