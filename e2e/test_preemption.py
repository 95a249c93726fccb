"""Promise: a pod that matters more gets its room, at the smallest price, and budgets are kept where they can be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e import builders
from e2e.client import Client
from e2e.provider import Cluster
from e2e.room import Room
from e2e.subject import Scheduler

LOW, HIGH = "e2e-low", "e2e-high"


@pytest.fixture(autouse=True)
def _priorities(client: Client) -> Iterator[None]:
    client.create_all([builders.priority_class(LOW, 10), builders.priority_class(HIGH, 1000)])
    yield
    client.delete_all("PriorityClass", (LOW, HIGH))


def _low(room: Room, name: str, node: str, cpu: str = "2") -> builders.Object:
    selector = {"kubernetes.io/hostname": node}
    # A grace period leaves time to be seen terminating; KWOK ends the pod long before it is over.
    grace: dict[str, Any] = {"terminationGracePeriodSeconds": 5}
    return builders.pod(
        name, room.name, cpu, labels={"app": name}, nodeSelector=selector, priorityClassName=LOW, **grace
    )


def test_a_pod_of_higher_priority_takes_the_room_of_one_victim(
    room: Room, scheduler: Scheduler, cluster: Cluster
) -> None:
    room.add_nodes(builders.node("a", cpu="4"))
    room.add_pods(*(_low(room, name, "a") for name in ("v1", "v2")))
    room.wait_running(2)
    room.add_pods(builders.pod("important", room.name, cpu="2", priorityClassName=HIGH))
    room.wait_placed("important", "a")
    left = [name for name in ("v1", "v2") if f"{room.name}/{name}" in room.pods.state]
    assert len(left) == 1, "one victim was enough"
    (victim,) = {"v1", "v2"} - set(left)
    (event,) = room.wait_events(victim, "Preempted")
    uid = room.pod("important")["metadata"]["uid"]
    assert event["note"] == f"Preempted by pod {uid} on node a"
    assert _last_condition(room, victim, "DisruptionTarget") == ("True", "PreemptionByScheduler")
    if cluster.controlplane is not None:
        writes = _writes(cluster, room, victim)
        assert writes.count(("delete", None)) == 1
        assert writes.index(("patch", "status")) < writes.index(("delete", None)), "the reason comes before the end"


def test_a_victim_under_a_budget_is_spared_where_another_choice_is_left(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(builders.node("a", cpu="2"), builders.node("b", cpu="2"))
    room.add_pods(_low(room, "guarded", "a"), _low(room, "free", "b"))
    room.wait_running(2)
    room.client.create(
        {
            "kind": "PodDisruptionBudget",
            "apiVersion": "policy/v1",
            "metadata": {"name": "guard", "namespace": room.name},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
        }
    )
    with room.client.watch("PodDisruptionBudget", room.name) as budgets:
        budgets.wait_until(lambda state: all(b["status"].get("currentHealthy") == 1 for b in state.values()), 20)
    room.add_pods(builders.pod("important", room.name, cpu="2", priorityClassName=HIGH))
    room.wait_placed("important", "b")
    assert f"{room.name}/guarded" in room.pods.state


def test_a_pod_of_equal_priority_takes_nothing(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(builders.node("a", cpu="2"))
    room.add_pods(_low(room, "there", "a"))
    room.wait_running(1)
    room.add_pods(builders.pod("late", room.name, cpu="2", priorityClassName=LOW))
    assert "No preemption victims found for incoming pod" in room.wait_refused("late")["message"]
    assert "there" in {pod["metadata"]["name"] for pod in room.pods.state.values()}


def _last_condition(room: Room, pod: str, kind: str) -> tuple[str, str] | None:
    """Status and reason of a condition as last seen, also of a pod that is gone."""
    for seen in reversed(room.pods.history):
        if seen.thing["metadata"]["name"] == pod:
            for condition in seen.thing["status"].get("conditions", ()):
                if condition["type"] == kind:
                    return condition["status"], condition["reason"]
    return None


def _writes(cluster: Cluster, room: Room, pod: str) -> list[tuple[str, str | None]]:
    """(verb, subresource) of what schedulers wrote to a pod, in order."""
    assert cluster.controlplane is not None
    return [
        (entry["verb"], entry["objectRef"].get("subresource"))
        for entry in cluster.controlplane.audit()
        if entry["objectRef"].get("name") == pod
        and entry["objectRef"].get("namespace") == room.name
        and entry["user"]["username"].startswith("system:serviceaccount:")
    ]
