"""Extenders that are asked where room is made, and what their answers do."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.attempt import UNSCHEDULABLE
from scheduler.messages.commands import CallExtender, DeletePod
from tests.engine.driver import Cluster
from tests.engine.test_extenders import answer, asked, cluster_with, extender


def preempting(**fields: Any) -> Cluster:
    cluster = cluster_with(extender(1, preemptVerb="preempt", **fields), nodes=2)
    for number in range(2):
        cluster.pod(f"low{number}", cpu="4", node=f"n{number}", priority=number)
    cluster.pod("high", cpu="4", priority=10)
    cluster.schedule()
    return cluster


def test_an_extender_chooses_where_room_is_made() -> None:
    cluster = preempting()
    assert asked(cluster, "preempt")["NodeNameToMetaVictims"] == {
        f"n{number}": {"Pods": [{"UID": cluster.uid(f"low{number}")}], "NumPDBViolations": 0} for number in range(2)
    }
    answer(cluster, {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": cluster.uid("low1")}]}}})
    assert cluster.nominated("high") == "n1"


def test_an_extender_that_keeps_no_node_means_no_preemption() -> None:
    cluster = preempting()
    answer(cluster, {})
    assert cluster.nominated("high") == ""
    assert cluster.writes(DeletePod) == []


@pytest.mark.parametrize(
    "victims", [{"n0": {"Pods": [{"UID": "stranger"}]}}, {"n0": {"Pods": []}}, {"elsewhere": {"Pods": [{"UID": "x"}]}}]
)
def test_victims_that_are_not_there_end_the_preemption(victims: Any) -> None:
    cluster = preempting()
    answer(cluster, {"NodeNameToMetaVictims": victims})
    assert cluster.nominated("high") == ""
    assert cluster.writes(DeletePod) == []


def test_where_its_failure_is_ignored_a_node_that_it_leaves_without_victims_is_dropped_alone() -> None:
    cluster = preempting(ignorable=True)
    answer(cluster, {"NodeNameToMetaVictims": {"n0": {"Pods": []}, "n1": {"Pods": [{"UID": cluster.uid("low1")}]}}})
    assert cluster.nominated("high") == "n1"


def test_no_pod_as_important_as_the_preemptor_is_made_a_victim() -> None:
    cluster = cluster_with(extender(1, preemptVerb="preempt"), nodes=1)
    cluster.pod("low", cpu="2", node="n0", priority=0)
    cluster.pod("equal", cpu="2", node="n0", priority=10)
    cluster.pod("high", cpu="2", priority=10)
    cluster.schedule()
    answer(cluster, {"NodeNameToMetaVictims": {"n0": {"Pods": [{"UID": cluster.uid("equal")}]}}})
    assert cluster.nominated("high") == ""
    assert cluster.writes(DeletePod) == []


def test_an_extender_names_no_victim_of_another_scheduler_where_only_our_own_may_go() -> None:
    own = {"preemption": {"victimScope": "own"}}
    cluster = cluster_with(extender(1, preemptVerb="preempt"), nodes=1, tandem=own)
    cluster.pod("low", cpu="2", node="n0", priority=0)
    cluster.pod("other", cpu="2", node="n0", priority=0, scheduler="default-scheduler")
    cluster.pod("high", cpu="2", priority=10)
    cluster.schedule()
    answer(cluster, {"NodeNameToMetaVictims": {"n0": {"Pods": [{"UID": cluster.uid("other")}]}}})
    assert "which another scheduler has placed" in cluster.attempt("high").message
    assert cluster.nominated("high") == ""
    assert cluster.writes(DeletePod) == []


def test_where_its_failure_is_ignored_the_former_choice_stands() -> None:
    cluster = preempting(ignorable=True)
    cluster.fail(cluster.write(CallExtender))
    assert cluster.nominated("high") == "n0"


def test_a_refusal_that_only_an_extender_knows_empties_no_node_and_is_no_error() -> None:
    cluster = cluster_with(extender(1, filterVerb="filter"), nodes=1)
    cluster.pod("low", cpu="1", node="n0", priority=0)
    cluster.pod("high", cpu="1", priority=10)
    cluster.schedule()
    answer(cluster, {"FailedNodes": {"n0": "no"}})
    assert cluster.attempt("high").result == UNSCHEDULABLE
    assert cluster.writes(DeletePod) == []


def refused_by_an_extender_that_preempts(**fields: Any) -> Cluster:
    """Of two nodes that the plugins accept; a pod of low priority runs on each."""
    cluster = cluster_with(extender(1, filterVerb="filter", preemptVerb="preempt", **fields), nodes=2)
    for number in range(2):
        cluster.pod(f"low{number}", cpu="1", node=f"n{number}", priority=0)
    cluster.pod("high", cpu="1", priority=10)
    cluster.schedule()
    answer(cluster, {"FailedNodes": {"n0": "no", "n1": "no"}})
    return cluster


def test_an_extender_that_alone_refused_a_node_may_name_the_victims_there() -> None:
    cluster = refused_by_an_extender_that_preempts()
    no_victims = {"Pods": [], "NumPDBViolations": 0}
    assert asked(cluster, "preempt")["NodeNameToMetaVictims"] == {"n0": no_victims, "n1": no_victims}
    answer(cluster, {"NodeNameToMetaVictims": {"n0": no_victims, "n1": {"Pods": [{"UID": cluster.uid("low1")}]}}})
    assert cluster.nominated("high") == "n1"


@pytest.mark.parametrize("ignorable", [True, False])
def test_one_that_names_no_victims_there_makes_no_room_and_no_error(ignorable: bool) -> None:
    cluster = refused_by_an_extender_that_preempts(ignorable=ignorable)
    answer(cluster, {"NodeNameToMetaVictims": {"n0": {"Pods": []}, "n1": {"Pods": []}}})
    assert cluster.nominated("high") == ""
    assert cluster.attempt("high").result == UNSCHEDULABLE
    assert cluster.writes(DeletePod) == []
