"""The waves against the plain dry run, on clusters of chance."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.pod_info import PodInfo
from scheduler.config.tandem import PDBPolicy
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin, Reads, Rows, State, Verdicts
from scheduler.framework.post_filter import PostFilterContext
from scheduler.framework.preemption_policy import UPSTREAM_POLICY, PreemptionPolicy
from scheduler.framework.tallies import RowPods, Tally
from scheduler.messages.status import unschedulable
from scheduler.objects.pod import Pod
from scheduler.preemption.candidates import potential_rows
from scheduler.preemption.dry_run import Candidate, dry_run_node, trial_of
from scheduler.preemption.evaluation import Extent, evaluate
from scheduler.preemption.pod_columns import PodColumns
from scheduler.preemption.wave_answers import wave_answers
from scheduler.preemption.wave_filters import wave_filters
from scheduler.testing.fragments import affinity_json, pod_term, spread_json
from scheduler.testing.objects import node, pod
from tests.builders import budget
from tests.preemption.situations import Situation, evidence_of

APPS = ("web", "db", "job")
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
ALL = Extent(100, 0)


def labels_of(draw: Any) -> dict[str, str]:
    app = draw(st.sampled_from((*APPS, None)))
    tier = draw(st.sampled_from(("front", None)))
    return ({"app": app} if app else {}) | ({"tier": tier} if tier else {})


def affinity_of(draw: Any) -> dict[str, Any] | None:
    kind = draw(st.sampled_from((None, None, None, "required", "anti_required")))
    if kind is None:
        return None
    term = pod_term({"app": draw(st.sampled_from(APPS))}, draw(st.sampled_from((HOST, ZONE))))
    terms: dict[str, Any] = {kind: [term]}
    return affinity_json(**terms)


@st.composite
def a_pod(draw: st.DrawFn, /, name: str, is_plain: bool, **fields: Any) -> Pod:
    requests = {"cpu": f"{draw(st.integers(0, 4))}", "memory": f"{draw(st.integers(0, 3))}Gi"}
    if draw(st.booleans()):
        requests["example.com/gpu"] = str(draw(st.integers(0, 2)))
    started = draw(st.sampled_from((None, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2027-01-01T00:00:00Z")))
    return pod(
        name,
        namespace=fields.pop("namespace", None) or draw(st.sampled_from(("default", "default", "other"))),
        labels=labels_of(draw),
        requests=requests,
        started=started,
        affinity=None if is_plain else affinity_of(draw),
        ports=[] if is_plain else draw(st.sampled_from(([], [], [80]))),
        scheduler=draw(st.sampled_from(("tandem-scheduler", "default-scheduler"))),
        **fields,
    )


@st.composite
def situations(draw: Any, is_plain: bool = False) -> tuple[Situation, Pod]:
    nodes = [
        node(
            f"n{place}",
            cpu="8",
            memory="8Gi",
            pods=draw(st.integers(3, 6)),
            zone=draw(st.sampled_from((f"z{place % 2}", f"z{place % 2}", None))),
            allocatable={"example.com/gpu": "2"},
        )
        for place in range(draw(st.integers(1, 4)))
    ]
    placed = [
        draw(a_pod(f"p{index}", is_plain, node=draw(st.sampled_from(nodes)).name, priority=draw(st.integers(-2, 3))))
        for index in range(draw(st.integers(0, 14)))
    ]
    nominated = [
        draw(
            a_pod(f"w{index}", is_plain, nominated=draw(st.sampled_from(nodes)).name, priority=draw(st.integers(1, 3)))
        )
        for index in range(draw(st.integers(0, 2)))
    ]
    budgets = [
        budget(
            f"b{index}",
            draw(st.sampled_from(({"app": "web"}, {"app": "db"}, {"tier": "front"}))),
            allowed=draw(st.integers(-1, 2)),
            namespace=draw(st.sampled_from(("default", "other"))),
            disrupted={"p1": "2026-01-01T00:00:00Z"} if draw(st.booleans()) else None,
        )
        for index in range(draw(st.integers(0, 3)))
    ]
    spread = [] if is_plain else draw(st.sampled_from(([], [], [spread_json(ZONE, {"app": "web"})])))
    preemptor = draw(a_pod("preemptor", is_plain, priority=draw(st.integers(0, 3)), spread=spread))
    return Situation(nodes, [*placed, *nominated], budgets), preemptor


@st.composite
def policies(draw: Any) -> PreemptionPolicy:
    return PreemptionPolicy(
        pdb_policy=draw(st.sampled_from(PDBPolicy)),
        victim_schedulers=draw(st.sampled_from((None, frozenset({"tandem-scheduler"}), frozenset({"unknown"})))),
        victims_in_flight=(PodInfo(pod("p0", labels={"app": "web"})),) if draw(st.booleans()) else (),
    )


def answer_of(context: PostFilterContext, policy: PreemptionPolicy, extent: Extent, columns: PodColumns | None) -> Any:
    answer = evaluate(context, extent, policy, columns)
    evidence = evidence_of(answer)
    assert evidence.faults == ()
    candidates = [
        (one.node_name, [info.uid for info in one.victims], one.pdb_violations) for one in evidence.candidates
    ]
    return answer.status, answer.nomination, candidates, evidence.refusals, evidence.best, evidence.criterion


@settings(max_examples=150)
@given(situations(), policies(), st.sampled_from((ALL, Extent(10, 1), Extent(0, 2))))
def test_waves_answer_exactly_as_the_plain_dry_run(
    given_situation: tuple[Situation, Pod], policy: PreemptionPolicy, extent: Extent
) -> None:
    situation, preemptor = given_situation
    statuses = {name: unschedulable("full") for name in situation.cache.table.names}
    expected = answer_of(situation.attempt(preemptor, statuses=statuses), policy, extent, None)
    assert answer_of(situation.attempt(preemptor, statuses=statuses), policy, extent, PodColumns()) == expected
    situation.cache.check()


@settings(max_examples=60)
@given(situations(is_plain=True), policies())
def test_plain_resources_are_answered_by_waves_alone(
    given_situation: tuple[Situation, Pod], policy: PreemptionPolicy
) -> None:
    situation, preemptor = given_situation
    statuses = {name: unschedulable("full") for name in situation.cache.table.names}
    context = situation.attempt(preemptor, statuses=statuses)
    trial = trial_of(context, policy)
    filters = wave_filters(trial)
    assert filters is not None
    rows = potential_rows(context)
    columns = PodColumns()
    answers = wave_answers(trial, rows, columns, filters)
    clocks_agree = columns.last_start[rows] < context.now_nanoseconds
    assert answers.keys() >= set(rows[clocks_agree].tolist())
    for row, answer in answers.items():
        judged = dry_run_node(trial, row)
        assert answer == judged


@settings(max_examples=60)
@given(situations(), st.data())
def test_what_attempts_keep_for_each_other_follows_the_cluster(
    given_situation: tuple[Situation, Pod], data: st.DataObject
) -> None:
    situation, preemptor = given_situation
    columns = PodColumns()
    for step in range(3):
        statuses = {name: unschedulable("full") for name in situation.cache.table.names}
        expected = answer_of(situation.attempt(preemptor, statuses=statuses), UPSTREAM_POLICY, ALL, None)
        found = answer_of(situation.attempt(preemptor, statuses=statuses), UPSTREAM_POLICY, ALL, columns)
        assert found == expected
        placed = sorted(situation.cache.pods)
        if placed:
            known = situation.cache.pods[data.draw(st.sampled_from(placed))]
            if data.draw(st.booleans()):
                situation.cache.remove_pod(known.uid)
            else:
                # What identifies a pod never changes.
                fields = {"node": known.node_name, "priority": known.priority, "uid": known.uid}
                fields["namespace"] = known.namespace
                situation.cache.observe_pod(PodInfo(data.draw(a_pod(known.name, False, **fields))))
        row_name = situation.cache.table.names[0]
        situation.cache.observe_pod(PodInfo(data.draw(a_pod(f"new-{step}", False, node=row_name, priority=-1))))


def crowded(count: int) -> Situation:
    pods = [pod(f"p{index}", cpu="10m", node="n1", priority=index % 7) for index in range(count)]
    return Situation([node("n1", cpu="8", pods=count), node("n2", cpu="8", pods=1)], pods)


def test_rows_with_more_pods_than_are_kept_are_tried_plainly() -> None:
    situation = crowded(600)
    preemptor = pod("preemptor", cpu="7", priority=9)
    columns = PodColumns()
    expected = answer_of(situation.attempt(preemptor), UPSTREAM_POLICY, ALL, None)
    assert answer_of(situation.attempt(preemptor), UPSTREAM_POLICY, ALL, columns) == expected
    assert len(expected[2][0][1]) == 500
    assert not columns.is_kept[situation.cache.table.row("n1")]


class FewPods(FilterPlugin):
    """Counts the pods themselves."""

    name = "FewPods"
    reads = Reads.USAGE

    def filter(self, state: State, pod: PodInfo, view: Any, rows: Rows) -> Verdicts | None:
        listed = range(view.table.size)[rows] if isinstance(rows, slice) else rows.tolist()
        codes = np.array([len(view.table.pods[row]) > 3 for row in listed], np.int16)
        return Verdicts(codes, (unschedulable("crowded"),))


class FewPodsUndeclared(FewPods):
    name = "FewPodsUndeclared"
    reads = Reads.UNDECLARED


def test_a_plugin_that_looks_at_the_pods_themselves_is_asked_plainly() -> None:
    for plugin in (FewPods(), FewPodsUndeclared()):
        pods = [pod(f"p{index}", node="n1", priority=index) for index in range(6)]
        situation = Situation([node("n1")], pods, added_plugins=[plugin])
        context = situation.attempt(pod("preemptor", priority=9))
        evidence = evidence_of(evaluate(context, ALL, columns=PodColumns()))
        assert [info.name for info in evidence.victims] == ["p2", "p1", "p0"]


class NoTally(State):
    """Fails where preemption asks about many nodes at once, and nowhere else."""

    def tallies(self, pods: RowPods) -> tuple[Tally, ...]:
        raise ValueError("no tally")


class Tallying(PreFilterPlugin, FilterPlugin):
    name = "Tallying"

    def pre_filter(self, pod: PodInfo, view: Any) -> State:
        return NoTally()

    def filter(self, state: State, pod: PodInfo, view: Any, rows: Rows) -> Verdicts | None:
        return None


def test_a_wave_that_fails_says_so_and_its_nodes_are_tried_one_by_one() -> None:
    pods = [
        pod(f"p{place}-{index}", cpu="1", node=f"n{place}", priority=index) for place in range(3) for index in (1, 2)
    ]
    situation = Situation([node(f"n{place}", cpu="2") for place in range(3)], pods, added_plugins=[Tallying()])
    preemptor, columns = pod("preemptor", cpu="1", priority=9), PodColumns()
    expected = evaluate(situation.attempt(preemptor), ALL)
    for _ in range(2):
        answer = evaluate(situation.attempt(preemptor), ALL, columns=columns)
        assert (answer.nomination, answer.room) == (expected.nomination, expected.room)
        assert evidence_of(answer).candidates == evidence_of(expected).candidates
        assert evidence_of(answer).faults == ("ValueError: no tally in NoTally.tallies",)
    assert evidence_of(expected).faults == ()


def test_required_anti_affinity_is_answered_by_waves_on_every_node() -> None:
    web = {"app": "web"}
    nodes = [node(f"n{place}", cpu="4") for place in range(6)]
    pods = [
        pod(
            f"p{place}-{index}", cpu="1", node=f"n{place}", priority=index, labels=web if index == 3 - place % 4 else {}
        )
        for place in range(6)
        for index in range(4)
    ]
    situation = Situation(nodes, pods)
    alone = affinity_json(anti_required=[pod_term(web, HOST)])
    trial = trial_of(situation.attempt(pod("preemptor", cpu="1", priority=9, affinity=alone)), UPSTREAM_POLICY)
    filters = wave_filters(trial)
    assert filters is not None
    rows = trial.view.ordered_rows
    answers = wave_answers(trial, rows, PodColumns(), filters)
    assert answers == {row: dry_run_node(trial, row) for row in rows.tolist()}
    assert all(isinstance(answer, Candidate) and len(answer.victims) == 1 for answer in answers.values())


def test_a_victim_that_does_not_come_back_is_not_counted_any_more() -> None:
    web = {"app": "web"}
    nodes = [node("n1", cpu="4", zone="a"), node("n2", cpu="1", zone="b")]
    pods = [
        pod("large", cpu="3", node="n1", priority=2, labels=web),
        pod("small", cpu="1", node="n1", priority=1, labels=web),
    ]
    preemptor = pod("preemptor", cpu="2", priority=9, labels=web, spread=[spread_json(ZONE, web, max_skew=2)])
    trial = trial_of(Situation(nodes, pods).attempt(preemptor), UPSTREAM_POLICY)
    filters = wave_filters(trial)
    assert filters is not None
    answers = wave_answers(trial, trial.view.ordered_rows[:1], PodColumns(), filters)
    (answer,) = answers.values()
    assert isinstance(answer, Candidate)
    assert [info.name for info in answer.victims] == ["large"]
