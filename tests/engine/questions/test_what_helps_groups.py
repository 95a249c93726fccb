"""What would help a group: the changes with which the group's own cycle starts it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.questions.answers import SECONDS
from scheduler.engine.questions.edits import WrongQuestion
from scheduler.engine.questions.helps import Help, Helps
from scheduler.engine.questions.what_helps import what_helps
from tests.engine.gangs import GANGS, TOPOLOGY, ZONE, Gangs, topology, zones
from tests.engine.questions.asking import answered

WHOLE = f"{GANGS},WorkloadAwarePreemption=true"


def helps(cluster: Gangs, name: str = "g", **options: Any) -> Helps:
    return answered(cluster, what_helps(cluster.engine, f"default/{name}", cluster.now, **options))


def nodes(found: Helps) -> dict[str, dict[str, int]]:
    """Change in words → the nodes that it leads to."""
    return {one.text: one.nodes for one in found.helps}


def of_kind(found: Helps, change: str) -> list[Help]:
    return [one for one in found.helps if one.change == change]


def short_of_one_place(gates: str = GANGS, **spec: Any) -> Gangs:
    """A gang of four on two nodes, with room for three."""
    cluster = Gangs(gates)
    cluster.node("n0", cpu="4")
    cluster.node("n1", cpu="3")
    cluster.group(min_count=4, **spec)
    cluster.members(4, cpu="2")
    cluster.schedule_all()
    assert not cluster.bound()
    return cluster


def test_the_largest_request_with_which_the_whole_group_fits_is_named() -> None:
    found = helps(short_of_one_place())
    assert found.group == "default/g" and found.pod == ""
    assert nodes(found)["request 500m cpu less: 1500m in place of 2 in each pod"] == {"n0": 2, "n1": 2}
    assert of_kind(found, "resource")[0].placed == 4
    assert "3 of 4 pods find a node, for the others: 0/2 nodes are available: 2 Insufficient cpu." in found.message


def test_as_many_nodes_are_named_as_the_group_needs() -> None:
    cluster = Gangs()
    cluster.node("small", cpu="1")
    cluster.node("large", cpu="4")
    cluster.pod("there", cpu="4", node="large")
    cluster.group(min_count=6)
    cluster.members(6, cpu="2")
    found = nodes(helps(cluster))
    assert found["3 more nodes like large"] == {"large-new-1": 2, "large-new-2": 2, "large-new-3": 2}
    assert not any("like small" in text for text in found)


def test_one_more_node_is_said_so() -> None:
    assert nodes(helps(short_of_one_place()))["one more node like n0"]["n0-new-1"] >= 1


def test_a_smaller_quorum_is_the_number_that_fits() -> None:
    assert "start with 3 pods in place of 4" in nodes(helps(short_of_one_place()))


def test_of_a_group_that_lacks_pods_the_missing_ones_are_named() -> None:
    cluster = Gangs()
    cluster.node("n0", cpu="4")
    cluster.group(min_count=4)
    cluster.members(2, cpu="1")
    found = helps(cluster)
    assert "held back by GangScheduling: waiting for minCount pods" in found.message
    assert nodes(found) == {
        "create 2 more pods like default/g1": {"n0": 4},
        "start with 2 pods in place of 4": {"n0": 2},
    }


def test_pods_that_would_not_fit_either_are_not_offered() -> None:
    cluster = Gangs()
    cluster.node("n0", cpu="3")
    cluster.group(min_count=4)
    cluster.members(2, cpu="1")
    assert not of_kind(helps(cluster), "members")


def test_a_toleration_is_one_of_all_its_pods() -> None:
    cluster = Gangs()
    for number in range(2):
        cluster.node(f"n{number}", cpu="2", taints=["team=a:NoSchedule"])
    cluster.group(min_count=4)
    cluster.members(4, cpu="1")
    assert nodes(helps(cluster))["tolerate the taint team=a:NoSchedule"] == {"n0": 2, "n1": 2}


def test_a_condition_of_some_pods_is_dropped_from_those() -> None:
    cluster = Gangs()
    cluster.node("n0", cpu="4")
    cluster.group(min_count=3)
    cluster.member("launcher", cpu="1")
    for name in ("w0", "w1"):
        cluster.member(name, cpu="1", spec={"nodeSelector": {"disk": "ssd"}})
    assert nodes(helps(cluster))["drop disk=ssd from its node selector in 2 pods"] == {"n0": 3}


def test_scheduling_gates_of_members_are_named() -> None:
    cluster = Gangs()
    cluster.node("n0", cpu="4")
    cluster.group(min_count=3)
    cluster.members(2, cpu="1")
    cluster.member("held", cpu="1", spec={"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]})
    cluster.schedule_all()
    found = helps(cluster)
    assert nodes(found)["remove its scheduling gates (kueue.x-k8s.io/admission) in one pod"] == {"n0": 3}


def test_members_that_differ_are_changed_kind_by_kind() -> None:
    cluster = Gangs()
    cluster.node("n0", cpu="8")
    cluster.group(min_count=3)
    cluster.member("launcher", cpu="6")
    for name in ("w0", "w1"):
        cluster.member(name, cpu="2")
    found = of_kind(helps(cluster), "resource")
    assert {one.text for one in found} == {
        "request 1 cpu less: 1 in place of 2 in 2 pods, like default/w0",
        "request 2 cpu less: 4 in place of 6 in one pod, like default/launcher",
    }


@pytest.mark.parametrize("name", ["g", "g0", "g3"])
def test_a_member_and_its_group_have_the_same_answer(name: str) -> None:
    found = helps(short_of_one_place(), name)
    assert found.group == "default/g"
    assert found.pod == ("" if name == "g" else f"default/{name}")
    assert "request 500m cpu less: 1500m in place of 2 in each pod" in nodes(found)


def test_a_change_helps_a_member_only_if_it_gets_a_node_itself() -> None:
    cluster = Gangs()
    cluster.node("n0", cpu="4")
    cluster.group(min_count=3)
    cluster.members(3, cpu="1")
    cluster.member("large", cpu="8")
    cluster.schedule_all()
    assert len(cluster.bound()) == 3
    assert "request 7 cpu less: 1 in place of 8" in nodes(helps(cluster, "large"))
    cluster.member("late", cpu="1", spec={"nodeSelector": {"disk": "ssd"}})
    assert "drop disk=ssd from its node selector" not in " ".join(nodes(helps(cluster, "large")))


def test_the_nodes_that_must_be_opened_together_are_named() -> None:
    cluster = Gangs()
    for number in range(3):
        cluster.node(f"n{number}", cpu="2", unschedulable=True)
    cluster.group(min_count=4)
    cluster.members(4, cpu="1")
    assert nodes(helps(cluster))["open nodes n0, n1 for new pods (uncordon)"] == {"n0": 2, "n1": 2}


def test_a_group_in_one_domain_may_be_freed_of_it_or_get_a_wider_one() -> None:
    cluster = Gangs(TOPOLOGY)
    for name, region in (("a", "west"), ("b", "west"), ("c", "east")):
        cluster.node(name, cpu="2", labels={ZONE: name, "region": region, "kubernetes.io/os": "linux"})
    cluster.group(min_count=4, **topology())
    cluster.members(4, cpu="1")
    cluster.schedule_all()
    found = nodes(helps(cluster))
    assert sum(found[f"do not require nodes of one {ZONE}"].values()) == 4
    assert found[f"require nodes of one region in place of one {ZONE}"] == {"a": 2, "b": 2}
    assert not any("os" in text for text in found if "require" in text)


def test_a_group_keeps_to_its_domain_where_nodes_are_added() -> None:
    cluster = Gangs(TOPOLOGY)
    zones(cluster, a="1", b="2")
    cluster.group(min_count=5, **topology())
    cluster.members(5, cpu="1")
    found = nodes(helps(cluster))
    assert set(found["one more node like b0 (there are 2)"]) == {"b0", "b1", "b0-new-1"}
    assert set(found["3 more nodes like a0 (there are 2)"]) == {"a0", "a1", "a0-new-1", "a0-new-2", "a0-new-3"}


def test_the_priority_of_the_group_from_which_it_preempts_comes_with_its_victims() -> None:
    cluster = Gangs(WHOLE)
    for number in range(2):
        cluster.node(f"n{number}", cpu="2")
        cluster.pod(f"there{number}", cpu="2", priority=10 * (number + 1), node=f"n{number}")
    cluster.group(min_count=4, priority=0)
    cluster.members(4, cpu="1")
    cluster.schedule_all()
    (found,) = of_kind(helps(cluster), "priority")
    assert found.text == "priority 21 of the group in place of 0: from there on it preempts"
    assert sorted(found.victims) == ["default/there0", "default/there1"]
    assert found.nodes == {"n0": 2, "n1": 2}


def test_without_preemption_for_the_group_the_priority_is_that_of_its_pods() -> None:
    cluster = Gangs()
    cluster.node("n0", cpu="2")
    cluster.pod("there", cpu="1", priority=10, node="n0")
    cluster.group(min_count=2)
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    (found,) = of_kind(helps(cluster), "priority")
    assert found.text == "priority 11 of its pods in place of 0: from there on it preempts"
    assert found.victims == ("default/there",)


def test_pods_that_must_not_preempt_may_be_allowed_to() -> None:
    cluster = Gangs(WHOLE)
    cluster.node("n0", cpu="2")
    cluster.pod("there", cpu="1", priority=10, node="n0")
    cluster.group(min_count=2, priority=100)
    cluster.members(2, cpu="1", spec={"preemptionPolicy": "Never"})
    cluster.schedule_all()
    (found,) = of_kind(helps(cluster), "priority")
    assert found.text == "allow its pods to preempt (preemptionPolicy)"


def test_a_pod_that_could_go_elsewhere_is_named() -> None:
    cluster = Gangs()
    cluster.node("n0", cpu="4")
    cluster.node("n1", cpu="1")
    cluster.pod("there", cpu="1", node="n0")
    cluster.group(min_count=2)
    cluster.members(2, cpu="2")
    cluster.schedule_all()
    assert nodes(helps(cluster))["move pod default/there from n0 to n1"] == {"n0": 2}


def test_what_fits_needs_nothing() -> None:
    cluster = Gangs()
    cluster.node("n0", cpu="1")
    cluster.group(min_count=2)
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    cluster.node("n1", cpu="1")
    found = helps(cluster)
    assert (found.fits_now, found.helps) == ("n0, n1", ())


def test_a_group_without_an_object_is_said_to_lack_it() -> None:
    cluster = Gangs()
    cluster.node("n0", cpu="2")
    cluster.members(2, cpu="1")
    found = helps(cluster)
    assert found.message.startswith("held back by GangScheduling: waiting for pods's pod group")
    assert not found.helps


def test_a_group_that_does_not_wait_is_refused() -> None:
    cluster = Gangs()
    cluster.node("n0", cpu="2")
    cluster.group(min_count=2)
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    with pytest.raises(WrongQuestion, match="no pod of group 'default/g' waits"):
        helps(cluster)
    with pytest.raises(WrongQuestion, match="is not known here"):
        helps(cluster, "absent")


def test_the_search_says_when_its_time_was_up_even_within_a_trial() -> None:
    cluster = short_of_one_place()
    asked = iter([False] * 9)
    found = helps(cluster, is_over=lambda: next(asked, True))
    assert found.bound == SECONDS
    assert found.trials < helps(cluster).trials


def test_a_member_that_is_being_deleted_can_not_be_helped() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="2")
    cluster.group(min_count=3)
    cluster.members(3, cpu="1")
    cluster.schedule_all()
    cluster.terminate("g0")
    assert nodes(helps(cluster)) == {"start with 2 pods in place of 3": {"n": 2}}
