"""Preemption for a group as a whole: `E2E_SUBJECT=kube-scheduler` shows that a promise is fair."""

from __future__ import annotations

from typing import Any

import pytest

from e2e import builders
from e2e.builders import Object
from e2e.groups.control import API
from e2e.groups.objects import group, member, wait_condition
from e2e.room import Room, placements

GATES = ("GenericWorkload", "GangScheduling", "WorkloadAwarePreemption")


def low(room: Room, name: str, cpu: str = "1", **spec: Any) -> Object:
    return builders.pod(name, room.name, cpu=cpu, **spec)


@pytest.mark.usefixtures("scheduler")
def test_a_gang_removes_as_few_pods_as_it_needs(room: Room) -> None:
    room.add_cluster_object(builders.priority_class(f"{room.name}-high", 1000))
    room.add_nodes(*[builders.node(f"whole-n{n}", cpu="2") for n in range(2)])
    room.add_pods(*[low(room, f"low{n}") for n in range(4)])
    room.wait_bound(4)
    room.client.create(group(room, "g", 2, priorityClassName=f"{room.name}-high"))
    room.add_pods(*[member(room, name, "g", priorityClassName=f"{room.name}-high") for name in "ab"])
    room.pods.wait_until(lambda state: {"a", "b"} <= set(placements(state)), 60, "the gang on its nodes")
    assert len(placements(room.pods.state)) == 4


@pytest.mark.usefixtures("scheduler")
def test_a_gang_that_would_not_fit_removes_no_pod_and_says_so(room: Room) -> None:
    room.add_cluster_object(builders.priority_class(f"{room.name}-high", 1000))
    room.add_nodes(builders.node("whole-n1", cpu="2"))
    room.add_pods(*[low(room, f"low{n}") for n in range(2)])
    room.wait_bound(2)
    room.client.create(group(room, "g", 3, priorityClassName=f"{room.name}-high"))
    room.add_pods(*[member(room, name, "g", priorityClassName=f"{room.name}-high") for name in "abc"])
    wait_condition(room, "False", "Unschedulable", "pod group is unschedulable, pod group is unschedulable")
    for name in "abc":
        said = str(room.wait_refused(name)["message"])
        assert said.endswith("preemption: not eligible due to workload aware preemption enabled"), said
    assert {"low0", "low1"} <= set(placements(room.pods.state))


@pytest.mark.usefixtures("scheduler")
def test_a_gang_of_no_higher_priority_finds_no_victims(room: Room) -> None:
    room.add_cluster_object(builders.priority_class(f"{room.name}-high", 1000))
    room.add_nodes(builders.node("whole-n1", cpu="2"))
    room.add_pods(*[low(room, f"low{n}") for n in range(2)])
    room.wait_bound(2)
    room.client.create(group(room, "g", 2))
    room.add_pods(*[member(room, name, "g", priorityClassName=f"{room.name}-high") for name in "ab"])
    text = "pod group is unschedulable, No preemption victims found for incoming preemptor"
    wait_condition(room, "False", "Unschedulable", text)


@pytest.mark.usefixtures("scheduler")
def test_a_gang_that_may_only_be_disrupted_as_a_whole_goes_as_a_whole(room: Room) -> None:
    room.add_cluster_object(builders.priority_class(f"{room.name}-high", 1000))
    room.add_nodes(*[builders.node(f"whole-n{n}", cpu="2") for n in range(2)])
    room.client.create(group(room, "old", 4, disruptionMode="PodGroup"))
    room.add_pods(*[member(room, f"old{n}", "old") for n in range(4)])
    room.wait_bound(4)
    room.client.create(group(room, "g", 1, priorityClassName=f"{room.name}-high"))
    room.add_pods(member(room, "a", "g", priorityClassName=f"{room.name}-high"))
    room.pods.wait_until(lambda state: set(placements(state)) == {"a"}, 60, "only the new gang")


@pytest.mark.usefixtures("scheduler")
def test_conditions_and_events_of_victims_name_the_group(room: Room) -> None:
    room.add_cluster_object(builders.priority_class(f"{room.name}-high", 1000))
    room.add_nodes(builders.node("whole-n1", cpu="1"))
    held = low(room, "low")
    held["metadata"]["finalizers"] = ["example.com/held"]
    room.add_pods(held)
    room.wait_bound(1)
    made = room.client.create(group(room, "g", 1, priorityClassName=f"{room.name}-high"))
    room.add_pods(member(room, "a", "g", priorityClassName=f"{room.name}-high"))

    def conditions() -> list[Object]:
        pods = [pod for pod in room.pods.state.values() if pod["metadata"]["name"] == "low"]
        return [one for pod in pods for one in pod["status"].get("conditions", ()) if one["type"] == "DisruptionTarget"]

    room.pods.wait_until(lambda state: bool(conditions()), 30, "the victim's condition")
    (said,) = conditions()
    assert said["message"].endswith(": preempting to accommodate a higher priority podgroup")
    (event,) = room.wait_events("low", "Preempted")
    assert event["note"] == f"Preempted by podgroup {made['metadata']['uid']} on node cluster"
    related = {key: event["related"][key] for key in ("kind", "apiVersion", "name")}
    assert related == {"kind": "PodGroup", "apiVersion": API, "name": "g"}
    wait_condition(room, "False", "Unschedulable", "pod group is unschedulable")
    room.client.patch("Pod", "low", room.name, {"metadata": {"finalizers": None}})
