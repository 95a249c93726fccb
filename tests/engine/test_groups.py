"""Groups of pods: all that must start together, or none (docs/kube-scheduler/podgroups.md)."""

from __future__ import annotations

import pytest

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.group_attempt import GroupResult
from scheduler.framework.enqueue_context import EnqueueContext
from scheduler.framework.plugin import PreEnqueuePlugin
from scheduler.messages.commands import BindPod
from scheduler.messages.status import Refusal, unresolvable
from tests.engine.gangs import GANGS, TOPOLOGY, Gangs

# --- waiting for the others -------------------------------------------------------------------------------------------


def test_a_gang_waits_for_its_object_and_for_its_quorum_and_then_starts_at_once() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="4")
    cluster.members(2, cpu="1")
    assert [cluster.place(name) for name in ("g0", "g1")] == ["gated", "gated"]
    cluster.group(min_count=3)
    assert cluster.place("g0") == "gated"
    cluster.schedule_all()
    assert cluster.bound() == {}
    cluster.member("g2", cpu="1")
    cluster.schedule_all()
    assert cluster.bound() == {"g0": "n", "g1": "n", "g2": "n"}
    assert cluster.conditions() == [("True", "Scheduled", "")]


def test_a_gang_starts_on_no_node_that_is_cordoned() -> None:
    cluster = Gangs()
    cluster.node("closed", cpu="4", unschedulable=True)
    cluster.node("open", cpu="2")
    cluster.group(min_count=2)
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    assert cluster.bound() == {"g0": "open", "g1": "open"}


def test_the_members_of_gangs_that_are_to_be_tried_count_beside_other_pods() -> None:
    cluster = Gangs()
    cluster.group(min_count=2)
    cluster.members(2)
    cluster.pod("plain")
    assert cluster.engine.queue.pending_counts() == {"active": 3, "backoff": 0, "unschedulable": 0, "gated": 0}


def test_the_pod_that_completes_the_quorum_is_tried_before_those_that_waited_for_it() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="1")
    cluster.group(min_count=3)
    cluster.members(2, cpu="1")
    cluster.advance(1)
    cluster.member("last", cpu="1")
    cluster.schedule_all()
    assert cluster.reason_of("last")[1].startswith("pod group is unschedulable, waiting for minCount pods")
    for waited in ("g0", "g1"):
        assert cluster.reason_of(waited)[1].startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_why_a_member_is_gated_is_said_in_kube_schedulers_words() -> None:
    cluster = Gangs()
    cluster.member("g0")
    record = cluster.engine.queue.find("default/g0")
    assert record is not None
    assert record.gating_reasons == ('waiting for pods\'s pod group "g" to appear in scheduling queue',)
    cluster.group(min_count=2)
    assert record.gating_reasons == ("waiting for minCount pods from a gang to appear in scheduling queue",)


def test_without_the_gates_the_groups_of_pods_are_ignored() -> None:
    cluster = Gangs(gates="")
    cluster.node("n", cpu="4")
    cluster.member("g0", cpu="1")
    cluster.schedule_all()
    assert cluster.bound() == {"g0": "n"}


def test_of_groups_that_can_start_at_the_same_time_the_one_whose_pods_have_waited_longest_is_tried_first() -> None:
    for is_tried_between in (False, True):
        cluster = Gangs()
        cluster.node("n", cpu="2")
        cluster.members(2, "old", cpu="1")
        cluster.advance(1)
        cluster.group("new", min_count=2)
        cluster.members(2, "new", cpu="1")
        if is_tried_between:
            cluster.schedule_all()
        cluster.group("old", min_count=2)
        cluster.schedule_all()
        assert sorted(cluster.bound()) == (["new0", "new1"] if is_tried_between else ["old0", "old1"])


def test_a_group_without_quorum_starts_what_fits() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="2")
    cluster.group(min_count=None)
    cluster.members(3, cpu="1")
    cluster.schedule_all()
    assert len(cluster.bound()) == 2
    assert cluster.conditions() == [("True", "Scheduled", "")]


# --- all or none ------------------------------------------------------------------------------------------------------


def test_a_gang_that_does_not_fit_holds_nothing() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="2")
    cluster.group(min_count=3)
    cluster.members(3, cpu="1")
    cluster.schedule_all()
    assert cluster.bound() == {}
    assert cluster.engine.cache.assumed_count == 0
    assert cluster.conditions() == [("False", "Unschedulable", "pod group is unschedulable")]
    text = (
        "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, one or more plugins asked "
        "to wait and no plugin rejected pod"
    )
    said = sorted(cluster.reason_of(name) for name in ("g0", "g1", "g2"))
    assert said[1:] == [("Unschedulable", text), ("Unschedulable", text)]
    assert said[0][1].startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_two_gangs_that_each_could_hold_half_start_one_after_the_other() -> None:
    cluster = Gangs()
    cluster.nodes_like(4, cpu="1")
    for name in ("a", "b"):
        cluster.group(name, min_count=4)
    for number in range(4):
        for name in ("a", "b"):
            cluster.member(f"{name}{number}", name, cpu="1")
    cluster.schedule_all()
    started = {name[0] for name in cluster.bound()}
    assert len(cluster.bound()) == 4
    assert len(started) == 1
    for pod in [pod for pod in cluster.pods.values() if pod.name[0] in started]:
        cluster.succeed(cluster.write(BindPod, pod.name))
        cluster.delete(pod.name)
    cluster.advance(30)
    cluster.schedule_all()
    assert {name[0] for name in cluster.bound()} == {"a", "b"} - started


def test_more_members_than_the_quorum_start_as_far_as_they_fit_and_the_rest_joins_later() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="3")
    cluster.group(min_count=2)
    cluster.members(4, cpu="1")
    cluster.schedule_all()
    assert len(cluster.bound()) == 3
    cluster.node("m", cpu="1")
    cluster.advance(30)
    cluster.schedule_all()
    assert sorted(cluster.bound().values()) == ["m", "n", "n", "n"]


def test_a_member_with_a_scheduling_gate_counts_and_is_not_tried() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="3")
    cluster.group(min_count=3)
    cluster.members(2, cpu="1")
    cluster.member("held", cpu="1", gates=["a/b"])
    cluster.schedule_all()
    assert cluster.bound() == {}
    assert cluster.place("g0") == "error backoff"


def test_a_gang_of_several_schedulers_is_an_error() -> None:
    cluster = Gangs(
        configuration={"profiles": [{"schedulerName": "tandem-scheduler"}, {"schedulerName": "other"}]},
    )
    cluster.node("n", cpu="3")
    cluster.group(min_count=2)
    cluster.member("a", cpu="1")
    cluster.member("b", cpu="1", scheduler="other")
    cluster.schedule_all()
    assert cluster.bound() == {}
    reason, message = cluster.reason_of("a")
    assert reason == "SchedulerError"
    assert message.startswith("all pods in a single pod group should have the same .spec.schedulerName set, got: ")


def test_a_gang_gets_its_quorum_from_pods_that_run_already() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="4")
    cluster.member("running", cpu="1", node="n")
    cluster.group(min_count=3)
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    assert sorted(cluster.bound()) == ["g0", "g1"]


def test_members_see_each_other_on_the_nodes() -> None:
    cluster = Gangs()
    cluster.nodes_like(3, cpu="4", labels={})
    cluster.group(min_count=3)
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "w"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    for number in range(3):
        cluster.node(f"n{number}", cpu="4", labels={"kubernetes.io/hostname": f"n{number}"})
    cluster.members(3, cpu="1", labels={"app": "w"}, affinity=apart)
    cluster.schedule_all()
    assert sorted(cluster.bound().values()) == ["n0", "n1", "n2"]


# --- trying again -----------------------------------------------------------------------------------------------------


def test_a_gang_that_does_not_fit_is_not_tried_without_pause() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="2")
    cluster.group(min_count=3)
    cluster.members(3, cpu="1")
    for _ in range(60):
        cluster.schedule_all()
        cluster.advance(1)
    remembered = cluster.engine.group_reports.of("default/g")
    assert remembered is not None
    assert 5 <= remembered.attempts <= 12


def test_a_gang_comes_up_with_the_priority_of_the_pods_whose_back_off_is_over() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="1")
    cluster.group(min_count=1)
    cluster.member("before", cpu="2", priority=100)
    cluster.schedule_all()
    cluster.advance(1.5)
    # The second attempt of one pod is the first of the other, whose back-off is the shorter one.
    cluster.member("after", cpu="2", priority=0)
    cluster.schedule_all()
    cluster.advance(2)
    cluster.pod("plain", cpu="2", priority=50)
    cluster.schedule()
    assert len(cluster.attempts("plain")) == 1
    assert (len(cluster.attempts("before")), len(cluster.attempts("after"))) == (2, 1)


def test_a_gang_is_tried_again_although_a_gate_has_closed_for_some_of_its_pods() -> None:
    closed: set[str] = set()

    class Quota(PreEnqueuePlugin):
        name = "Quota"

        def pre_enqueue(self, pod: PodInfo, context: EnqueueContext) -> Refusal | None:
            return unresolvable("no quota") if pod.name in closed else None

    cluster = Gangs(plugins=(Quota,))
    cluster.node("n", cpu="1")
    cluster.group(min_count=2)
    cluster.members(3, cpu="2")
    cluster.schedule_all()
    closed.update(("g0", "g1"))
    for _ in range(60):
        cluster.advance(1)
        cluster.schedule_all()
    remembered = cluster.engine.group_reports.of("default/g")
    assert remembered is not None
    assert remembered.attempts >= 5


def test_room_that_appears_wakes_the_gang() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="2")
    cluster.group(min_count=3)
    cluster.members(3, cpu="1")
    cluster.schedule_all()
    cluster.node("m", cpu="1")
    cluster.schedule_all()
    assert len(cluster.bound()) == 3
    assert cluster.conditions()[-1] == ("True", "Scheduled", "")


def test_a_scheduled_gang_stays_scheduled_in_its_condition() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="2")
    cluster.group(min_count=2)
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    cluster.member("late", cpu="1")
    cluster.schedule_all()
    assert cluster.reason_of("late")[0] == "Unschedulable"
    assert cluster.conditions() == [("True", "Scheduled", "")]


# --- preemption, pod by pod -------------------------------------------------------------------------------------------


def test_a_gang_that_would_not_fit_even_with_preemption_costs_no_victim() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="2")
    for name in ("low0", "low1"):
        cluster.pod(name, cpu="1", node="n", priority=1)
    cluster.group(min_count=3)
    cluster.members(3, cpu="1", priority=10)
    cluster.settle()
    assert {"default/low0", "default/low1"} <= cluster.pods.keys()
    assert cluster.nominated("g0") == ""


@pytest.mark.parametrize(("min_count", "is_removed"), [(1, True), (2, False)])
def test_a_member_removes_a_sibling_only_where_the_gang_has_its_quorum_without_that(
    min_count: int, *, is_removed: bool
) -> None:
    cluster = Gangs()
    cluster.node("n", cpu="1")
    cluster.group(min_count=min_count)
    cluster.member("running", cpu="1", priority=1, node="n")
    cluster.member("urgent", cpu="1", priority=10)
    cluster.settle()
    assert ("default/running" not in cluster.pods) is is_removed
    assert cluster.node_of("urgent") == ("n" if is_removed else "")
    if not is_removed:
        assert cluster.reason_of("urgent") == ("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
        assert cluster.nominated("urgent") == ""


def test_a_gang_makes_room_for_all_its_members() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="2")
    for name in ("low0", "low1"):
        cluster.pod(name, cpu="1", node="n", priority=1)
    cluster.group(min_count=2)
    cluster.members(2, cpu="1", priority=10)
    cluster.schedule_all()
    assert cluster.conditions()[0] == (
        "False",
        "Unschedulable",
        "pod group is unschedulable, pod group is waiting for preemption to complete",
    )
    for _ in range(20):
        cluster.settle()
        cluster.advance(1)
    assert {cluster.pods[f"default/{name}"].node_name for name in ("g0", "g1")} == {"n"}
    assert "default/low0" not in cluster.pods


def test_the_result_of_each_attempt_is_remembered() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="1")
    cluster.group(min_count=2)
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    remembered = cluster.engine.group_reports.of("default/g")
    assert remembered is not None
    assert remembered.attempt.result is GroupResult.UNSCHEDULABLE
    assert remembered.attempt.tried == 2
    assert len(remembered.attempt.placed) == len(remembered.attempt.failed) == 1


@pytest.mark.parametrize("gates", [GANGS, TOPOLOGY])
def test_a_large_gang_is_bound_whole(gates: str) -> None:
    cluster = Gangs(gates)
    cluster.nodes_like(20, cpu="8")
    cluster.group(min_count=100)
    cluster.members(100, cpu="1")
    cluster.settle(2_000)
    assert all(pod.node_name for pod in cluster.pods.values())
