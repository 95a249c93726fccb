"""What if: workloads whose pods are a group."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.questions.edits import AddNodes, DeleteObject, PutObject, WrongQuestion
from scheduler.engine.questions.question import Asked
from scheduler.testing.documents import pod_json
from scheduler.testing.fragments import affinity_json, pod_term
from tests.engine.gangs import ZONE, Gangs
from tests.engine.questions.asking import ask, deployment
from tests.engine.test_coscheduling import Coscheduling


def gang_job(members: int, cpu: str = "1", of: str = "g") -> dict[str, Any]:
    spec = {
        "schedulingGroup": {"podGroupName": of},
        "containers": deployment(1, cpu)["spec"]["template"]["spec"]["containers"],
    }
    return {"kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": members, "template": {"spec": spec}}}


def gangs(cpu: str) -> Gangs:
    cluster = Gangs()
    cluster.node("n", cpu=cpu)
    cluster.group("g", min_count=3)
    return cluster


def test_a_workload_whose_pods_are_a_gang_is_placed_together() -> None:
    answer = ask(gangs("4"), workloads=(Asked(gang_job(3)),))
    assert [one.node for one in answer.placements] == ["n", "n", "n"]
    assert any("tried as a whole" in note for note in answer.notes)


def test_a_gang_that_does_not_fit_as_a_whole_takes_no_room_from_others() -> None:
    plain = pod_json("plain", cpu="2")
    answer = ask(gangs("2"), workloads=(Asked(gang_job(3)), Asked(plain)))
    found = {one.pod: one for one in answer.placements}
    assert (answer.placed, answer.pending) == (1, 3)
    assert found["default/plain"].node == "n"
    assert "group default/g needs 3 pods on nodes at once, and 2 of 3 found one" in found["default/j-1"].message
    assert "Insufficient cpu" in found["default/j-3"].message


def test_the_members_of_groups_that_a_question_makes_at_once_are_bounded() -> None:
    """Each workload is within its own limit: a hundred of them would be half a million pods in memory."""
    with pytest.raises(WrongQuestion, match="more than 20000 pods of groups"):
        ask(gangs("4"), workloads=(Asked(gang_job(5_000)),) * 5)


def test_a_gang_without_its_quorum_is_held_back() -> None:
    answer = ask(gangs("4"), workloads=(Asked(gang_job(2)),))
    assert {one.message.partition(":")[0] for one in answer.placements} == {"held back by GangScheduling"}


def test_a_gang_that_waits_is_tried_as_a_whole_once_there_is_room() -> None:
    cluster = gangs("2")
    cluster.members(3, cpu="1")
    assert ask(cluster, with_waiting=True).placed == 0
    assert ask(cluster, AddNodes("n"), with_waiting=True).placed == 3


def test_a_pod_group_of_either_api_can_be_put_and_deleted() -> None:
    cluster = Coscheduling()
    cluster.node("n", cpu="4")
    cluster.labelled("a", "b", cpu="1")
    document = {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMember": 2}}
    assert ask(cluster, PutObject({"apiVersion": "scheduling.x-k8s.io/v1alpha1", **document})).placed == 2
    assert ask(cluster, PutObject({"apiVersion": "scheduling.k8s.io/v1alpha2", **document})).placed == 0
    cluster.crd(minMember=2)
    assert ask(cluster, with_waiting=True).placed == 2
    assert ask(cluster, DeleteObject("PodGroup", "g"), with_waiting=True).placed == 0


@pytest.mark.parametrize(("quorum", "placed"), [(2, 2), (3, 0)])
def test_a_member_with_a_scheduling_gate_counts_for_the_quorum_and_gets_no_node(quorum: int, placed: int) -> None:
    cluster = Gangs()
    cluster.node("n", cpu="4")
    cluster.group(min_count=quorum)
    cluster.members(2, cpu="1")
    cluster.member("gated", cpu="1", spec={"schedulingGates": [{"name": "example.com/wait"}]})
    answer = ask(cluster, with_waiting=True)
    assert answer.placed == placed
    (gated,) = [one for one in answer.placements if one.pod == "default/gated"]
    assert gated.message.startswith("held back by SchedulingGates")
    cluster.schedule_all()
    assert len(cluster.bound()) == placed


def test_pods_that_are_being_deleted_are_not_tried_with_those_that_wait() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="1")
    cluster.group(min_count=3)
    cluster.members(3, cpu="1")
    cluster.pod("plain", cpu="3")
    cluster.schedule_all()
    cluster.terminate("g0")
    cluster.terminate("plain")
    answer = ask(cluster, AddNodes("n", 5))
    assert sorted(one.pod for one in answer.placements) == ["default/g1", "default/g2"]
    assert answer.placed == 0
    for number in range(5):
        cluster.node(f"m{number}", cpu="1")
    cluster.advance(30)
    cluster.schedule_all()
    assert cluster.bound() == {}


def test_a_gang_that_fails_after_a_choice_of_its_own_is_not_certain_to() -> None:
    """The first member may go to either zone, the second to one of them alone, and not beside the first."""
    cluster = Gangs()
    for name, cpu, zone in (("a", "1", "x"), ("b", "1", "y"), ("c", "1", "x")):
        cluster.node(name, cpu=cpu, zone=zone)
    cluster.group(min_count=2)
    cluster.member(
        "m1", cpu="1", affinity=affinity_json(anti_required=[pod_term({"app": "m"}, ZONE)]), node_selector={ZONE: "x"}
    )
    cluster.member("m0", cpu="1", labels={"app": "m"})
    for seed in range(20):
        answer = ask(cluster, with_waiting=True, seed=seed)
        first = answer.placements[0]
        assert first.node or first.after_chance
        if not answer.placed:
            return
    pytest.fail("no seed leads to a choice with which the gang fails")
