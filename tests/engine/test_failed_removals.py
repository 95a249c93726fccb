"""Removals of victims that fail, or that find nothing left to remove."""

from __future__ import annotations

import pytest

from scheduler.framework.plugin import Wait
from scheduler.messages.commands import DeletePod, PatchPodStatus
from tests.engine.driver import Cluster
from tests.engine.preempting import GATED, bound, cluster_of, is_gated, own_status, remove, running
from tests.engine.scripted import scripted


@pytest.mark.parametrize("status", [403, 500])
def test_when_a_removal_fails_the_last_victim_is_spared_and_the_next_attempt_works(status: int) -> None:
    """Race 35 of preemption with everything else."""
    cluster = cluster_of("3")
    running(cluster, 3)
    cluster.pod("high", cpu="3", priority=100)
    cluster.schedule()
    own_status(cluster, "high")
    first, second = cluster.writes(PatchPodStatus)
    cluster.fail(first, status)
    cluster.succeed(second)
    assert len(cluster.pods) == 4
    assert not cluster.writes(PatchPodStatus) and not cluster.writes(DeletePod)
    cluster.settle()
    assert bound(cluster, "high") == "n"


def test_a_lesser_nomination_that_can_not_be_cleared_holds_up_nothing() -> None:
    """Race 36 of preemption with everything else."""
    cluster = cluster_of("2")
    cluster.pod("low", cpu="2", priority=1, node="n")
    cluster.pod("mid", cpu="2", priority=2)
    cluster.schedule()
    own_status(cluster, "mid")
    cluster.pod("high", cpu="2", priority=100)
    cluster.schedule()
    clearing = next(patch for patch in cluster.writes(PatchPodStatus, "mid") if patch.nominated_node_name == "")
    cluster.fail(clearing)
    cluster.settle()
    cluster.advance(15)
    cluster.settle()
    assert bound(cluster, "high") == "n"


def test_when_all_victims_terminate_already_nothing_is_written_and_the_pod_is_not_gated() -> None:
    """Race 38 of preemption with everything else."""
    cluster = cluster_of("2")
    cluster.pod("low", cpu="2", priority=1, node="n", deleted="2027-01-01T00:00:00Z")
    cluster.pod("high", cpu="2", priority=100)
    cluster.schedule()
    assert cluster.nominated("high") == "n"
    assert {patch.pod.name for patch in cluster.writes(PatchPodStatus)} == {"high"}
    assert not is_gated(cluster, "high")


def test_the_gate_gives_its_reason() -> None:
    cluster = cluster_of("1")
    running(cluster, 1)
    cluster.pod("high", cpu="1", priority=100)
    cluster.schedule()
    assert is_gated(cluster, "high")
    record = cluster.engine.queue.find("default/high")
    assert record is not None
    assert (record.gating_plugin, record.gating_reasons) == ("DefaultPreemption", (GATED,))


def test_the_priority_that_admission_wrote_counts_whatever_the_class_is_called() -> None:
    """7; that admission resolves the class, and refuses an unknown one, is shown against the embedded server."""
    cluster = cluster_of("1")
    cluster.pod("low", cpu="1", priority=5, node="n", spec={"priorityClassName": "sounds-important"})
    cluster.pod("equal", cpu="1", priority=5, spec={"priorityClassName": "system-node-critical"})
    cluster.pod("critical", cpu="1", spec={"priorityClassName": "system-node-critical"})
    cluster.schedule_all()
    assert cluster.writes(DeletePod) == []
    assert (cluster.attempt("equal").victims, cluster.attempt("critical").victims) == ((), ())
    cluster.pod("high", cpu="1", priority=6)
    attempt = cluster.schedule()
    assert attempt is not None and attempt.victims == ("default/low",)


@pytest.mark.parametrize("at", [PatchPodStatus, DeletePod])
def test_a_victim_that_is_not_found_is_as_good_as_removed_and_no_event_is_written(at: type) -> None:
    """Race 37 of preemption with everything else."""
    cluster = cluster_of("2")
    running(cluster, 2)
    cluster.pod("high", cpu="2", priority=100)
    cluster.schedule()
    own_status(cluster, "high")
    (first,) = {patch.pod.name for patch in cluster.writes(PatchPodStatus)}
    if at is DeletePod:
        cluster.succeed(cluster.write(PatchPodStatus, first))
    write: DeletePod | PatchPodStatus = cluster.write(at, first)
    cluster.delete(first)
    cluster.fail(write, 404, "not found")
    assert cluster.said(first, "Preempted") == []
    assert cluster.ended_removals() == {}, "the last victim is still to come"
    (last,) = {"low0", "low1"} - {first}
    remove(cluster, last)
    assert cluster.ended_removals() == {"success": 1}
    cluster.schedule()
    assert cluster.node_of("high") == "n"


def test_a_victim_that_has_the_condition_already_is_just_deleted() -> None:
    """Race 37 of preemption with everything else."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "tandem-scheduler: preempting to accommodate a higher priority pod",
    }
    cluster = cluster_of("1")
    cluster.pod("low", cpu="1", priority=1, node="n", status={"conditions": [condition]})
    cluster.pod("high", cpu="1", priority=100)
    cluster.schedule()
    own_status(cluster, "high")
    assert cluster.writes(PatchPodStatus) == []
    cluster.succeed(cluster.write(DeletePod, "low"))
    cluster.schedule()
    assert cluster.node_of("high") == "n"


def test_a_victim_that_another_component_disrupts_keeps_the_time_since_when_that_is_so() -> None:
    since = "2026-05-01T00:00:00Z"
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "drain"}
    cluster = cluster_of("1")
    status = {"conditions": [condition | {"lastTransitionTime": since}]}
    cluster.pod("low", cpu="1", priority=1, node="n", status=status)
    cluster.pod("high", cpu="1", priority=100)
    cluster.schedule()
    written = cluster.write(PatchPodStatus, "low").condition
    assert written is not None
    assert (written.reason, written.last_transition_time) == ("PreemptionByScheduler", since)


def test_when_the_only_victim_is_not_bound_yet_nothing_is_written_and_the_preemptor_is_queued() -> None:
    """18, with no other victim: the removal ends within the attempt that began it."""
    held = scripted("Holds", permit=lambda pod, node: Wait(60) if pod == "low" else None)
    cluster = Cluster(held)
    cluster.node("n", cpu="1")
    cluster.pod("low", cpu="1", priority=1)
    cluster.schedule()
    cluster.pod("high", cpu="1", priority=100)
    cluster.schedule()
    assert cluster.writes(DeletePod) == []
    assert cluster.said("low", "Preempted") == ["Preempted by pod pod-high on node n (in kube-scheduler memory)."]
    assert cluster.place("high") in ("active", "backoff")
    cluster.advance(1)
    cluster.settle()
    assert bound(cluster, "high") == "n"
    assert "default/low" in cluster.pods


def test_a_preemption_moves_on_only_when_each_deletion_was_asked_for_once() -> None:
    """Of the victims of one preemptor none is deleted twice, however often it is tried meanwhile."""
    cluster = cluster_of("3")
    cluster.lingering = {"low0", "low1", "low2"}
    running(cluster, 3)
    cluster.pod("high", cpu="3", priority=100)
    for _ in range(3):
        cluster.schedule_all()
        cluster.settle()
        cluster.engine.queue.activate(["default/high"], cluster.now)
    deleted = [command.pod.name for command in cluster.sent if isinstance(command, DeletePod)]
    assert sorted(deleted) == ["low0", "low1", "low2"]
