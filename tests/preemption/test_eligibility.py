from __future__ import annotations

import pytest

from scheduler.framework.preemption_policy import UPSTREAM_POLICY, PreemptionPolicy
from scheduler.messages.status import Refusal, unresolvable, unschedulable
from scheduler.preemption.eligibility import why_not_eligible
from scheduler.testing.documents import PodFields
from scheduler.testing.objects import node, pod
from tests.preemption.situations import Situation

FULL = unschedulable("Insufficient cpu")
WAITS = "not eligible due to a terminating pod on the nominated node."


def condition(reason: str = "PreemptionByScheduler", status: str = "True") -> dict[str, str]:
    return {"type": "DisruptionTarget", "status": status, "reason": reason}


def reason_for(
    status: Refusal | None = FULL,
    victim: PodFields | None = None,
    policy: PreemptionPolicy = UPSTREAM_POLICY,
    preemptor: PodFields | None = None,
) -> str:
    dying: PodFields = {
        "node": "n1",
        "priority": 1,
        "deleted": "2026-01-01T00:00:00Z",
        "status": {"conditions": [condition()]},
    }
    waiting: PodFields = {"priority": 10, "nominated": "n1"}
    situation = Situation([node("n1")], [pod("victim", **(dying | (victim or {})))])
    context = situation.attempt(
        pod("preemptor", **(waiting | (preemptor or {}))),
        statuses={} if status is None else {"n1": status},
    )
    return why_not_eligible(context, policy)


def test_a_pod_that_never_preempts_says_so() -> None:
    reason = "not eligible due to preemptionPolicy=Never."
    assert reason_for(preemptor={"preemption_policy": "Never"}) == reason


def test_a_pod_waits_while_its_victim_on_the_nominated_node_is_dying() -> None:
    assert reason_for() == WAITS


def test_a_pod_waits_while_others_are_removed_from_its_nominated_node_though_no_deletion_is_seen_yet() -> None:
    clearing = PreemptionPolicy(is_nominated_node_being_cleared=True)
    assert reason_for(victim={"deleted": None}, policy=clearing) == WAITS
    assert reason_for(victim={"deleted": None}) == ""


@pytest.mark.parametrize(
    "victim",
    [
        {"deleted": None},
        {"status": {"conditions": []}},
        {"status": {"conditions": [condition(reason="EvictionByEvictionAPI")]}},
        {"status": {"conditions": [condition(status="False")]}},
        {"status": {"conditions": [condition(status="False"), condition()]}},
        {"priority": 10},
    ],
    ids=[
        "alive",
        "deleted by another client",
        "drained",
        "condition withdrawn",
        "only the first counts",
        "as important",
    ],
)
def test_other_pods_on_the_nominated_node_do_not_hold_it_back(victim: PodFields) -> None:
    assert reason_for(victim=victim) == ""


def test_a_hopeless_nominated_node_frees_it_to_look_elsewhere() -> None:
    assert reason_for(status=unresolvable("node(s) were unschedulable")) == ""


def test_a_nominated_node_that_was_not_looked_at_or_is_gone_frees_it_too() -> None:
    assert reason_for(status=None) == ""
    assert reason_for(preemptor={"nominated": "gone"}) == ""


def test_without_a_nomination_nothing_is_waited_for() -> None:
    assert reason_for(preemptor={"nominated": None}) == ""


def test_pods_out_of_reach_and_nodes_given_up_are_not_waited_for() -> None:
    assert reason_for(policy=PreemptionPolicy(victim_schedulers=frozenset({"other"}))) == ""
    assert reason_for(policy=PreemptionPolicy(given_up_node="n1")) == ""
