"""What if: workloads whose pods are a group."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.questions.edits import AddNodes, DeleteObject, PutObject, WrongQuestion
from scheduler.engine.questions.what_if import Asked
from scheduler.testing.documents import pod_json
from tests.engine.gangs import Gangs
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
