"""Preemption is over at once where the pod outranks no placed pod, with the answer that dry runs of all nodes give."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.framework.preemption_policy import UPSTREAM_POLICY
from scheduler.messages.status import Refusal
from scheduler.preemption.dry_run import dry_run_node, trial_of
from scheduler.preemption.evaluation import Extent, evaluate
from scheduler.preemption.pod_columns import PodColumns
from scheduler.testing.objects import node, pod
from tests.preemption.situations import Situation, evidence_of

ALL = Extent(100, 0)


def test_no_node_is_searched_where_no_placed_pod_is_outranked() -> None:
    nodes = [node(f"n{number}", cpu="1") for number in range(3)]
    situation = Situation(nodes, [pod("a", cpu="1", priority=5, node="n0")])
    columns = PodColumns()
    answer = evaluate(
        situation.attempt(pod("new", cpu="1", priority=5), statuses={"n0": situation.refusal}), ALL, columns=columns
    )
    assert evidence_of(answer).message == (
        "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )
    assert columns.rows_searched == 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=6), st.integers(1, 4), st.booleans())
def test_the_answer_is_what_a_dry_run_of_each_node_says(
    pods: list[tuple[int, int]], priority: int, has_columns: bool
) -> None:
    nodes = [node(f"n{number}", cpu="1") for number in range(3)]
    placed = [pod(f"p{place}", cpu="1", priority=of, node=f"n{row}") for place, (row, of) in enumerate(pods)]
    situation = Situation(nodes, placed)
    full = {f"n{row}": situation.refusal for row in range(3)}
    context = situation.attempt(pod("new", cpu="1", priority=priority), statuses=full)
    trial = trial_of(context, UPSTREAM_POLICY)
    expected = {name: dry_run_node(trial, row) for row, name in enumerate(context.view.table.names) if name}
    evidence = evidence_of(evaluate(context, ALL, columns=PodColumns() if has_columns else None))
    assert evidence.node_statuses == {name: each for name, each in expected.items() if isinstance(each, Refusal)}
    assert {one.node_name for one in evidence.candidates} == expected.keys() - evidence.node_statuses.keys()
