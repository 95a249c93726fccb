"""Budgets that a question puts or deletes."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.questions.answers import SECONDS, Answer
from scheduler.engine.questions.edits import DeleteObject, Drain, PutObject, RemoveNode, WrongQuestion
from scheduler.engine.questions.question import Question
from scheduler.engine.questions.what_if import what_if
from scheduler.objects.budget import PodDisruptionBudget
from scheduler.testing.objects import build
from tests import builders
from tests.engine.driver import Cluster
from tests.engine.questions.asking import OWNER, answered, ask, asked, deployment, nodes_of


def _web(status: dict[str, Any] | None = None) -> Cluster:
    """Pods of one application, two of them on n0."""
    cluster = Cluster()
    cluster.nodes_like(3, cpu="8")
    for number in range(4):
        node = "n0" if number < 2 else "n1"
        cluster.pod(f"web-{number}", cpu="1", node=node, labels={"app": "web"}, metadata=OWNER, status=status or {})
    return cluster


def _budget(**spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    metadata = {"name": "web", "namespace": "default"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {"selector": selector, **spec},
    }


def _stays(answer: Answer) -> int:
    return sum(one.stays for one in answer.left)


@pytest.mark.parametrize(
    ("spec", "stays"),
    [
        ({"maxUnavailable": 0}, 2),
        ({"maxUnavailable": 1}, 0),
        ({"maxUnavailable": "0%"}, 2),
        ({"maxUnavailable": "10%"}, 0),
        ({"minAvailable": 4}, 2),
        ({"minAvailable": 3}, 0),
        ({"minAvailable": "100%"}, 2),
        ({"minAvailable": "50%"}, 0),
        ({}, 0),
        ({"selector": {"matchLabels": {"app": "other"}}, "maxUnavailable": 0}, 0),
        ({"selector": {}, "maxUnavailable": 0}, 2),
    ],
)
@pytest.mark.parametrize("comes_first", [True, False])
def test_a_budget_without_a_status_allows_what_the_disruption_controller_would_grant(
    spec: dict[str, Any], stays: int, comes_first: bool
) -> None:
    put, drain = PutObject(_budget(**spec)), Drain("n0")
    assert _stays(ask(_web(), *((put, drain) if comes_first else (drain, put)))) == stays


def test_pods_that_are_not_ready_are_not_there_for_a_budget() -> None:
    unready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
    assert _stays(ask(_web(unready), PutObject(_budget(minAvailable=1)), Drain("n0"))) == 2


def test_a_budget_with_a_status_allows_what_it_says() -> None:
    stated = {**_budget(maxUnavailable=1), "status": {"disruptionsAllowed": 0, "expectedPods": 4}}
    assert _stays(ask(_web(), PutObject(stated), Drain("n0"))) == 2


def test_a_budget_that_is_deleted_keeps_no_pod_on_its_node() -> None:
    cluster = _web()
    cluster.show(builders.budget("web", {"app": "web"}, allowed=0))
    assert _stays(ask(cluster, Drain("n0"))) == 2
    assert _stays(ask(cluster, Drain("n0"), DeleteObject("PodDisruptionBudget", "web", "default"))) == 0


@pytest.mark.parametrize("value", ["half", "-5%", "5"])
def test_a_number_that_is_none_is_named(value: str) -> None:
    with pytest.raises(WrongQuestion, match=r"'web': '.*' is neither a number nor a percentage"):
        ask(_web(), PutObject(_budget(minAvailable=value)))


def test_budgets_stand_in_the_way_of_a_drain() -> None:
    cluster = Cluster()
    cluster.nodes_like(2, cpu="8")
    for number in range(3):
        cluster.pod(f"web{number}", cpu="1", node="n0", labels={"app": "web"}, metadata=OWNER)
    cluster.pod("db", cpu="1", node="n0", labels={"app": "db"}, metadata=OWNER)
    cluster.show(builders.budget("web", {"app": "web"}, allowed=1))
    cluster.show(builders.budget("db", {"app": "db"}, allowed=0))
    answer = ask(cluster, Drain("n0"))
    assert set(nodes_of(answer)) == {"web0", "web1", "web2"}, "in turns"
    pages = {one.budget: (one.wanted, one.allowed, one.blocked) for one in answer.budgets}
    assert pages == {"default/web": (3, 1, 0), "default/db": (1, 0, 1)}
    (left,) = answer.left
    assert (left.pod, left.stays, left.budgets) == ("default/db", True, ("default/db",))


def _drained(status: dict[str, Any], *pods: dict[str, Any], budgets: int = 1, **spec: Any) -> Answer:
    """n0 with these pods is drained, beside a node with room for four of them; the budgets have this status."""
    cluster = Cluster()
    cluster.node("n0", cpu="20", labels={"disk": "n0"})
    cluster.node("n1", cpu="4")
    for number, fields in enumerate(pods):
        stated = {"cpu": "1", "node": "n0", "labels": {"app": "web"}, "metadata": OWNER, **fields}
        cluster.pod(f"web-{number}", **stated)
    for number in range(budgets):
        document = {**_budget(**spec), "status": status}
        document["metadata"] = {"name": f"web-{number}", "namespace": "default"}
        cluster.show(build(PodDisruptionBudget, document))
    return ask(cluster, Drain("n0"))


def _staying(answer: Answer) -> dict[str, str]:
    return {one.pod.partition("/")[2]: one.why for one in answer.left if one.stays}


PINNED: dict[str, Any] = {"spec": {"nodeSelector": {"disk": "n0"}}}
UNREADY: dict[str, Any] = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}}
USED_UP = "the budget is used up"
NONE_ALLOWED = "a budget allows no disruption"


@pytest.mark.parametrize("allowed", [1, 2])
def test_pods_stay_once_as_many_as_the_budget_allows_have_left_and_found_no_node(allowed: int) -> None:
    answer = _drained({"disruptionsAllowed": allowed}, PINNED, PINNED, PINNED)
    assert (answer.placed, answer.pending) == (0, allowed)
    assert _staying(answer) == {f"web-{number}": USED_UP for number in range(allowed, 3)}
    (page,) = answer.budgets
    assert (page.wanted, page.allowed, page.blocked) == (3, allowed, 3 - allowed)
    count = "2 pods" if allowed == 1 else "1 pod"
    assert answer.notes == (f"the drain of n0 does not end: budgets keep {count} there",)


def test_a_budget_gets_back_what_a_pod_that_finds_a_node_took() -> None:
    answer = _drained({"disruptionsAllowed": 1}, {}, PINNED, {}, {})
    assert nodes_of(answer) == {"web-0": "n1", "web-1": ""}
    assert _staying(answer) == {"web-2": USED_UP, "web-3": USED_UP}


def test_pods_that_find_nodes_leave_in_turns_until_none_is_left() -> None:
    answer = _drained({"disruptionsAllowed": 1}, *[{}] * 4)
    assert (answer.placed, answer.pending, answer.notes) == (4, 0, ())
    assert not _staying(answer)
    assert all(one.after_chance for one in answer.placements), "which one goes first is not known"


def test_a_pod_that_nothing_creates_again_takes_its_budget_s_disruption_for_good() -> None:
    answer = _drained({"disruptionsAllowed": 1}, {"metadata": {}}, {})
    assert _staying(answer) == {"web-1": USED_UP}


def test_pods_without_a_budget_leave_at_once_whatever_becomes_of_the_others() -> None:
    other = {"labels": {"app": "other"}}
    answer = _drained({"disruptionsAllowed": 1}, PINNED, PINNED, other, other)
    assert nodes_of(answer) == {"web-0": "", "web-2": "n1", "web-3": "n1"}


def test_asked_pods_are_placed_before_the_next_turn_of_a_drain() -> None:
    cluster = _web()
    cluster.show(builders.budget("web", {"app": "web"}, allowed=1))
    answer = ask(cluster, Drain("n0"), workloads=asked(deployment(2, name="new")))
    assert list(nodes_of(answer)) == ["web-0", "new-1", "new-2", "web-1"]


@pytest.mark.parametrize(
    ("status", "spec", "stays"),
    [
        ({"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2}, {}, {"web-1": NONE_ALLOWED}),
        (
            {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2},
            {},
            {"web-0": NONE_ALLOWED, "web-1": NONE_ALLOWED},
        ),
        (
            {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2},
            {"unhealthyPodEvictionPolicy": "AlwaysAllow"},
            {"web-1": NONE_ALLOWED},
        ),
        # It takes nothing from the budget, and gives nothing back.
        ({"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1}, {}, {}),
    ],
)
def test_a_pod_that_is_not_ready_leaves_where_the_api_server_lets_it(
    status: dict[str, Any], spec: dict[str, Any], stays: dict[str, str]
) -> None:
    assert _staying(_drained(status, UNREADY | PINNED, {}, **spec)) == stays


def test_a_pod_under_several_budgets_is_never_evicted_and_the_drain_fails() -> None:
    answer = _drained({"disruptionsAllowed": 5}, {}, budgets=2)
    assert _staying(answer) == {"web-0": "more than one budget covers it"}
    assert answer.notes == ("the drain of n0 fails: the API server evicts none of 1 pod under more than one budget",)


def test_pods_that_go_with_another_node_count_against_the_budget_of_a_drain() -> None:
    cluster = Cluster()
    for name in ("n0", "n1", "n2"):
        cluster.node(name, cpu="4", labels={"disk": name})
    gone = {"labels": {"app": "web"}, "metadata": OWNER}
    cluster.pod("gone", cpu="1", node="n1", spec={"nodeSelector": {"disk": "n1"}}, **gone)
    cluster.pod("there", cpu="1", node="n0", **gone)
    cluster.show(builders.budget("web", {"app": "web"}, allowed=1))
    answer = ask(cluster, Drain("n0"), RemoveNode("n1"))
    assert _staying(answer) == {"there": USED_UP}


def test_pods_whose_turn_has_not_come_when_the_time_is_up_are_counted_as_not_tried() -> None:
    cluster = _web()
    cluster.show(builders.budget("web", {"app": "web"}, allowed=1))
    steps = what_if(cluster.engine, Question(edits=(Drain("n0"),)), cluster.now, is_over=lambda: True)
    answer = answered(cluster, steps)
    assert (answer.bound, answer.not_tried, _staying(answer)) == (SECONDS, 2, {})
