"""Reasons, and what becomes of nominations, where a group does not start (docs/kube-scheduler/podgroups.md §6, §8)."""

from __future__ import annotations

from scheduler.messages.commands import DeletePod, PatchPodStatus
from tests.engine.gangs import GANGS, TOPOLOGY, Gangs, topology

PREEMPTION = "WorkloadAwarePreemption=true"
NO_CANDIDATES = "No preemption victims found for incoming preemptor"


def test_of_two_schedulers_the_one_that_differs_from_the_first_pod_s_comes_first() -> None:
    cluster = Gangs(configuration={"profiles": [{"schedulerName": "tandem-scheduler"}, {"schedulerName": "other"}]})
    cluster.node("n", cpu="3")
    cluster.group(min_count=2)
    cluster.member("less", cpu="1", scheduler="other")
    cluster.member("first", cpu="1", priority=5)
    cluster.schedule_all()
    assert cluster.reason_of("first")[1].endswith('got: "other" and "tandem-scheduler"')


def test_a_member_that_had_a_node_waits_for_the_victims_with_the_group_s_reason() -> None:
    cluster = Gangs(f"{TOPOLOGY},{PREEMPTION}")
    cluster.node("n", cpu="2")
    cluster.pod("victim", cpu="1", node="n", priority=0)
    cluster.group(min_count=2, priority=10)
    cluster.member("fits", cpu="1", priority=10)
    cluster.member("waits", cpu="1", priority=9)
    cluster.schedule_all()
    assert cluster.write(PatchPodStatus, "victim").condition is not None
    text = "0/1 placements are available, first placement status: pod group is unschedulable"
    assert cluster.conditions() == [("False", "Unschedulable", text)]
    assert cluster.reason_of("fits") == ("Unschedulable", text)


def test_without_a_generator_the_nodes_are_the_one_placement() -> None:
    profile = {"plugins": {"multiPoint": {"disabled": [{"name": "TopologyPlacementGenerator"}]}}}
    cluster = Gangs(TOPOLOGY, configuration={"profiles": [profile]})
    cluster.node("n", cpu="1")
    cluster.group(min_count=2)
    cluster.member("a", cpu="1")
    cluster.member("b", cpu="1")
    cluster.schedule_all()
    text = "0/1 placements are available, first placement status: pod group is unschedulable"
    assert cluster.conditions() == [("False", "Unschedulable", text)]


def test_a_group_without_any_domain_keeps_its_nominations() -> None:
    cluster = Gangs(TOPOLOGY)
    cluster.node("n", cpu="8")
    cluster.group(min_count=1, **topology("nowhere"))
    cluster.member("a", cpu="1", nominated="n")
    cluster.schedule_all()
    assert cluster.conditions() == [("False", "Unschedulable", "no feasible placements found")]
    assert cluster.nominated("a") == "n"


def test_pods_whose_node_is_gone_are_no_victims_of_a_group() -> None:
    cluster = Gangs(f"{GANGS},{PREEMPTION}")
    cluster.node("full", cpu="1")
    cluster.pod("more-important", cpu="1", node="full", priority=20)
    cluster.node("gone", cpu="1")
    cluster.pod("left-behind", cpu="1", node="gone", priority=0)
    cluster.remove_node("gone")
    cluster.group(min_count=1, priority=10)
    cluster.member("a", cpu="1", priority=10)
    cluster.schedule_all()
    assert cluster.writes(DeletePod) == []
    assert cluster.conditions() == [("False", "Unschedulable", f"pod group is unschedulable, {NO_CANDIDATES}")]


def test_a_pod_that_names_a_group_preempts_not_for_itself_while_there_is_no_such_group() -> None:
    """Without GangScheduling nothing else keeps it from being tried."""
    profile = {"plugins": {"multiPoint": {"disabled": [{"name": "GangScheduling"}]}}}
    cluster = Gangs(f"{GANGS},{PREEMPTION}", configuration={"profiles": [profile]})
    cluster.node("n", cpu="1")
    cluster.pod("less-important", cpu="1", node="n", priority=0)
    cluster.member("a", cpu="1", priority=10)
    cluster.schedule_all()
    assert cluster.writes(PatchPodStatus, "less-important") == []
    assert cluster.reason_of("a") == (
        "SchedulerError",
        'failed to get pod group object: podgroup.scheduling.k8s.io "g" not found',
    )


def test_a_member_that_was_tried_in_a_victim_s_place_does_not_take_its_host_port_along() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="4")
    cluster.pod("low", cpu="1", node="n", priority=0, ports=[80])
    cluster.group(min_count=2)
    cluster.member("a", cpu="1", priority=10, ports=[80])
    cluster.member("b", cpu="9", priority=10)
    cluster.schedule_all()
    assert cluster.writes(PatchPodStatus, "low") == [], "the group does not fit, whatever is removed"
    cluster.delete("b")
    cluster.member("c", cpu="1", priority=10)
    cluster.advance(30)
    cluster.schedule_all()
    assert cluster.bound() == {}
    assert cluster.write(PatchPodStatus, "low").condition is not None
