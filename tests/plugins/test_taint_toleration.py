from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.events import Hint
from scheduler.messages.status import Code
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.taint_toleration import ComparingTaintToleration, TaintToleration
from scheduler.testing.objects import node
from tests.plugins.clusters import cluster, info, normalized_scores, raw_scores, refusals


def test_hard_taints_keep_a_pod_away_and_soft_ones_do_not() -> None:
    view = cluster(
        [
            node("plain"),
            node("no-schedule", taints=["k=v:NoSchedule"]),
            node("no-execute", taints=["k=v:NoExecute"]),
            node("prefer", taints=["k=v:PreferNoSchedule"]),
        ]
    )
    found = refusals(TaintToleration(), info(), view)
    assert sorted(found) == ["no-execute", "no-schedule"]
    assert found["no-execute"].code is Code.UNRESOLVABLE
    assert found["no-execute"].reasons == ("node(s) had untolerated taint(s)",)


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ("k=v:NoSchedule", True),
        ("k=v", True),
        ("k", True),
        ("", True),
        ("k=other:NoSchedule", False),
        ("other", False),
        ("k=v:NoExecute", False),
    ],
)
def test_a_toleration_covers_by_key_value_and_effect(toleration: str, fits: bool) -> None:
    view = cluster([node("n", taints=["k=v:NoSchedule"])])
    assert (not refusals(TaintToleration(), info(tolerations=[toleration]), view)) is fits


def test_every_hard_taint_must_be_tolerated() -> None:
    view = cluster([node("n", taints=["a=1:NoSchedule", "b=2:NoExecute"])])
    assert refusals(TaintToleration(), info(tolerations=["a"]), view)
    assert not refusals(TaintToleration(), info(tolerations=["a", "b"]), view)


def test_nodes_with_fewer_untolerated_soft_taints_score_higher() -> None:
    soft = [f"k{n}:PreferNoSchedule" for n in range(4)]
    view = cluster([node(f"n{count}", taints=soft[:count]) for count in range(5)])
    assert raw_scores(TaintToleration(), info(), view) == {"n0": 0, "n1": 1, "n2": 2, "n3": 3, "n4": 4}
    assert normalized_scores(TaintToleration(), info(), view) == {"n0": 100, "n1": 75, "n2": 50, "n3": 25, "n4": 0}
    tolerant = info(tolerations=["k0", "k3:NoSchedule"])
    assert raw_scores(TaintToleration(), tolerant, view) == {"n0": 0, "n1": 0, "n2": 1, "n3": 2, "n4": 3}


def test_without_soft_taints_every_node_gets_the_full_score() -> None:
    assert normalized_scores(TaintToleration(), info(), cluster([node("a"), node("b")])) == {"a": 100, "b": 100}


def test_a_node_wakes_pods_when_its_last_untolerated_taint_goes() -> None:
    hint = TaintToleration().events()[0].hint
    tainted, plain = node("n", taints=["a:NoSchedule"]), node("n")
    soft = node("n", taints=["a:PreferNoSchedule"])
    assert hint(info(), tainted, plain) is Hint.QUEUE
    assert hint(info(), tainted, soft) is Hint.QUEUE
    assert hint(info(), None, plain) is Hint.QUEUE
    assert hint(info(), None, tainted) is Hint.SKIP
    assert hint(info(), soft, plain) is Hint.SKIP
    assert hint(info(tolerations=["a"]), tainted, plain) is Hint.SKIP


def test_a_new_toleration_wakes_its_own_pod_only() -> None:
    hint = TaintToleration().events()[1].hint
    pod = info("a")
    assert hint(pod, pod, info("a", tolerations=["x"])) is Hint.QUEUE
    assert hint(info("b"), pod, info("a", tolerations=["x"])) is Hint.SKIP


# --- Gt and Lt --------------------------------------------------------------------------------------------------------


def comparing(operator: str, value: str, key: str = "level", **fields: Any) -> dict[str, Any]:
    return {"key": key, "operator": operator, "value": value, **fields}


def test_comparisons_of_tolerations_count_only_with_their_gate() -> None:
    view = cluster([node("low", taints=["level=3:NoSchedule"]), node("high", taints=["level=7:NoSchedule"])])
    above, below = info(tolerations=[comparing("Gt", "5")]), info(tolerations=[comparing("Lt", "5")])
    assert set(refusals(TaintToleration(), above, view)) == {"low", "high"}
    assert set(refusals(ComparingTaintToleration(), above, view)) == {"low"}
    assert set(refusals(ComparingTaintToleration(), below, view)) == {"high"}


def test_with_and_without_the_gate_two_schedulers_of_one_process_keep_their_answers_apart() -> None:
    view = cluster([node("high", taints=["level=7:NoSchedule"])])
    pod = info(tolerations=[comparing("Gt", "5")])
    for _ in range(2):
        assert not refusals(ComparingTaintToleration(), pod, view)
        assert refusals(TaintToleration(), pod, view)


def test_preferences_are_compared_too() -> None:
    view = cluster(
        [node("low", taints=["level=3:PreferNoSchedule"]), node("high", taints=["level=7:PreferNoSchedule"])]
    )
    pod = info(tolerations=[comparing("Gt", "5", effect="PreferNoSchedule")])
    assert raw_scores(TaintToleration(), pod, view) == {"low": 1, "high": 1}
    assert raw_scores(ComparingTaintToleration(), pod, view) == {"low": 1, "high": 0}


def test_a_node_whose_taint_changes_to_a_tolerated_number_wakes_the_pod() -> None:
    pod = info(tolerations=[comparing("Lt", "5")])
    before, after = node("n", taints=["level=7:NoSchedule"]), node("n", taints=["level=3:NoSchedule"])
    assert ComparingTaintToleration().events()[0].hint(pod, before, after) is Hint.QUEUE
    assert TaintToleration().events()[0].hint(pod, before, after) is Hint.SKIP


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
def test_no_comparison_tolerates_a_cordon_whose_taint_has_no_value(operator: str) -> None:
    pod = info(tolerations=[comparing(operator, "0", key="node.kubernetes.io/unschedulable")])
    assert refusals(NodeUnschedulable(), pod, cluster([node("n", unschedulable=True)]))
