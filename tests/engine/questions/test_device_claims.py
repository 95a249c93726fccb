"""Pods of a question that name a ResourceClaimTemplate get the claims that a controller would make for them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.questions.edits import PutObject, WrongQuestion
from scheduler.objects.devices import DeviceClass, ResourceSlice
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.testing.documents import pod_json
from scheduler.testing.objects import build
from tests import device_documents
from tests.engine.driver import Cluster
from tests.engine.questions.asking import ask, asked, deployment, nodes_of

USES: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}


def template(*, device_class: str = "gpus", count: int | None = None, name: str = "one-gpu") -> dict[str, Any]:
    exactly: dict[str, Any] = {"deviceClassName": device_class}
    if count is not None:
        exactly |= {"count": count, "allocationMode": "ExactCount"}
    asked_for = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    return {
        **device_documents.API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"metadata": {"labels": {"made": "here"}}, "spec": asked_for},
    }


def with_devices(**nodes: int) -> Cluster:
    """Nodes with as many devices each."""
    cluster = Cluster()
    cluster.show(build(DeviceClass, device_documents.device_class("gpus", "true")))
    for node, count in nodes.items():
        cluster.node(node, cpu="16")
        devices = [device_documents.gpu(f"gpu-{number}") for number in range(count)]
        cluster.show(build(ResourceSlice, device_documents.resource_slice(node, *devices)))
    return cluster


def test_claims_are_made_from_a_template_beside_the_pods() -> None:
    cluster = with_devices(n0=0, n1=2)
    answer = ask(cluster, workloads=(*asked(template()), *asked(deployment(3, **USES))))
    assert sorted(nodes_of(answer).values()) == ["", "n1", "n1"]
    assert "cannot allocate all claims" in next(one for one in answer.placements if not one.node).message
    assert answer.notes == ()


def test_claims_are_made_from_a_template_among_the_objects_that_are_put() -> None:
    cluster = with_devices(n0=0, n1=4)
    put = PutObject(template(count=2))
    assert sorted(nodes_of(ask(cluster, put, workloads=asked(deployment(3, **USES)))).values()) == ["", "n1", "n1"]


def test_a_pod_that_is_put_gets_its_claims_too() -> None:
    pod = pod_json("trainer", cpu="1")
    pod["spec"] |= USES
    answer = ask(with_devices(n0=0, n1=1), PutObject(template()), PutObject(pod))
    assert nodes_of(answer) == {"trainer": "n1"}


def test_what_a_pod_of_the_template_has_asked_for_stands_for_the_template() -> None:
    cluster = with_devices(n0=0, n1=1)
    document = device_documents.claim("running-gpu-x", "gpus")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "running", "uid": "pod-running", "controller": True}
    document["metadata"]["ownerReferences"] = [owner]
    cluster.show(build(ResourceClaim, document))
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "running-gpu-x"}]}
    cluster.pod("running", cpu="1", spec=USES, status=status, node="n0")
    assert sorted(nodes_of(ask(cluster, workloads=asked(deployment(2, **USES)))).values()) == ["", "n1"]


def test_how_many_more_fit_counts_devices() -> None:
    cluster = with_devices(n0=1, n1=2)
    (room,) = ask(cluster, workloads=(*asked(template()), *asked(deployment(0, **USES))), finds_max=True).room
    assert room.count == 3


def test_a_template_that_is_not_known_is_named() -> None:
    answer = ask(with_devices(n0=1), workloads=asked(deployment(1, **USES)))
    (placement,) = answer.placements
    assert placement.node == ""
    assert answer.notes == ("nothing is known of the ResourceClaimTemplate default/one-gpu: no claim was made",)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"spec": {"spec": {"devices": {"requests": 7}}}}, "a ResourceClaimTemplate can't be read"),
        ({"spec": [1]}, "a ResourceClaimTemplate can't be read"),
        ({"metadata": {"name": "a", "namespace": "No"}}, "namespace 'No' must"),
        ({"metadata": {"name": "No"}}, "name of a ResourceClaimTemplate 'No' must"),
    ],
)
def test_a_template_that_can_not_be_read_is_named(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(WrongQuestion, match=text):
        ask(with_devices(n0=1), workloads=asked({**template(), **wrong}))
