from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.objects.changes import Change, node_changes, pod_changes
from scheduler.objects.pod import Pod
from scheduler.objects.quantity import milli_value
from scheduler.objects.resources import pod_requests
from scheduler.testing.objects import node, pod
from tests.cluster.test_pod_info import versions


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ({}, {}, []),
        ({"unschedulable": True}, {}, [Change.NODE_TAINT]),
        ({}, {"unschedulable": True}, []),
        ({"cpu": "1"}, {"cpu": "1000m"}, []),
        ({"cpu": "1"}, {"cpu": "2"}, [Change.NODE_ALLOCATABLE]),
        ({"cpu": "1"}, {"cpu": None}, [Change.NODE_ALLOCATABLE]),
        ({"cpu": "odd"}, {"cpu": "1"}, [Change.NODE_ALLOCATABLE]),
        ({}, {"labels": {"a": "b"}}, [Change.NODE_LABEL]),
        ({}, {"taints": ["a:NoSchedule"]}, [Change.NODE_TAINT]),
        ({}, {"ready": False}, [Change.NODE_CONDITION]),
        ({}, {"annotations": {"a": "b"}}, [Change.NODE_ANNOTATION]),
        ({}, {"features": ["A"]}, [Change.NODE_DECLARED_FEATURE]),
        ({}, {"images": {"a": 1}, "resource_version": "2"}, []),
    ],
)
def test_what_an_update_of_a_node_changes(old: dict[str, Any], new: dict[str, Any], changes: list[Change]) -> None:
    assert list(node_changes(node(**old), node(**new))) == changes


def test_a_heartbeat_changes_nothing() -> None:
    def beating(time: str) -> dict[str, Any]:
        condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": time, "message": time, "reason": time}
        return {"conditions": [condition]}

    assert node_changes(node(status=beating("1")), node(status=beating("2"))) == ()


def test_the_changes_of_a_node_come_in_a_fixed_order() -> None:
    old = node(unschedulable=True)
    new = node(cpu="9", labels={"a": "b"}, taints=["a:NoSchedule"], ready=False, annotations={"a": "b"}, features=["A"])
    assert list(node_changes(old, new)) == [
        Change.NODE_TAINT,
        Change.NODE_ALLOCATABLE,
        Change.NODE_LABEL,
        Change.NODE_TAINT,
        Change.NODE_CONDITION,
        Change.NODE_ANNOTATION,
        Change.NODE_DECLARED_FEATURE,
    ]


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ({}, {}, []),
        ({}, {"annotations": {"a": "b"}}, []),
        ({}, {"labels": {"a": "b"}}, [Change.POD_LABEL]),
        ({"cpu": "2"}, {"cpu": "1"}, [Change.POD_SCALE_DOWN]),
        ({"cpu": "1"}, {"cpu": "2"}, []),
        ({"cpu": "1"}, {"memory": "1Gi"}, [Change.POD_SCALE_DOWN]),
        ({"cpu": "1.5m"}, {"cpu": "2m"}, []),
        ({"gates": ["a", "b"]}, {"gates": ["a"]}, []),
        ({"gates": ["a"]}, {}, [Change.POD_SCHEDULING_GATES_ELIMINATED]),
        ({"tolerations": ["a"]}, {"tolerations": ["b"]}, []),
        ({}, {"tolerations": ["b"]}, [Change.POD_TOLERATION]),
        (
            {},
            {"status": {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "b"}]}},
            [Change.POD_GENERATED_RESOURCE_CLAIM],
        ),
        (
            {},
            {"status": {"extendedResourceClaimStatus": {"resourceClaimName": "b"}}},
            [Change.POD_GENERATED_RESOURCE_CLAIM],
        ),
    ],
)
def test_what_an_update_of_a_pod_changes(old: dict[str, Any], new: dict[str, Any], changes: list[Change]) -> None:
    assert list(pod_changes(pod(**old), pod(**new))) == changes


def test_a_pod_has_shrunk_only_when_its_status_says_so_too() -> None:
    def held(cpu: str) -> dict[str, Any]:
        status = {"name": "main", "resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": cpu}}
        return {"containerStatuses": [status]}

    before, asked, done = pod(cpu="2", status=held("2")), pod(cpu="1", status=held("2")), pod(cpu="1", status=held("1"))
    assert pod_changes(before, asked) == ()
    assert pod_changes(asked, done) == (Change.POD_SCALE_DOWN,)


def test_a_pod_with_requests_of_its_own_has_shrunk_when_the_status_of_these_alone_says_so() -> None:
    def held(cpu: str) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": "1"}}

    spec = {"resources": {"requests": {"cpu": "1"}}}
    before, done = pod(spec=spec, status=held("2")), pod(spec=spec, status=held("1"))
    assert pod_changes(before, done) == (Change.POD_SCALE_DOWN,)
    assert pod_changes(done, before) == ()


def test_the_changes_of_a_pod_come_in_a_fixed_order() -> None:
    old = pod(cpu="2", gates=["a"])
    new = pod(cpu="1", labels={"a": "b"}, tolerations=["a"], status={"resourceClaimStatuses": [{"name": "a"}]})
    assert list(pod_changes(old, new)) == [
        Change.POD_LABEL,
        Change.POD_SCALE_DOWN,
        Change.POD_SCHEDULING_GATES_ELIMINATED,
        Change.POD_TOLERATION,
        Change.POD_GENERATED_RESOURCE_CLAIM,
    ]


@given(st.lists(versions(), min_size=2, max_size=2))
def test_a_pod_has_shrunk_when_the_sum_of_its_requests_has(pods: list[Pod]) -> None:
    old, new = pods
    before, after = (pod_requests(each, use_status=True) for each in pods)
    has_shrunk = any(name not in after or milli_value(after[name]) < milli_value(before[name]) for name in before)
    assert (Change.POD_SCALE_DOWN in pod_changes(old, new)) == has_shrunk
