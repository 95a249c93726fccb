"""Which events wake a pod that VolumeBinding rejected."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import Action, ClusterEvent, Hint, Resource
from scheduler.plugins.volume_binding.volume_binding import VolumeBinding
from tests import builders
from tests.plugins.clusters import info

EVENTS = VolumeBinding().events()


def hint(resource: Resource, old: Any, new: Any, pod: PodInfo | None = None) -> Hint:
    pod = pod or info(claims=["c"])
    return next(each.hint(pod, old, new) for each in EVENTS if each.event.resource is resource)


@pytest.mark.parametrize(
    ("resource", "action", "wanted"),
    [
        (Resource.PERSISTENT_VOLUME, Action.ADD, True),
        (Resource.PERSISTENT_VOLUME, Action.UPDATE, True),
        (Resource.PERSISTENT_VOLUME, Action.DELETE, False),
        (Resource.NODE, Action.UPDATE_NODE_LABEL, True),
        (Resource.NODE, Action.UPDATE_NODE_ALLOCATABLE, False),
        (Resource.CSI_DRIVER, Action.ADD, False),
        (Resource.CSI_STORAGE_CAPACITY, Action.UPDATE, True),
        (Resource.ASSIGNED_POD, Action.DELETE, False),
    ],
)
def test_it_hears_only_of_events_that_may_help(resource: Resource, action: Action, wanted: bool) -> None:
    assert any(each.event.matches(ClusterEvent(resource, action)) for each in EVENTS) is wanted


def test_a_class_wakes_when_it_is_new_or_allows_other_topologies() -> None:
    one = builders.storage_class("s", topologies=[{"zone": ["a"]}])
    assert hint(Resource.STORAGE_CLASS, None, one) is Hint.QUEUE
    assert hint(Resource.STORAGE_CLASS, one, one) is Hint.SKIP
    assert hint(Resource.STORAGE_CLASS, one, builders.storage_class("s")) is Hint.QUEUE


def test_only_the_pods_own_claims_wake_it() -> None:
    assert hint(Resource.PERSISTENT_VOLUME_CLAIM, None, builders.claim("c")) is Hint.QUEUE
    assert hint(Resource.PERSISTENT_VOLUME_CLAIM, None, builders.claim("d")) is Hint.SKIP
    assert hint(Resource.PERSISTENT_VOLUME_CLAIM, None, builders.claim("c", namespace="x")) is Hint.SKIP


def test_the_claim_of_an_ephemeral_volume_wakes_its_pod() -> None:
    pod = info("web", volumes=[{"name": "scratch", "ephemeral": {}}])
    assert hint(Resource.PERSISTENT_VOLUME_CLAIM, None, builders.claim("web-scratch"), pod) is Hint.QUEUE


def test_a_csi_node_wakes_when_it_is_new_or_migrates_other_plugins() -> None:
    plain = builders.csi_node("n", {})
    other = builders.csi_node("n", {}, annotations={"storage.alpha.kubernetes.io/migrated-plugins": "x"})
    assert hint(Resource.CSI_NODE, None, plain) is Hint.QUEUE
    assert hint(Resource.CSI_NODE, plain, builders.csi_node("n", {"d": 1})) is Hint.SKIP
    assert hint(Resource.CSI_NODE, plain, other) is Hint.QUEUE


def test_a_driver_wakes_pods_with_its_inline_volumes_once_capacity_is_no_concern() -> None:
    pod = info(volumes=[{"name": "v", "csi": {"driver": "d"}}])
    watched, free = builders.csi_driver("d", storageCapacity=True), builders.csi_driver("d")
    assert hint(Resource.CSI_DRIVER, watched, free, pod) is Hint.QUEUE
    assert hint(Resource.CSI_DRIVER, free, watched, pod) is Hint.SKIP
    assert hint(Resource.CSI_DRIVER, watched, free) is Hint.SKIP


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"capacity": "1Gi"}, {"capacity": "2Gi"}, Hint.QUEUE),
        ({"capacity": "2Gi"}, {"capacity": "1Gi"}, Hint.SKIP),
        ({}, {"capacity": "1Gi"}, Hint.QUEUE),
        ({"capacity": "1Gi"}, {}, Hint.SKIP),
        ({"capacity": "1Gi", "maximum": "5Gi"}, {"capacity": "9Gi", "maximum": "5Gi"}, Hint.SKIP),
    ],
)
def test_capacity_wakes_when_a_larger_volume_can_be_made(before: Any, after: Any, expected: Hint) -> None:
    old, new = builders.csi_capacity("x", "s", **before), builders.csi_capacity("x", "s", **after)
    assert hint(Resource.CSI_STORAGE_CAPACITY, old, new) is expected
    assert hint(Resource.CSI_STORAGE_CAPACITY, None, new) is Hint.QUEUE
