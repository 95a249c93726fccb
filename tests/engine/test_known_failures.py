"""Attempts at pods like one that has just found no node: what they come to without asking any plugin."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.commands import RecordAttempt
from scheduler.framework.per_node import NodeView, PerNodeFilter
from scheduler.framework.plugin import State
from scheduler.messages.status import Refusal, unschedulable
from scheduler.objects.node import Node
from scheduler.preemption.evaluation import PreemptionEvidence
from tests.engine.driver import Cluster

WAITING = 30
TEMPLATES: tuple[dict[str, Any], ...] = (
    {"cpu": "1"},
    {"cpu": "3", "labels": {"app": "big"}},
    {"cpu": "2", "priority": 10},
    {"cpu": "100m", "priority": 10, "node_selector": {"disk": "ssd"}},
)


class ContentWithAll(PerNodeFilter):
    """Refuses nothing, but is a user's plugin: it may refuse the next pod, so each is tried."""

    name = "ContentWithAll"

    def filter_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> Refusal | None:
        return None


class RefusesSome(PerNodeFilter):
    """Goes by the pod's name."""

    name = "RefusesSome"

    def filter_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> Refusal | None:
        return unschedulable("not this one") if pod.name.endswith("7") else None


def full(cluster: Cluster) -> None:
    cluster.node("n", cpu="4", pods=1000)
    cluster.pod("runs", cpu="4", node="n")


def said(attempt: Attempt) -> tuple[object, ...]:
    return (
        attempt.pod,
        attempt.number,
        attempt.result,
        attempt.message,
        attempt.rejectors,
        attempt.nominated_node,
        attempt.victims,
        attempt.total_nodes,
        attempt.evaluated_nodes,
        attempt.feasible_nodes,
        tuple(attempt.durations),
        attempt.refused,
    )


def test_the_second_attempt_says_what_the_first_said_in_its_own_name() -> None:
    cluster = Cluster()
    full(cluster)
    for number in range(WAITING):
        cluster.pod(f"waits-{number:02}", cpu="1")
    cluster.schedule_all()
    first, *others = [cluster.attempts(f"waits-{number:02}")[0] for number in range(WAITING)]
    for number, attempt in enumerate(others, start=1):
        assert said(attempt)[1:] == said(first)[1:]
        assert attempt.pod == f"default/waits-{number:02}"
        assert attempt.diagnosis is None or first.diagnosis is None or attempt.diagnosis.codes is first.diagnosis.codes
        assert attempt.evaluated == first.evaluated
        assert attempt.was_class_known
    assert [cluster.place(f"waits-{number:02}") for number in range(WAITING)] == ["unschedulable"] * WAITING


def test_a_plugin_of_users_is_asked_about_each_pod() -> None:
    cluster = Cluster(RefusesSome, first=True)
    full(cluster)
    for number in range(WAITING):
        cluster.pod(f"waits-{number:02}", cpu="1")
    cluster.schedule_all()
    messages = {name: cluster.attempts(name)[0].message for name in ("waits-06", "waits-07", "waits-08")}
    assert "1 not this one" in messages["waits-07"]
    assert "1 Insufficient cpu" in messages["waits-06"] and messages["waits-06"] == messages["waits-08"]


def ends(is_each_tried: bool, operations: list[tuple[str, int]]) -> tuple[object, ...]:
    """What all attempts came to, what was written, and the state of chance at the end."""
    cluster = Cluster(*[ContentWithAll] * is_each_tried)
    cluster.node("n0", cpu="4", pods=1000)
    cluster.node("n1", cpu="2", pods=1000)
    pods = 0
    for what, which in operations:
        match what:
            case "pods":
                for _ in range(4):
                    cluster.pod(f"pod-{pods}", **TEMPLATES[which])
                    pods += 1
            case "node":
                cluster.node(
                    f"n{which % 2}", cpu=str(2 + which), pods=1000, labels={"disk": "ssd"} if which == 3 else {}
                )
            case "delete" if cluster.pods:
                cluster.delete(list(cluster.pods)[which % len(cluster.pods)].removeprefix("default/"))
            case "wait":
                cluster.advance(1.0 + which)
            case "settle":
                cluster.settle()
        cluster.schedule_all()
    cluster.settle()
    attempts = [said(command.attempt) for command in cluster.sent if isinstance(command, RecordAttempt)]
    others = [repr(command) for command in cluster.sent if not isinstance(command, RecordAttempt)]
    return attempts, others, cluster.engine.rng.getstate()


operations = st.tuples(st.sampled_from(("pods", "node", "delete", "wait", "settle")), st.integers(0, 3))


@given(st.lists(operations, min_size=4, max_size=14))
def test_attempts_end_as_if_each_pod_were_tried_in_full(sequence: list[tuple[str, int]]) -> None:
    assert ends(False, sequence) == ends(True, sequence)


# --- where rows have changed, but not what is said of them ------------------------------------------------------------


def test_an_attempt_that_finds_each_node_as_it_was_shares_the_diagnosis_before() -> None:
    cluster = Cluster()
    full(cluster)
    cluster.pod("waits", cpu="2")
    cluster.schedule_all()
    cluster.pod("tiny", cpu="0", node="n")
    cluster.pod("waits-too", cpu="2")
    cluster.schedule_all()
    first, second = cluster.attempt("waits"), cluster.attempt("waits-too")
    assert first.diagnosis is not None and second.diagnosis is not None
    assert second.diagnosis.codes is first.diagnosis.codes
    assert second.preemption is first.preemption


def test_an_attempt_names_the_node_that_has_taken_anothers_place() -> None:
    cluster = Cluster()
    full(cluster)
    cluster.pod("waits", cpu="2")
    cluster.schedule_all()
    cluster.delete("runs")
    cluster.remove_node("n")
    cluster.node("m", cpu="4", pods=1000)
    cluster.pod("runs-too", cpu="4", node="m")
    cluster.pod("waits-too", cpu="2")
    cluster.schedule_all()
    for name, node in (("waits", "n"), ("waits-too", "m")):
        evidence = cluster.attempts(name)[0].preemption
        assert isinstance(evidence, PreemptionEvidence)
        assert [names for _, names in evidence.refusals] == [(node,)]


def test_an_attempt_that_finds_a_node_otherwise_says_so() -> None:
    cluster = Cluster()
    full(cluster)
    cluster.pod("waits", cpu="2", memory="1Gi")
    cluster.schedule_all()
    cluster.node("n", cpu="4", memory="1Mi", pods=1000)
    cluster.pod("waits-too", cpu="2", memory="1Gi")
    cluster.schedule_all()
    messages = [cluster.attempts(name)[0].message for name in ("waits", "waits-too")]
    assert messages[0] != messages[1] and "Insufficient memory" in messages[1]
