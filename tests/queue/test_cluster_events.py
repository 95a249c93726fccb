from __future__ import annotations

from scheduler.framework.events import Action, ClusterEvent
from scheduler.objects.kinds import Kind
from scheduler.queue.cluster_events import node_events, object_event, pod_events
from scheduler.testing.objects import node, pod


def labels(events: tuple[ClusterEvent, ...]) -> list[str]:
    return [event.label for event in events]


def test_every_relevant_change_of_a_node_is_an_event_in_a_fixed_order() -> None:
    old = node("n", unschedulable=True, features=["a"])
    new = node(
        "n", cpu="8", labels={"x": "y"}, taints=["k=v:NoSchedule"], ready=False, annotations={"a": "b"}, features=["b"]
    )
    assert labels(node_events(old, new)) == [
        "NodeUpdateNodeTaint",
        "NodeUpdateNodeAllocatable",
        "NodeUpdateNodeLabel",
        "NodeUpdateNodeTaint",
        "NodeUpdateNodeCondition",
        "NodeUpdateNodeAnnotation",
        "NodeUpdateNodeDeclaredFeature",
    ]


def test_a_heartbeat_a_cordon_or_the_same_amount_written_otherwise_is_no_event() -> None:
    assert node_events(node("n", cpu="2"), node("n", cpu="2000m", resource_version="9")) == ()
    assert node_events(node("n"), node("n", unschedulable=True)) == ()


def test_a_pods_update_is_about_assigned_or_pending_pods() -> None:
    assert labels(pod_events(pod("a"), pod("a", labels={"x": "y"}))) == ["UnschedulablePodUpdatePodLabel"]
    assert labels(pod_events(pod("a", cpu="2", node="n"), pod("a", cpu="1", node="n"))) == [
        "AssignedPodUpdatePodScaleDown"
    ]


def test_any_other_update_of_a_pod_is_a_general_one() -> None:
    assert labels(pod_events(pod("a"), pod("a", annotations={"x": "y"}))) == ["UnschedulablePodUpdate"]


def test_removing_one_of_two_gates_eliminates_nothing() -> None:
    assert labels(pod_events(pod("a", gates=["g", "h"]), pod("a", gates=["g"]))) == ["UnschedulablePodUpdate"]
    assert labels(pod_events(pod("a", gates=["g"]), pod("a"))) == ["UnschedulablePodUpdatePodSchedulingGatesEliminated"]


def test_other_kinds_have_one_event_an_action_or_none() -> None:
    event = object_event(Kind.CSI_NODE, Action.UPDATE)
    assert event is not None and event.label == "storage.k8s.io/CSINodeUpdate"
    assert object_event(Kind.SERVICE, Action.ADD) is None
