"""Attempts of preemptors say and do what they would if nothing were kept from the attempts before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.commands import RecordAttempt
from scheduler.framework.diagnosis import Diagnosis, reason_counts
from scheduler.framework.per_node import NodeView, PerNodeFilter
from scheduler.framework.plugin import EMPTY_STATE, NodeSubset, PreFilterPlugin, Reads, State
from scheduler.messages.status import Refusal, unschedulable
from scheduler.objects.kinds import Kind
from scheduler.objects.node import Node
from tests.builders import service
from tests.engine.driver import Cluster

NODES = 6
TEMPLATES: tuple[dict[str, Any], ...] = (
    {"cpu": "3", "priority": 10},
    {"cpu": "2", "priority": 10, "memory": "1Gi"},
    {"cpu": "3", "priority": 20},
    {"cpu": "1", "priority": 10, "ports": [80]},
    {"cpu": "8", "priority": 10},
)


def full() -> Cluster:
    cluster = Cluster()
    for place in range(NODES):
        cluster.node(f"n{place}", cpu="4", memory="4Gi")
        for number in range(4):
            cluster.pod(f"low-{place}-{number}", cpu="1", memory="900Mi", priority=number % 2, node=f"n{place}")
    return cluster


def of_rows(diagnosis: Diagnosis | None) -> object:
    """What each row is refused for; a row may have its reasons under any number."""
    if diagnosis is None:
        return None
    at = [diagnosis.at(row) for row in range(len(diagnosis.codes))]
    return at, reason_counts(NODES, diagnosis), diagnosis.unschedulable_plugins, diagnosis.pending_plugins


def said(attempt: Attempt) -> tuple[object, ...]:
    return (
        attempt.pod,
        attempt.result,
        attempt.message,
        attempt.rejectors,
        attempt.nominated_node,
        attempt.victims,
        of_rows(attempt.diagnosis),
    )


def ends(forgets: bool, operations: list[tuple[str, int]]) -> tuple[object, ...]:
    """What all attempts came to, what was written, and the state of chance at the end."""
    cluster = full()
    attempts: list[object] = []

    def schedule_all() -> None:
        while True:
            if forgets:
                cluster.engine.cycles.replace_plugins(None)
            attempt = cluster.schedule()
            if attempt is None:
                return
            attempts.append(said(attempt))

    pods = 0
    for what, which in operations:
        match what:
            case "pods":
                for _ in range(3):
                    cluster.pod(f"high-{pods}", **TEMPLATES[which])
                    pods += 1
            case "delete" if cluster.pods:
                cluster.delete(list(cluster.pods)[7 * which % len(cluster.pods)].removeprefix("default/"))
            case "cordon":
                cluster.node(f"n{which}", cpu="4", memory="4Gi", unschedulable=True)
            case "wait":
                cluster.advance(1.0 + which)
            case "answer":
                for _ in range(1 + which):
                    if cluster.unanswered:
                        cluster.succeed(cluster.unanswered[0])
        schedule_all()
    others = [repr(command) for command in cluster.sent if not isinstance(command, RecordAttempt)]
    return attempts, others, cluster.engine.rng.getstate()


operations = st.tuples(
    st.sampled_from(("pods", "pods", "delete", "cordon", "wait", "answer", "answer")), st.integers(0, 4)
)


@settings(max_examples=40)
@given(st.lists(operations, min_size=3, max_size=10))
def test_preemptors_end_as_if_nothing_were_kept(sequence: list[tuple[str, int]]) -> None:
    assert ends(False, sequence) == ends(True, sequence)


def test_preemptors_that_fail_alike_share_their_diagnosis_beside_nominated_pods() -> None:
    cluster = full()
    for number in range(NODES):
        cluster.pod(f"high-{number}", **TEMPLATES[0])
    tried = [cluster.schedule() for _ in range(NODES)]
    found = [attempt.diagnosis for attempt in tried if attempt is not None and attempt.diagnosis is not None]
    assert len({attempt.nominated_node for attempt in tried if attempt is not None}) == len(found) == NODES
    assert all(diagnosis.codes is found[1].codes for diagnosis in found[1:])
    assert reason_counts(NODES, found[0]) == reason_counts(NODES, found[1]) == {"Insufficient cpu": NODES}


class ByServices(PerNodeFilter, PreFilterPlugin):
    """Closes one of two nodes, by the number of services, of which its stamp tells and its State does not."""

    name = "ByServices"
    reads = Reads.NODE
    said: State = EMPTY_STATE

    def fragment(self, pod: PodInfo, view: Any) -> Any:
        return ()

    def stamp(self, fragment: Any, view: Any) -> Any:
        return view.version(Kind.SERVICE)

    def pre_filter(self, pod: PodInfo, view: Any) -> State:
        return self.said

    def filter_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> Refusal | None:
        closed = len(node_view.view.all(Kind.SERVICE)) % 2
        return unschedulable("closed") if node.metadata.name == f"n{closed}" else None


class WithOneState(ByServices):
    """Gives the same State, of its own, to all pods."""

    name = "WithOneState"
    said = State()


class AmongTwoByServices(ByServices):
    name = "AmongTwoByServices"
    said = NodeSubset(frozenset(("n0", "n1")), State())


@pytest.mark.parametrize(
    ("plugin", "has_pre_filter"),
    [(ByServices, True), (ByServices, False), (WithOneState, True), (AmongTwoByServices, True)],
)
def test_a_dry_run_is_not_kept_past_a_change_that_only_the_stamp_of_a_plugin_tells(
    plugin: type[ByServices], *, has_pre_filter: bool
) -> None:
    disabled = [] if has_pre_filter else [{"name": plugin.name}]
    cluster = Cluster(plugin, profile={"plugins": {"preFilter": {"disabled": disabled}}})
    for name in ("n0", "n1"):
        cluster.node(name, cpu="4")
        for number in range(2):
            cluster.pod(f"low-{name}-{number}", cpu="2", priority=1, node=name)
    nominated = []
    for number in range(4):
        cluster.pod(f"high-{number}", cpu="2", priority=10)
        cluster.schedule()
        nominated.append(cluster.nominated(f"high-{number}"))
        cluster.show(service(f"s{number}", {"app": "web"}))
    assert nominated == ["n1", "n0", "n1", "n0"]


def test_a_filter_is_asked_again_when_its_stamp_changes_though_the_profile_leaves_its_pre_filter_out() -> None:
    cluster = Cluster(ByServices, profile={"plugins": {"preFilter": {"disabled": [{"name": ByServices.name}]}}})
    cluster.nodes_like(2)
    placed = []
    for number in range(3):
        cluster.pod(f"p{number}")
        cluster.schedule()
        placed.append(cluster.node_of(f"p{number}"))
        cluster.show(service(f"s{number}", {"app": "web"}))
    assert placed == ["n1", "n0", "n1"]
