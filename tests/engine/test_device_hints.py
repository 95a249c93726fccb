"""Pods that NodeResourcesFit rejected wait for nodes to which their extended resource may come as devices."""

from __future__ import annotations

from scheduler.messages.stimuli import ObjectDeleted
from scheduler.objects.kinds import Kind
from tests.builders import device_class
from tests.engine.driver import Cluster

GPU = {"cpu": "4", "example.com/gpu": "1"}


def waiting(*, is_mapped: bool) -> Cluster:
    """The one node has too little CPU for a pod that wants a GPU too, and its back-off is over."""
    cluster = Cluster()
    if is_mapped:
        cluster.show(device_class("gpu", "example.com/gpu"))
    cluster.node("small", cpu="2")
    cluster.pod("p", requests=GPU)
    cluster.schedule()
    cluster.advance(20)
    assert cluster.place("p") == "unschedulable"
    return cluster


def test_a_new_node_wakes_a_pod_whose_resource_a_class_stands_for() -> None:
    cluster = waiting(is_mapped=True)
    cluster.node("large", cpu="4")
    assert cluster.place("p") == "active"


def test_a_new_node_without_the_resource_wakes_nothing_where_no_class_stands_for_it() -> None:
    cluster = waiting(is_mapped=False)
    cluster.node("large", cpu="4")
    assert cluster.place("p") == "unschedulable"


def test_a_node_that_is_still_too_small_wakes_nothing() -> None:
    cluster = waiting(is_mapped=True)
    cluster.node("small", cpu="3")
    assert cluster.place("p") == "unschedulable"


def test_any_change_of_a_node_that_is_large_enough_wakes_it() -> None:
    cluster = Cluster()
    cluster.show(device_class("gpu", "example.com/gpu"))
    cluster.node("small", cpu="2", labels={"group": "b"})
    cluster.node("large", cpu="4")
    cluster.pod("p", requests=GPU, node_selector={"group": "b"})
    cluster.schedule()
    cluster.advance(20)
    cluster.node("large", cpu="4", memory="64Gi")
    assert cluster.place("p") == "active"


def test_a_class_that_is_gone_wakes_nothing_any_more() -> None:
    cluster = waiting(is_mapped=True)
    cluster.feed(ObjectDeleted(Kind.DEVICE_CLASS, device_class("gpu", "example.com/gpu")))
    cluster.node("large", cpu="4")
    assert cluster.place("p") == "unschedulable"
