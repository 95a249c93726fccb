from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from scheduler.framework.plugin import FilterPlugin, Rows, State, Verdicts
from scheduler.framework.post_filter import CLEAR_NOMINATION, KEEP_NOMINATION, nominate
from scheduler.framework.preemption_policy import TAKEN_AGAIN, UPSTREAM_POLICY, PreemptionPolicy
from scheduler.messages.status import Code, Refusal, failure, unresolvable, unschedulable
from scheduler.objects.pod import Pod
from scheduler.preemption.evaluation import Candidates, Extent, conclude, evaluate
from scheduler.preemption.pod_columns import PodColumns
from scheduler.preemption.ranking import Criterion
from scheduler.testing.objects import node, pod
from tests.builders import budget
from tests.preemption.situations import Situation, evidence_of, victims_by_node

ALL = Extent(100, 0)
COLUMNS = [None, PodColumns()]


def low(name: str, place: str, cpu: str = "4", priority: int = 1, **fields: Any) -> Pod:
    return pod(name, cpu=cpu, priority=priority, node=place, **fields)


def test_the_node_with_the_least_important_victims_is_nominated() -> None:
    situation = Situation(
        [node("n1"), node("n2"), node("n3")],
        [low("a", "n1", priority=3), low("b", "n2", priority=2), low("c", "n3", priority=20)],
    )
    answer = evaluate(situation.attempt(pod(cpu="3", priority=9)), ALL)
    assert answer.status is None
    assert answer.nomination == nominate("n2")
    evidence = evidence_of(answer)
    assert (evidence.eligible, evidence.message, evidence.nominated_node) == (True, "", "n2")
    assert victims_by_node(evidence) == {"n1": ["a"], "n2": ["b"]}
    assert [victim.name for victim in evidence.victims] == ["b"]
    assert evidence.best == ("n2",)
    assert evidence.criterion is Criterion.LOWEST_TOP_PRIORITY
    assert evidence.node_statuses == {"n3": unresolvable("No preemption victims found for incoming pod")}


def test_where_nothing_helps_the_message_counts_every_node_and_the_nomination_is_cleared() -> None:
    situation = Situation(
        [node("n1"), node("n2"), node("n3", unschedulable=True), node("n4")],
        [
            low("a", "n1", priority=20),
            low("b", "n2", "3", priority=20),
            low("c", "n2", "1"),
            low("d", "n4", priority=30),
        ],
    )
    answer = evaluate(situation.attempt(pod(cpu="3", priority=9)), ALL)
    assert answer.nomination == CLEAR_NOMINATION
    assert answer.status == unschedulable(
        "preemption: 0/4 nodes are available: 1 Insufficient cpu, 1 Preemption is not helpful for scheduling, "
        "2 No preemption victims found for incoming pod."
    )
    assert evidence_of(answer).message == answer.status.message


def test_a_pod_that_may_not_preempt_keeps_its_nomination() -> None:
    situation = Situation([node("n1")], [low("a", "n1")])
    answer = evaluate(situation.attempt(pod(cpu="3", priority=9, preemption_policy="Never")))
    assert answer.nomination == KEEP_NOMINATION
    assert answer.status == unschedulable("preemption: not eligible due to preemptionPolicy=Never.")
    assert not evidence_of(answer).eligible


@pytest.mark.parametrize("columns", COLUMNS, ids=["plain", "waves"])
def test_the_search_ends_with_enough_candidates_of_which_one_is_harmless(columns: PodColumns | None) -> None:
    web = {"app": "web"}
    nodes = [node(f"n{place}") for place in range(10)]
    guarded = [low(f"v{place}", f"n{place}", labels=web if place < 7 else {}) for place in range(10)]
    situation = Situation(nodes, guarded, [budget("b", web, allowed=0)])
    for seed in range(20):
        context = situation.attempt(pod(cpu="3", priority=9), seed=seed)
        found = [
            candidate.node_name
            for candidate in evidence_of(evaluate(context, Extent(0, 3), columns=columns)).candidates
        ]
        start = Random(seed).randrange(10)
        walk = [f"n{(start + step) % 10}" for step in range(10)]
        tried = walk[: next(end for end in range(3, 11) if any(name in ("n7", "n8", "n9") for name in walk[:end]))]
        harmless = [name for name in tried if name in ("n7", "n8", "n9")]
        assert found == harmless + [name for name in tried if name not in harmless][:3]


def test_equal_nodes_are_chosen_by_the_random_start_and_one_seed_gives_one_choice() -> None:
    situation = Situation(
        [node(f"n{place}") for place in range(4)], [low(f"v{place}", f"n{place}") for place in range(4)]
    )
    chosen = [
        [
            evidence_of(evaluate(situation.attempt(pod(cpu="3", priority=9), seed=seed))).nominated_node
            for seed in range(30)
        ]
        for _ in range(2)
    ]
    assert chosen[0] == chosen[1]
    assert set(chosen[0]) == {"n0", "n1", "n2", "n3"}


class Failing(FilterPlugin):
    name = "Failing"

    def filter(self, state: State, pod: Any, view: Any, rows: Rows) -> Verdicts | None:
        raise ValueError("broken")


@pytest.mark.parametrize("columns", COLUMNS, ids=["plain", "waves"])
def test_errors_of_plugins_end_the_attempt_only_where_there_is_no_candidate(columns: PodColumns | None) -> None:
    context = Situation([node("n1")], [low("a", "n1")]).attempt(pod(cpu="3", priority=9))
    context.profile.filter_plugins.append(Failing())  # type: ignore[attr-defined]
    answer = evaluate(context, ALL, columns=columns)
    text = "preemption: plugin Failing failed in Filter: ValueError: broken"
    assert answer.status == Refusal(Code.ERROR, (text,))
    assert answer.nomination == KEEP_NOMINATION


class Unsure(FilterPlugin):
    name = "Unsure"

    def filter(self, state: State, pod: Any, view: Any, rows: Rows) -> Verdicts | None:
        return Verdicts(np.ones(len(view.table.exists[rows]), np.int16), (failure("no idea"),))


@pytest.mark.parametrize("columns", COLUMNS, ids=["plain", "waves"])
def test_an_error_that_a_filter_answers_with_is_worded_as_in_a_filter_round(columns: PodColumns | None) -> None:
    context = Situation([node("n1")], [low("a", "n1")]).attempt(pod(cpu="3", priority=9))
    context.profile.filter_plugins.append(Unsure())  # type: ignore[attr-defined]
    answer = evaluate(context, ALL, columns=columns)
    assert answer.status == Refusal(Code.ERROR, ('preemption: running "Unsure" filter plugin: no idea',))
    assert evidence_of(answer).node_statuses == {
        "n1": Refusal(Code.ERROR, ('running "Unsure" filter plugin: no idea',), "Unsure")
    }


def test_when_extenders_leave_no_candidate_the_nomination_is_kept() -> None:
    context = Situation([node("n1")], [low("a", "n1")]).attempt(pod(cpu="3", priority=9))
    answer = conclude(context, Candidates(()), UPSTREAM_POLICY)
    assert answer.status == unschedulable("preemption: no candidate node for preemption")
    assert answer.nomination == KEEP_NOMINATION


def test_excluded_and_given_up_nodes_are_not_tried_and_say_so() -> None:
    situation = Situation(
        [node(name) for name in ("n1", "n2", "n3")], [low(f"v-{name}", name) for name in ("n1", "n2", "n3")]
    )
    policy = PreemptionPolicy(excluded_nodes={"n1": "not here", "unknown": "nor here"}, given_up_node="n2")
    evidence = evidence_of(evaluate(situation.attempt(pod(cpu="3", priority=9)), ALL, policy))
    assert evidence.nominated_node == "n3"
    assert set(evidence.node_statuses) == {"n1", "n2"}
    nowhere = PreemptionPolicy(excluded_nodes=dict.fromkeys(("n1", "n2", "n3"), TAKEN_AGAIN))
    answer = evaluate(situation.attempt(pod(cpu="3", priority=9)), ALL, nowhere)
    assert answer.status is not None
    assert "3 Preemption is suspended on the node: others took the room again and again" in answer.status.message
