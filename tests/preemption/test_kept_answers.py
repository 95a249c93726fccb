"""What was said of a row is said again to the next pod like the last one, for as long as it is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.cluster.nominator import Nominator
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.taken_table import TakenTable
from scheduler.framework.plugin import FilterPlugin, Plugin, Reads, Rows, State, Verdicts
from scheduler.framework.post_filter import PostFilterAnswer, PostFilterContext
from scheduler.framework.preemption_policy import UPSTREAM_POLICY, PreemptionPolicy
from scheduler.messages.status import Code, unschedulable
from scheduler.objects.pod import Pod
from scheduler.preemption.evaluation import Extent, begin_in_steps, conclude, evaluate
from scheduler.preemption.pod_columns import PodColumns
from scheduler.preemption.wavefront import ROWS_ALONE_A_STEP, ROWS_TRIED_A_STEP
from scheduler.preemption.what_if_table import WhatIfTable
from scheduler.testing.documents import PodFields
from scheduler.testing.objects import node, pod
from tests.builders import budget
from tests.preemption.situations import Situation, evidence_of

NODES = ("n0", "n1", "n2")
EVERY_NODE = Extent(100, 0)


class Watching(FilterPlugin):
    """Refuses nothing, and keeps the names of the nodes that it is asked about."""

    name = "Watching"
    reads = Reads.NODE

    def __init__(self, args: object = None) -> None:
        super().__init__(args)
        self.asked: set[str] = set()

    def filter(self, state: State, pod: PodInfo, view: Any, rows: Rows) -> Verdicts | None:
        names = np.array(view.table.names)
        self.asked |= set(names[rows].tolist())
        return None

    def take(self) -> set[str]:
        asked, self.asked = self.asked, set()
        return asked


class Stamped(FilterPlugin):
    """Its answers may change with objects that no row knows of."""

    name = "Stamped"
    reads = Reads.NODE

    def filter(self, state: State, pod: PodInfo, view: Any, rows: Rows) -> Verdicts | None:
        return None

    def stamp(self, fragment: Any, view: Any) -> int:
        return 1


def full_cluster(*plugins: Plugin, **objects: Any) -> Situation:
    pods = [pod(f"{name}-{index}", cpu="1", node=name, priority=1) for name in NODES for index in range(4)]
    return Situation([node(name, cpu="4") for name in NODES], pods, added_plugins=plugins, **objects)


def preemptor(number: int, **fields: Unpack[PodFields]) -> Pod:
    usual: PodFields = {"cpu": "2", "priority": 10}
    return pod(f"high-{number}", **(usual | fields))


class Attempts:
    """Attempts of pods that are alike, as the class cache makes them: their plugins' states are the same objects."""

    def __init__(self, situation: Situation, first: PostFilterContext) -> None:
        self.situation = situation
        self.columns = PodColumns()
        self._states = first.states
        self.nominator: Nominator | None = None
        self.later = 0
        """Nanoseconds by which the clock has gone on."""

    def of(
        self,
        one: Pod,
        policy: PreemptionPolicy = UPSTREAM_POLICY,
        columns: PodColumns | None = None,
        extent: Extent = EVERY_NODE,
        seed: int = 0,
    ) -> Any:
        return self._said(evaluate(self.context(one, seed), extent, policy, columns))

    def context(self, one: Pod, seed: int = 0) -> PostFilterContext:
        statuses = {name: unschedulable("full") for name in self.situation.cache.table.names}
        context = self.situation.attempt(one, statuses=statuses, seed=seed)
        context = replace(context, states=self._states, now_nanoseconds=context.now_nanoseconds + self.later)
        if self.nominator is not None:
            nominated = self.nominator.pods_for_node
            context = replace(context, nominations=self.nominator, nominated_pods=nominated)
        return context

    def in_steps(self, one: Pod, seed: int, meanwhile: Callable[[], Any]) -> tuple[int, Any]:
        """How often an attempt pauses, and what it says. ``meanwhile`` is called in each pause."""
        context, pauses = self.context(one, seed), 0
        steps = begin_in_steps(context, EVERY_NODE, UPSTREAM_POLICY, self.columns)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                begun = done.value
                is_over = isinstance(begun, PostFilterAnswer)
                return pauses, self._said(begun if is_over else conclude(context, begun, UPSTREAM_POLICY))
            pauses += 1
            meanwhile()

    def _said(self, answer: PostFilterAnswer) -> Any:
        evidence = evidence_of(answer)
        # The pods themselves: no two versions of one are equal.
        candidates = [(each.node_name, each.victims, each.cost) for each in evidence.candidates]
        return candidates, evidence.refusals, evidence.nominated_node

    def kept(self, one: Pod, policy: PreemptionPolicy = UPSTREAM_POLICY) -> Any:
        return self.of(one, policy, self.columns)


def attempts_in(situation: Situation) -> Attempts:
    return Attempts(situation, situation.attempt(preemptor(0)))


def test_the_second_pod_of_a_template_asks_only_about_the_nodes_that_have_changed() -> None:
    watching = Watching()
    attempts = attempts_in(full_cluster(watching))
    first = attempts.kept(preemptor(0))
    watching.take()
    assert attempts.kept(preemptor(1)) == first
    assert watching.take() == set()
    attempts.situation.cache.remove_pod("pod-n1-0")
    attempts.kept(preemptor(2))
    assert watching.take() == {"n1"}
    attempts.situation.nominated["n2"] = [PodInfo(pod("other", cpu="1", priority=10))]
    attempts.kept(preemptor(3))
    assert watching.take() == {"n2"}
    attempts.situation.cache.observe_node(node("n0", cpu="6"))
    attempts.kept(preemptor(4))
    assert watching.take() == {"n0"}


def test_a_status_that_no_filter_sees_leaves_an_answer_and_the_victims_are_the_pods_as_they_are_now() -> None:
    watching = Watching()
    attempts = attempts_in(full_cluster(watching))
    attempts.kept(preemptor(0))
    watching.take()
    cache = attempts.situation.cache
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    cache.observe_pod(PodInfo(pod("n1-3", cpu="1", node="n1", priority=1, status={"conditions": [condition]})))
    candidates, _, _ = attempts.kept(preemptor(1))
    assert watching.take() == set()
    victims = {info.key: info for _, victims, _ in candidates for info in victims}
    assert victims["default/n1-3"] is cache.placed("pod-n1-3")
    cache.observe_pod(PodInfo(pod("n1-3", cpu="1", node="n1", priority=1, labels={"app": "web"})))
    attempts.kept(preemptor(2))
    assert watching.take() == {"n1"}


class Tables(FilterPlugin):
    """Refuses nothing, and keeps the kinds of tables on which it is asked; ``fault``: the node where it raises."""

    name = "Tables"
    reads = Reads.NODE

    def __init__(self, args: object = None) -> None:
        super().__init__(args)
        self.kinds: set[type[object]] = set()
        self.fault = ""

    def filter(self, state: State, pod: PodInfo, view: Any, rows: Rows) -> Verdicts | None:
        self.kinds.add(type(view.table))
        if self.fault in view.table.names:
            raise ValueError("broken")
        return None


def test_a_few_rows_that_have_changed_are_tried_by_dry_runs_and_more_by_a_wave() -> None:
    tables = Tables()
    attempts = attempts_in(full_cluster(tables))
    attempts.kept(preemptor(0))
    assert tables.kinds == {WhatIfTable}
    tables.kinds.clear()
    attempts.situation.cache.remove_pod("pod-n1-0")
    attempts.kept(preemptor(1))
    assert tables.kinds == {TakenTable}
    tables.kinds.clear()
    attempts.situation.cache.remove_pod("pod-n0-1")
    attempts.situation.cache.remove_pod("pod-n1-1")
    attempts.situation.cache.remove_pod("pod-n2-1")
    attempts.kept(preemptor(2))
    assert tables.kinds == {WhatIfTable}


@pytest.mark.parametrize("seed", range(4))
def test_a_search_that_pauses_is_not_misled_by_another_pod_of_its_class(seed: int) -> None:
    names = [f"n{number}" for number in range(1_500)]
    pods = [pod(f"{name}-0", cpu="2", node=name, priority=1) for name in names]
    attempts = attempts_in(Situation([node(name, cpu="2") for name in names], pods))
    mine = preemptor(0, nominated="n700")
    attempts.situation.nominated["n700"] = [PodInfo(mine)]
    pauses, said = attempts.in_steps(mine, seed, lambda: attempts.kept(preemptor(1)))
    assert pauses >= 2
    assert said == attempts.of(mine, seed=seed)
    assert attempts.kept(preemptor(2)) == attempts.of(preemptor(2))


def test_a_search_pauses_where_little_is_known_of_its_rows_any_more() -> None:
    names = [f"n{number}" for number in range(2 * ROWS_TRIED_A_STEP + 1)]
    pods = [pod(f"{name}-0", cpu="2", node=name, priority=1) for name in names]
    attempts = attempts_in(Situation([node(name, cpu="2") for name in names], pods))
    attempts.kept(preemptor(0))
    assert attempts.in_steps(preemptor(1), 0, lambda: None) == (0, attempts.of(preemptor(1)))
    others = {name: [PodInfo(preemptor(number, nominated=name))] for number, name in enumerate(names, 10)}
    attempts.situation.nominated.update(others)
    assert attempts.in_steps(preemptor(2), 0, lambda: None) == (2, attempts.of(preemptor(2)))


class Undeclared(Watching):
    """Does not say what it reads: each node is tried by itself."""

    name = "Undeclared"
    reads = Reads.UNDECLARED


def test_a_search_of_each_node_by_itself_pauses_after_a_few_of_them() -> None:
    names = [f"n{number}" for number in range(3 * ROWS_ALONE_A_STEP + 1)]
    pods = [pod(f"{name}-0", cpu="2", node=name, priority=1) for name in names]
    situation = Situation([node(name, cpu="2") for name in names], pods, added_plugins=[Undeclared()])
    attempts = attempts_in(situation)
    assert attempts.in_steps(preemptor(0), 0, lambda: None) == (3, attempts.of(preemptor(0)))


def test_an_error_on_a_single_row_that_has_changed_is_not_kept() -> None:
    tables = Tables()
    attempts = attempts_in(full_cluster(tables))
    attempts.kept(preemptor(0))
    attempts.situation.cache.remove_pod("pod-n1-0")
    tables.fault = "n1"
    broken = attempts.kept(preemptor(1))
    assert any(refusal.code is Code.ERROR for refusal, _ in broken[1])
    tables.fault = ""
    assert attempts.kept(preemptor(2)) == attempts.of(preemptor(2))


def test_an_order_of_pods_that_the_clock_of_the_attempt_decides_is_not_kept() -> None:
    attempts = attempts_in(full_cluster())
    attempts.kept(preemptor(0))
    ahead = pod("n1-0", cpu="1", node="n1", priority=1, started="2026-06-01T00:00:01Z")
    attempts.situation.cache.observe_pod(PodInfo(ahead))
    before = attempts.kept(preemptor(1))
    assert before == attempts.of(preemptor(1))
    attempts.later = 2 * 10**9
    after = attempts.kept(preemptor(2))
    assert after == attempts.of(preemptor(2))
    assert after != before


def test_columns_that_forget_everything_in_the_middle_of_an_attempt_bring_no_old_answer_back() -> None:
    attempts = attempts_in(full_cluster())
    attempts.kept(preemptor(0))
    kept = attempts.columns.kept
    attempts.situation.cache.remove_pod("pod-n1-0")
    attempts.columns.clear()
    attempts.columns.kept = kept
    assert attempts.kept(preemptor(1)) == attempts.of(preemptor(1))


class NoTerms:
    """Knows no affinity terms."""

    def hold(self, info: PodInfo) -> None:
        pass

    def release(self, info: PodInfo) -> None:
        pass


def test_nominations_of_a_fork_hide_none_of_those_made_meanwhile() -> None:
    attempts = attempts_in(full_cluster())
    live = Nominator(None)
    attempts.nominator = live
    attempts.kept(preemptor(0))
    attempts.nominator = live.fork(NoTerms())
    for number in range(3):
        attempts.nominator.nominate(PodInfo(pod(f"fork-{number}", cpu="1", priority=10)), "n0")
    attempts.kept(preemptor(1))
    attempts.nominator = live
    live.nominate(PodInfo(pod("waits", cpu="3", priority=10)), "n1")
    assert attempts.kept(preemptor(2)) == attempts.of(preemptor(2))


def test_another_template_or_another_policy_is_evaluated_again() -> None:
    watching = Watching()
    attempts = attempts_in(full_cluster(watching))
    attempts.kept(preemptor(0))
    watching.take()
    attempts.kept(preemptor(1, cpu="3"))
    assert watching.take() == set(NODES)
    attempts.kept(preemptor(2), PreemptionPolicy(victim_schedulers=frozenset({"default-scheduler"})))
    attempts.kept(preemptor(3))
    assert watching.take() == set(NODES)


def test_nothing_is_kept_where_a_budget_or_a_plugin_looks_beyond_the_row() -> None:
    guard = budget("guard", {"app": "web"}, allowed=0)
    for situation in (full_cluster(Watching(), Stamped()), full_cluster(Watching(), objects=[guard])):
        (watching,) = (plugin for plugin in situation.plugins if isinstance(plugin, Watching))
        attempts = attempts_in(situation)
        for number in range(2):
            attempts.kept(preemptor(number))
            assert watching.take() == set(NODES)


NOMINATIONS = ("nominated", "not nominated")


@st.composite
def statuses_of(draw: st.DrawFn, name: str) -> Pod:
    """A pod of ``full_cluster`` on this node, with anything that changes while it runs."""
    fields: dict[str, Any] = {}
    if draw(st.booleans()):
        fields["status"] = {"conditions": [{"type": "Ready", "status": draw(st.sampled_from(("True", "False")))}]}
    if draw(st.booleans()):
        fields["deleted"] = "2026-06-01T00:00:00Z"
    if draw(st.booleans()):
        fields["started"] = draw(st.sampled_from(("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")))
    if draw(st.booleans()):
        fields["labels"] = {"app": draw(st.sampled_from(("web", "db")))}
    return pod(f"{name}-{draw(st.integers(0, 3))}", cpu="1", node=name, priority=1, **fields)


MANY = tuple(f"n{place}" for place in range(40))


@settings(max_examples=60)
@given(st.data())
def test_a_search_that_ends_early_goes_on_from_what_is_kept_as_if_nothing_were(data: st.DataObject) -> None:
    pods = [pod(f"{name}-{index}", cpu="1", node=name, priority=1) for name in MANY for index in range(4)]
    situation = Situation([node(name, cpu="4") for name in MANY], pods)
    attempts = attempts_in(situation)
    extent = Extent(data.draw(st.sampled_from((0, 10, 60))), data.draw(st.integers(1, 12)))
    for step in range(12):
        for name in data.draw(st.lists(st.sampled_from(MANY), max_size=4)):
            match data.draw(st.sampled_from(("gone", "status", *NOMINATIONS))):
                case "gone":
                    situation.cache.remove_pod(f"pod-{name}-{data.draw(st.integers(0, 3))}")
                case "status":
                    situation.cache.observe_pod(PodInfo(data.draw(statuses_of(name))))
                case "nominated":
                    waiting = PodInfo(pod(f"waits-{step}", cpu="3", priority=10))
                    situation.nominated[name] = [waiting]
                case "not nominated":
                    situation.nominated.pop(name, None)
        one = preemptor(step, cpu=data.draw(st.sampled_from("23")))
        seed = data.draw(st.integers(0, 100))
        assert attempts.of(one, columns=attempts.columns, extent=extent, seed=seed) == attempts.of(
            one, extent=extent, seed=seed
        )


@settings(max_examples=60)
@given(st.data())
def test_a_kept_answer_equals_a_fresh_evaluation(data: st.DataObject) -> None:
    situation = full_cluster()
    attempts = attempts_in(situation)
    for step in range(8):
        name = data.draw(st.sampled_from(NODES))
        match data.draw(st.sampled_from(("gone", "new", "other", "status", *NOMINATIONS, "node", "nothing"))):
            case "gone":
                situation.cache.remove_pod(f"pod-{name}-{data.draw(st.integers(0, 3))}")
            case "new":
                situation.cache.observe_pod(PodInfo(pod(f"new-{step}", cpu="1", node=name, priority=step % 3)))
            case "other":
                changed = pod(f"{name}-0", cpu="2", node=name, priority=data.draw(st.integers(0, 12)))
                situation.cache.observe_pod(PodInfo(changed))
            case "status":
                situation.cache.observe_pod(PodInfo(data.draw(statuses_of(name))))
            case "nominated":
                waiting = pod(f"waits-{step}", cpu="1", priority=data.draw(st.sampled_from((5, 10, 20))))
                situation.nominated.setdefault(name, []).append(PodInfo(waiting))
            case "not nominated":
                situation.nominated.pop(name, None)
            case "node":
                cordoned = data.draw(st.booleans())
                situation.cache.observe_node(node(name, cpu=data.draw(st.sampled_from("246")), unschedulable=cordoned))
        fields: dict[str, Any] = data.draw(st.sampled_from(({}, {"labels": {"app": "web"}}, {"priority": 5})))
        one = preemptor(step, **fields)
        assert attempts.kept(one) == attempts.of(one)
