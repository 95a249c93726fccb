"""Preemption while everything else goes on: what kube-scheduler's own tests set up, and what must come of it.

Unless said otherwise there is one node of 4 CPU; nothing is answered before the test says so.
"""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.attempt import UNSCHEDULABLE
from scheduler.framework.plugin import PreFlight, State, Wait
from scheduler.messages.commands import BindPod, DeletePod, PatchPodStatus, RunPlugin
from scheduler.messages.status import SKIP, unresolvable, unschedulable
from scheduler.testing.fragments import affinity_json, pod_term
from tests.engine.driver import Cluster
from tests.engine.preempting import bound, cluster_of, is_gated, own_status, remove, running
from tests.engine.scripted import scripted

# --- basic ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("victims", [1, 2])
def test_a_preemptor_is_gated_until_its_victims_are_removed(victims: int) -> None:
    """Race 1, 2 of preemption with everything else."""
    cluster = cluster_of()
    running(cluster, victims, str(4 // victims))
    cluster.pod("high", cpu="4", priority=100)
    attempt = cluster.schedule()
    assert attempt is not None and attempt.result == UNSCHEDULABLE
    assert is_gated(cluster, "high")
    remove(cluster, *(f"low{number}" for number in range(victims)))
    assert cluster.schedule() is not None
    assert cluster.node_of("high") == "n"


class _Counting(State):
    """Pods that are on the node of a view."""

    def __init__(self, count: int) -> None:
        self.count = count

    def with_pod(self, view: Any, row: int, other: Any, sign: int) -> State:
        return _Counting(self.count + sign)


@pytest.mark.parametrize("kind", ["plain", "with state"])
def test_any_filter_can_be_satisfied_by_preemption(kind: str) -> None:
    """Race 3 of preemption with everything else."""
    plugin = scripted("OneEach", filter=lambda pod, node: None)
    if kind == "plain":
        plugin.filter_one = lambda self, state, pod, node, there: (  # type: ignore[attr-defined]
            unschedulable("taken") if there.pods else None
        )
    else:
        plugin = scripted("OneEach", pre_filter=lambda pod: None, filter=lambda pod, node: None)
        plugin.pre_filter = lambda self, pod, view: _Counting(int(view.table.pod_count.sum()))  # type: ignore[attr-defined]
        plugin.filter_one = lambda self, state, pod, node, there: (  # type: ignore[attr-defined]
            unschedulable("taken") if state.count else None
        )
    cluster = Cluster(plugin)
    cluster.node("n")
    running(cluster, 1)
    cluster.lingering = {"low0"}
    cluster.pod("high", priority=100)
    cluster.schedule()
    cluster.settle()
    low = cluster.pods["default/low0"]
    assert low.metadata.deletion_timestamp is not None
    assert low.condition("DisruptionTarget") is not None
    assert cluster.pods["default/high"].nominated_node_name == "n"


def test_a_refusal_that_no_eviction_changes_means_no_preemption() -> None:
    """Race 4 of preemption with everything else."""
    cluster = Cluster(scripted("Never", filter=lambda pod, node: unresolvable("never")))
    cluster.node("n")
    running(cluster, 1)
    cluster.pod("high", priority=100)
    cluster.schedule()
    assert cluster.nominated("high") == ""
    cluster.settle()
    assert "default/low0" in cluster.pods


@pytest.mark.parametrize(("priority", "dies"), [(1, True), (100, False), (200, False)])
def test_anti_affinity_removes_just_the_pod_in_conflict_if_it_is_less_important(priority: int, dies: bool) -> None:
    """Race 5 of preemption with everything else."""
    cluster = cluster_of()
    conflict = affinity_json(anti_required=[pod_term({"app": "high"})])
    cluster.pod("bystander", cpu="1", node="n", priority=1)
    cluster.pod("conflicting", cpu="1", node="n", priority=priority, affinity=conflict)
    cluster.pod("high", cpu="1", priority=100, labels={"app": "high"})
    cluster.schedule()
    cluster.settle()
    assert "default/bystander" in cluster.pods
    assert ("default/conflicting" not in cluster.pods) is dies
    assert bound(cluster, "high") == ("n" if dies else "")


@pytest.mark.parametrize("how", ["never", "disabled"])
def test_a_pod_that_must_not_preempt_waits(how: str) -> None:
    """Race 6 of preemption with everything else."""
    disabled = {"plugins": {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}}
    cluster = cluster_of(profile=disabled if how == "disabled" else None)
    running(cluster, 4)
    cluster.pod("high", cpu="4", priority=100, preemption_policy="Never" if how == "never" else None)
    cluster.schedule()
    cluster.settle()
    assert cluster.place("high") == "unschedulable"
    assert cluster.pods["default/high"].nominated_node_name == ""
    assert len(cluster.pods) == 5


# --- rivals -----------------------------------------------------------------------------------------------------------


def test_a_less_important_pod_respects_a_running_preemption() -> None:
    """Race 8 of preemption with everything else."""
    cluster = cluster_of()
    running(cluster, 2, "2")
    cluster.pod("high", cpu="4", priority=100)
    cluster.schedule()
    own_status(cluster, "high")
    cluster.pod("mid", cpu="4", priority=50)
    attempt = cluster.schedule()
    assert attempt is not None and attempt.pod == "default/mid"
    assert (attempt.victims, cluster.nominated("mid")) == ((), "")
    own_status(cluster, "mid")
    remove(cluster, "low0", "low1")
    cluster.settle()
    assert (bound(cluster, "high"), bound(cluster, "mid")) == ("n", "")


def test_a_more_important_pod_picks_the_same_victims_and_wins() -> None:
    """Race 9 of preemption with everything else."""
    cluster = cluster_of()
    running(cluster, 4)
    cluster.pod("high", cpu="4", priority=100)
    cluster.schedule()
    high_patches = {patch.pod.name: patch for patch in cluster.writes(PatchPodStatus)}
    cluster.pod("super", cpu="4", priority=200)
    attempt = cluster.schedule()
    assert attempt is not None and len(attempt.victims) == 4
    assert is_gated(cluster, "high") and is_gated(cluster, "super")
    own_status(cluster, "high", "super")
    for victim in ("low0", "low1", "low2"):
        cluster.succeed(next(each for each in cluster.writes(PatchPodStatus, victim) if each != high_patches[victim]))
        cluster.succeed(cluster.write(DeletePod, victim))
    remove(cluster, "low3")
    for victim in ("low0", "low1", "low2"):
        cluster.fail(high_patches[victim], 404, "not found")
    cluster.settle()
    assert (bound(cluster, "super"), bound(cluster, "high")) == ("n", "")
    assert len(cluster.engine.room) == 0
    assert cluster.ended_removals() == {"success": 2}


def test_two_preemptors_on_one_node_both_get_their_room() -> None:
    """Race 10 of preemption with everything else."""
    cluster = cluster_of()
    running(cluster, 4)
    cluster.pod("high", cpu="2", priority=100)
    cluster.pod("mid", cpu="2", priority=50)
    first, second = cluster.schedule(), cluster.schedule()
    assert first is not None and second is not None
    assert len(first.victims) == 2
    assert set(second.victims) == {f"default/low{number}" for number in range(4)}, (
        "no other pod fits beside the nominated one"
    )
    cluster.settle()
    assert (bound(cluster, "high"), bound(cluster, "mid")) == ("n", "n")


def test_a_preemptor_whose_room_was_taken_looks_elsewhere_and_does_not_sleep() -> None:
    """Race 11 of preemption with everything else."""
    cluster = cluster_of()
    running(cluster, 3, name="gone")
    cluster.pod("stuck", cpu="1", priority=1)
    cluster.schedule()
    stuck = cluster.write(BindPod, "stuck")
    cluster.pod("mid", cpu="4", priority=50)
    cluster.schedule()
    own_status(cluster, "mid")
    victims = [patch.pod.name for patch in cluster.writes(PatchPodStatus) if patch.pod.name.startswith("gone")]
    for name in victims:
        remove(cluster, name)
    cluster.node("m", cpu="4")
    running(cluster, 1, "4", name="other", node="m")
    cluster.pod("high", cpu="2", priority=100)
    attempt = cluster.schedule()
    while attempt is not None and attempt.pod != "default/high":
        attempt = cluster.schedule()
    assert attempt is not None
    assert cluster.node_of("high") == "n"
    cluster.succeed(stuck)
    cluster.settle()
    cluster.advance(30)
    cluster.settle()
    assert bound(cluster, "mid") == "m"
    assert cluster.is_quiet()


def test_a_preemptor_goes_before_the_many_small_pods_that_wait() -> None:
    """Race 12 of preemption with everything else."""
    cluster = cluster_of("5")
    for number in range(10):
        cluster.pod(f"low{number}", cpu="1", priority=1)
    cluster.schedule_all()
    while cluster.writes(BindPod):
        cluster.succeed(cluster.writes(BindPod)[0])
    cluster.pod("high", cpu="5", priority=100)
    cluster.settle()
    cluster.advance(30)
    cluster.settle()
    assert bound(cluster, "high") == "n"


@pytest.mark.parametrize("seed", range(5))
def test_pods_made_right_after_a_preemption_never_take_its_room(seed: int) -> None:
    """13 (kubernetes issue 72124)."""
    cluster = cluster_of(seed=seed)
    running(cluster, 2, "2", priority=50, name="mid")
    cluster.pod("high", cpu="3500m", priority=100)
    cluster.schedule()
    for number in range(20):
        cluster.pod(f"new{number}", cpu="1", priority=50)
    cluster.settle()
    cluster.advance(30)
    cluster.settle()
    assert bound(cluster, "high") == "n"
    assert not any(bound(cluster, f"new{number}") for number in range(20))


# --- a victim in flight -----------------------------------------------------------------------------------------------


def test_a_victim_whose_binding_hangs_is_deleted_and_its_room_is_free_at_once() -> None:
    """Race 14 of preemption with everything else."""
    cluster = cluster_of()
    cluster.pod("low", cpu="4", priority=1)
    cluster.schedule()
    bind = cluster.write(BindPod)
    cluster.pod("high", cpu="4", priority=100)
    cluster.schedule()
    remove(cluster, "low")
    cluster.schedule()
    assert cluster.node_of("high") == "n"
    cluster.fail(bind, 404)
    assert cluster.place("low") == ""


def test_a_victim_in_binding_with_a_long_grace_period_makes_room_once_it_terminates() -> None:
    """Race 15 of preemption with everything else."""
    cluster = cluster_of()
    cluster.lingering = {"low"}
    cluster.pod("low", cpu="4", priority=1)
    cluster.schedule()
    cluster.pod("high", cpu="4", priority=100)
    cluster.schedule()
    remove(cluster, "low")
    cluster.schedule()
    assert cluster.node_of("high") == "n"


def test_what_a_victim_in_binding_has_reserved_is_free_only_when_its_bind_has_ended() -> None:
    """Race 16 of preemption with everything else."""
    holder: set[str] = set()
    plugin = scripted(
        "License",
        filter=lambda pod, node: unschedulable("license is taken") if holder - {pod} else None,
        reserve=lambda pod, node: holder.add(pod),
        unreserve=lambda pod, node: holder.discard(pod),
    )
    cluster = Cluster(plugin)
    cluster.node("n", cpu="4")
    cluster.pod("low", cpu="4", priority=1)
    cluster.schedule()
    bind = cluster.write(BindPod)
    holder.clear()
    cluster.pod("high", cpu="4", priority=100)
    cluster.schedule()
    holder.add("low")
    remove(cluster, "low")
    attempt = cluster.schedule()
    assert attempt is not None and "license is taken" in attempt.message
    cluster.fail(bind, 404)
    assert holder == set()
    cluster.advance(15)
    cluster.settle()
    assert bound(cluster, "high") == "n"


@pytest.mark.parametrize("at", ["Permit", "PreBind"])
def test_a_victim_that_is_not_bound_yet_is_not_deleted_but_placed_elsewhere(at: str) -> None:
    """Race 17, 18 of preemption with everything else."""
    held = scripted(
        "Holds",
        permit=lambda pod, node: Wait(60) if at == "Permit" and (pod, node) == ("low", "big") else None,
        pre_flight=lambda pod, node: PreFlight() if at == "PreBind" and (pod, node) == ("low", "big") else SKIP,
    )
    cluster = Cluster(held)
    cluster.node("big", cpu="4")
    cluster.pod("low", cpu="1", priority=1)
    cluster.pod("runs", cpu="1", priority=1, node="big")
    cluster.schedule()
    cluster.node("small", cpu="1")
    cluster.pod("high", cpu="4", priority=100)
    cluster.schedule()
    assert cluster.writes(DeletePod, "low") == []
    cluster.unanswered = [command for command in cluster.unanswered if not isinstance(command, RunPlugin)]
    cluster.settle()
    cluster.advance(15)
    cluster.settle()
    assert (bound(cluster, "high"), bound(cluster, "low")) == ("big", "small")
    assert "default/runs" not in cluster.pods
    assert len(cluster.attempts("low")) == 2


def test_when_a_waiting_pod_is_deleted_the_next_is_tried_at_once() -> None:
    """Race 19 of preemption with everything else."""
    cluster = Cluster(scripted("Holds", permit=lambda pod, node: Wait(60) if pod == "first" else None))
    cluster.node("n", cpu="4")
    cluster.pod("first", cpu="4", priority=7)
    cluster.schedule()
    cluster.pod("second", cpu="4", priority=7)
    cluster.schedule()
    assert cluster.place("second") == "unschedulable"
    cluster.delete("first")
    attempt = cluster.schedule()
    assert attempt is not None and attempt.pod == "default/second"
    assert cluster.node_of("second") == "n"
    assert attempt.victims == ()
