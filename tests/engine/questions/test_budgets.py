"""Budgets that a question puts or deletes."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.questions.answers import Answer
from scheduler.engine.questions.edits import DeleteObject, Drain, PutObject, WrongQuestion
from tests import builders
from tests.engine.driver import Cluster
from tests.engine.questions.asking import OWNER, ask


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
