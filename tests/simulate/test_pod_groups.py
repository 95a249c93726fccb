"""PodGroups on the embedded cluster: what kube-apiserver 1.36 answers, and how a deleted group is protected.

The texts are those of a kube-apiserver 1.36.3 with the gates for groups on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from scheduler.simulate.apiserver import Failure
from scheduler.simulate.apiserver.kinds import POD_GROUPS, PODS, PRIORITY_CLASSES
from scheduler.simulate.apiserver.pod_groups import FINALIZER
from scheduler.simulate.cluster import EmbeddedCluster
from tests.simulate.playing import until

GANG: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": 2}}}


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(kubelet=None) as running:
        yield running


def create(cluster: EmbeddedCluster, spec: dict[str, Any], name: str = "g") -> dict[str, Any]:
    return cluster.registry.create(POD_GROUPS, "default", {"metadata": {"name": name}, "spec": spec}).object


def member(name: str, group: str = "g") -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, "schedulingGroup": {"podGroupName": group}}}


def policy(**policies: Any) -> dict[str, Any]:
    return {"schedulingPolicy": policies}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({}, 'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'),
        (
            policy(basic={}, gang={"minCount": 1}),
            'spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`',
        ),
        (policy(gang={"minCount": 0}), "spec.schedulingPolicy.gang.minCount: Required value"),
        (
            policy(gang={"minCount": -1}),
            "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1",
        ),
        (
            GANG | {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            "spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item",
        ),
        (
            GANG | {"schedulingConstraints": {"topology": [{"key": ""}]}},
            "spec.schedulingConstraints.topology[0].key: Required value",
        ),
        (
            GANG | {"disruptionMode": "All"},
            'spec.disruptionMode: Unsupported value: "All": supported values: "Pod", "PodGroup"',
        ),
    ],
)
def test_an_invalid_group_is_refused_in_the_api_servers_words(
    cluster: EmbeddedCluster, spec: dict[str, Any], text: str
) -> None:
    with pytest.raises(Failure) as refused:
        create(cluster, spec)
    assert refused.value.code == 422
    assert refused.value.message == f'PodGroup.scheduling.k8s.io "g" is invalid: {text}'


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"priorityClassName": "absent"}, "no PriorityClass with name absent was found"),
        (
            {"priorityClassName": "high", "priority": 5},
            "priority set in the pod group (5) must match the priority computed (1000) based on the priority class set "
            "in the spec",
        ),
        (
            {"priority": 5},
            "priority set in the pod group (5) must match the priority computed (0) based on the priority class set in "
            "the spec",
        ),
    ],
)
def test_a_group_gets_the_priority_of_its_class_and_no_other(
    cluster: EmbeddedCluster, spec: dict[str, Any], text: str
) -> None:
    cluster.registry.create(PRIORITY_CLASSES, "", {"metadata": {"name": "high"}, "value": 1000})
    assert create(cluster, GANG | {"priorityClassName": "high"}, "good")["spec"]["priority"] == 1000
    with pytest.raises(Failure) as refused:
        create(cluster, GANG | spec)
    assert refused.value.message == f'podgroups.scheduling.k8s.io "g" is forbidden: {text}'


def test_a_group_gets_defaults_and_its_specification_never_changes(cluster: EmbeddedCluster) -> None:
    made = create(cluster, GANG)
    assert made["spec"] == GANG | {"disruptionMode": "Pod", "priority": 0}
    assert made["metadata"]["finalizers"] == [FINALIZER]
    assert "generation" not in made["metadata"]
    with pytest.raises(Failure, match=r"spec\.schedulingPolicy: Invalid value: null: field is immutable"):
        cluster.registry.update(POD_GROUPS, "default", "g", {**made, "spec": {**made["spec"], **policy(basic={})}})


def test_a_pod_names_its_group_or_none_and_keeps_it(cluster: EmbeddedCluster) -> None:
    with pytest.raises(Failure, match="must specify one of: `podGroupName`"):
        cluster.registry.create(PODS, "default", member("p", ""))
    made = cluster.registry.create(PODS, "default", member("p")).object
    changed = {**made, "spec": {**made["spec"], "schedulingGroup": {"podGroupName": "other"}}}
    with pytest.raises(Failure, match="pod updates may not change fields other than"):
        cluster.registry.update(PODS, "default", "p", changed)


async def test_a_deleted_group_stays_as_long_as_pods_that_are_not_over_name_it(cluster: EmbeddedCluster) -> None:
    registry = cluster.registry
    create(cluster, GANG)
    for name in ("p", "q"):
        registry.create(PODS, "default", member(name))
    registry.delete(POD_GROUPS, "default", "g")
    registry.delete(PODS, "default", "p")
    await until(registry, lambda: cluster.store.get(PODS, "default", "p") is None)
    found = cluster.store.get(POD_GROUPS, "default", "g")
    assert found is not None
    assert "deletionTimestamp" in found["metadata"]
    registry.change(PODS, "default", "q", lambda old: {**old, "status": {**old["status"], "phase": "Succeeded"}})
    await until(registry, lambda: cluster.store.get(POD_GROUPS, "default", "g") is None)
