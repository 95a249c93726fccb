from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.timestamps import parse_time
from scheduler.preemption.dry_run import Candidate, candidate_of
from scheduler.preemption.importance import most_important_first
from scheduler.preemption.ranking import Criterion, choose
from scheduler.testing.fragments import owner_json
from scheduler.testing.objects import pod
from tests.preemption.situations import NOW

Victim = tuple[int, str | None]
"""Priority and start time."""

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
LOWEST = -(2**31)
VICTIMS = st.lists(
    st.tuples(st.sampled_from((LOWEST, 0, 5)), st.sampled_from((None, EARLY, LATE))), min_size=1, max_size=3
)


def candidate(name: str, victims: Sequence[Victim], violations: int = 0, owner: str = "ReplicaSet") -> Candidate:
    infos = [
        PodInfo(pod(f"{name}-{index}", priority=priority, started=started, owner=owner_json(owner, "o")))
        for index, (priority, started) in enumerate(victims)
    ]
    return candidate_of(0, name, tuple(most_important_first(infos, NOW)), violations)


@pytest.mark.parametrize(
    ("worse", "better", "criterion"),
    [
        (candidate("w", [(0, LATE)], 1), candidate("b", [(9, EARLY)] * 3), Criterion.FEWEST_VIOLATIONS),
        (candidate("w", [(5, LATE)]), candidate("b", [(4, EARLY)] * 9), Criterion.LOWEST_TOP_PRIORITY),
        (
            candidate("w", [(5, LATE), (4, LATE)]),
            candidate("b", [(5, EARLY), (3, EARLY)]),
            Criterion.LOWEST_PRIORITY_SUM,
        ),
        (candidate("w", [(-5, LATE)] * 2), candidate("b", [(-5, EARLY)]), Criterion.LOWEST_PRIORITY_SUM),
        (
            candidate("w", [(5, LATE), (LOWEST, LATE)]),
            candidate("b", [(5, EARLY)]),
            Criterion.FEWEST_VICTIMS,
        ),
        (
            candidate("w", [(5, EARLY), (5, LATE), (1, LATE)]),
            candidate("b", [(5, LATE), (5, LATE), (1, EARLY)]),
            Criterion.LATEST_START,
        ),
        (candidate("w", [(5, LATE)]), candidate("b", [(5, None)]), Criterion.LATEST_START),
    ],
    ids=["violations", "top priority", "sum", "negative priorities", "number", "start of the top ones", "not started"],
)
def test_criteria_decide_in_order(worse: Candidate, better: Candidate, criterion: Criterion) -> None:
    for order in ([worse, better], [better, worse]):
        choice = choose(order, NOW)
        assert (choice.candidate, choice.criterion, choice.best) == (better, criterion, (better,))


def test_a_victim_that_has_not_started_counts_as_starting_at_the_moment_of_each_choice() -> None:
    started, waiting = candidate("started", [(5, LATE)]), candidate("waiting", [(5, None)])
    assert choose([started, waiting], parse_time(LATE) + 1).candidate == waiting
    assert choose([started, waiting], parse_time(LATE) - 1).candidate == started


def test_an_only_candidate_is_taken_unseen() -> None:
    only = candidate("only", [(1, EARLY)], 3)
    assert choose([only], NOW).criterion is Criterion.ONLY_CANDIDATE


def test_of_equal_candidates_the_one_tried_first_is_taken_and_all_are_reported() -> None:
    equal = [candidate(name, [(1, EARLY)]) for name in "abc"]
    choice = choose([candidate("worse", [(2, EARLY)]), *equal], NOW)
    assert (choice.candidate, choice.criterion, choice.best) == (equal[0], Criterion.FIRST_TRIED, tuple(equal))


def test_on_request_pods_that_would_come_straight_back_are_spared_last_of_all() -> None:
    daemon = candidate("daemon", [(1, EARLY)], owner="DaemonSet")
    replica = candidate("replica", [(1, EARLY)])
    assert choose([daemon, replica], NOW).candidate == daemon
    choice = choose([daemon, replica], NOW, prefer_other_than_daemon_sets=True)
    assert (choice.candidate, choice.criterion) == (replica, Criterion.FEWEST_DAEMON_SET_PODS)
    later = candidate("later", [(1, LATE)], owner="DaemonSet")
    assert choose([later, replica], NOW, prefer_other_than_daemon_sets=True).candidate == later


@given(st.lists(st.tuples(st.integers(0, 1), VICTIMS, st.sampled_from(("ReplicaSet", "DaemonSet"))), min_size=1))
def test_a_choice_is_what_the_criteria_leave_when_they_are_applied_one_after_the_other(
    drawn: list[tuple[int, list[Victim], str]],
) -> None:
    candidates = [
        candidate(f"n{place}", victims, violations, owner) for place, (violations, victims, owner) in enumerate(drawn)
    ]
    for prefers in (False, True):
        choice = choose(candidates, NOW, prefers)
        left, criterion = list(candidates), Criterion.FIRST_TRIED if len(candidates) > 1 else Criterion.ONLY_CANDIDATE
        for one, costs in enumerate_costs(candidates, prefers).items():
            least = min(costs[each.node_name] for each in left)
            before, left = left, [each for each in left if costs[each.node_name] == least]
            if len(left) == 1 < len(before):
                criterion = one
        assert (choice.candidate, choice.criterion, choice.best) == (left[0], criterion, tuple(left))


def enumerate_costs(candidates: Sequence[Candidate], prefers: bool) -> dict[Criterion, dict[str, int]]:
    """Criterion by criterion, what each node costs."""

    def by_node(cost: Callable[[Candidate], int]) -> dict[str, int]:
        return {each.node_name: cost(each) for each in candidates}

    def started(info: PodInfo) -> int:
        return NOW if info.pod.status.start_time is None else parse_time(info.pod.status.start_time)

    found = {
        Criterion.FEWEST_VIOLATIONS: by_node(lambda each: each.pdb_violations),
        Criterion.LOWEST_TOP_PRIORITY: by_node(lambda each: each.victims[0].priority),
        Criterion.LOWEST_PRIORITY_SUM: by_node(lambda each: sum(info.priority + 2**31 for info in each.victims)),
        Criterion.FEWEST_VICTIMS: by_node(lambda each: len(each.victims)),
        Criterion.LATEST_START: by_node(lambda each: -started(each.victims[0])),
    }
    if prefers:
        found[Criterion.FEWEST_DAEMON_SET_PODS] = by_node(
            lambda each: sum(info.pod.metadata.owner_references[0].kind == "DaemonSet" for info in each.victims)
        )
    return found
