"""Where the volumes of a pod are the cause of an error: ``scheduler_volume_scheduling_stage_error_total`` and more."""

from __future__ import annotations

import pytest
from prometheus_client.exposition import generate_latest

from scheduler.controller.report.metrics import SchedulerMetrics
from scheduler.engine.attempt import Attempt
from scheduler.messages.commands import UpdateObject
from scheduler.messages.status import failure, unschedulable
from tests.engine.driver import Cluster
from tests.engine.scripted import scripted
from tests.plugins.volume_cases import delayed, free, no_provisioner

NAME = "scheduler_volume_scheduling_stage_error_total"


def counted(*attempts: Attempt) -> list[str]:
    """The series of a page of metrics after these attempts."""
    metrics = SchedulerMetrics(lambda: 0.0)
    for attempt in attempts:
        metrics.observe(attempt)
    lines = generate_latest(metrics.registry).decode().splitlines()
    assert f"# HELP {NAME} Volume scheduling stage error count" in lines
    return [line.removeprefix(NAME) for line in lines if line.startswith(NAME)]


def writing() -> tuple[Cluster, UpdateObject]:
    """Pod a, which has a node and whose volume is being written."""
    cluster = Cluster()
    cluster.node("n")
    for each in (no_provisioner(), delayed(), free("v")):
        cluster.show(each)
    cluster.pod("a", claims=["c"])
    cluster.schedule()
    return cluster, cluster.write(UpdateObject)


def test_a_volume_that_cannot_be_written_is_a_failed_bind() -> None:
    cluster, write = writing()
    cluster.fail(write, status=409)
    assert counted(*cluster.attempts("a")) == ['{operation="bind"} 1.0']


def test_the_volumes_of_a_pod_are_written_at_once_so_that_those_beside_one_that_fails_are_bound() -> None:
    cluster = Cluster()
    cluster.node("n")
    for each in (no_provisioner(), delayed(), free("v"), delayed("d"), free("w")):
        cluster.show(each)
    cluster.pod("a", claims=["c", "d"])
    cluster.schedule()
    first, second = cluster.writes(UpdateObject)
    cluster.fail(first, status=409)
    assert cluster.place("a") == "error backoff"
    cluster.succeed(second)
    assert {first.key, second.key} == {"v", "w"}


def test_a_claim_that_is_not_bound_in_time_is_a_failed_bind() -> None:
    cluster, write = writing()
    cluster.succeed(write)
    cluster.advance(601)
    assert "context deadline exceeded" in cluster.attempt("a").message
    assert counted(*cluster.attempts("a")) == ['{operation="bind"} 1.0']


def test_a_selector_that_makes_no_sense_is_a_failed_predicate() -> None:
    cluster = Cluster()
    cluster.node("n")
    wrong = {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}
    for each in (no_provisioner(), delayed(spec=wrong), free("v")):
        cluster.show(each)
    cluster.pod("a", claims=["c"])
    cluster.schedule()
    assert counted(*cluster.attempts("a")) == ['{operation="predicate"} 1.0']


def test_a_pod_that_fits_nowhere_for_its_volumes_is_no_failure() -> None:
    cluster = Cluster()
    cluster.node("n")
    for each in (no_provisioner(), delayed()):
        cluster.show(each)
    cluster.pod("a", claims=["c"])
    cluster.schedule()
    assert counted(*cluster.attempts("a")) == []


@pytest.mark.parametrize(
    ("answer", "failed"),
    [(failure("gone"), (("Reserve", "One"),)), (unschedulable("no"), ())],
    ids=["error", "rejection"],
)
def test_errors_in_reserve_are_noted_and_rejections_are_not(
    answer: object, failed: tuple[tuple[str, str], ...]
) -> None:
    cluster = Cluster(scripted("One", reserve=lambda pod, node: answer))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    assert cluster.attempt("a").failed == failed


def test_volumes_that_cannot_be_set_aside_any_more_are_a_failed_assumption() -> None:
    gone = Attempt("default/a", "1", "tandem", 1, 0, failed=(("Reserve", "VolumeBinding"), ("Reserve", "Other")))
    assert counted(gone) == ['{operation="assume"} 1.0']
