from __future__ import annotations

import json

import msgspec
import pytest

from scheduler.errors import InvalidObject
from scheduler.objects.kinds import Kind, decode, decode_as, encode, kind_of
from scheduler.objects.meta import controller_of
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.objects.selector_fields import LabelSelector
from scheduler.testing.documents import pod_json
from scheduler.testing.fragments import Json, owner_json
from scheduler.testing.objects import node, pod


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_is_decoded_to_its_type_and_found_again(kind: Kind) -> None:
    decoded = decode(kind, b'{"metadata":{"name":"a","namespace":"b","somethingNew":{"x":1}},"alsoNew":[]}')
    assert type(decoded) is kind.entry.type
    assert kind_of(decoded) is kind
    assert decoded.key == "b/a"


@pytest.mark.parametrize("kind", list(Kind))
def test_an_object_survives_being_written_and_read(kind: Kind) -> None:
    decoded = decode(kind, b'{"metadata":{"name":"a","labels":{"x":"y"}}}')
    written = json.loads(encode(decoded))
    assert (written["apiVersion"], written["kind"]) == (kind.entry.api_version, kind.entry.name)
    assert decode(kind, encode(decoded)) == decoded


def test_paths_are_those_of_the_api() -> None:
    assert Kind.POD.entry.object_path("a", "b") == "/api/v1/namespaces/b/pods/a"
    assert Kind.NODE.entry.object_path("n") == "/api/v1/nodes/n"
    assert Kind.POD_DISRUPTION_BUDGET.entry.collection_path() == "/apis/policy/v1/poddisruptionbudgets"
    assert Kind.LEASE.entry.collection_path("kube-system") == (
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    )


def test_null_is_as_good_as_absent_everywhere() -> None:
    document = pod_json("a", cpu="1", tolerations=["x"])
    plain = decode_as(Pod, json.dumps(document).encode())
    document["metadata"] |= {"annotations": None, "ownerReferences": None, "generation": None}
    document["spec"] |= {"volumes": None, "nodeSelector": None, "nodeName": None, "affinity": {"podAffinity": None}}
    document["spec"]["containers"][0] |= {"ports": None, "resources": {"limits": None, "requests": {"cpu": "1"}}}
    document["spec"]["tolerations"][0] |= {"value": None}
    document["status"] |= {"conditions": None, "containerStatuses": None, "startTime": None}
    with_null = decode_as(Pod, json.dumps(document).encode())
    assert msgspec.structs.replace(with_null, spec=plain.spec) == plain
    assert with_null.spec.containers == plain.spec.containers
    assert with_null.spec.tolerations == plain.spec.tolerations
    assert with_null.pod_affinity is None


def test_an_absent_selector_and_an_empty_one_differ() -> None:
    spread: list[Json] = [{"topologyKey": "a"}, {"topologyKey": "b", "labelSelector": {}}, {"labelSelector": None}]
    selectors = [constraint.label_selector for constraint in pod(spread=spread).spec.topology_spread_constraints]
    assert selectors == [None, LabelSelector(), None]


def test_times_that_are_not_known_are_null_in_conditions() -> None:
    text = b'{"status":{"conditions":[{"type":"Ready","status":"True","lastProbeTime":null}]}}'
    condition = decode_as(Pod, text).condition("Ready")
    assert condition is not None and condition.last_probe_time is None


def test_a_wrong_type_is_reported_with_its_path_and_the_name_of_the_object() -> None:
    with pytest.raises(InvalidObject) as caught:
        decode(Kind.POD, b'{"metadata":{"name":"a","namespace":"b"},"spec":{"containers":[{"name":7}]}}')
    assert (caught.value.kind, caught.value.name) == ("Pod", "b/a")
    assert "$.spec.containers[0].name" in caught.value.reason


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b'{"metadata":{"name":"a"}} trailing'])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidObject):
        decode(Kind.NODE, data)


def test_quantities_may_be_numbers() -> None:
    offered = decode_as(Node, b'{"status":{"allocatable":{"cpu":4,"memory":1.5e9,"pods":"110"}}}')
    assert offered.status.allocatable == {"cpu": 4, "memory": 1.5e9, "pods": "110"}


def test_a_pod_without_priority_has_priority_0() -> None:
    assert pod().priority == 0
    assert pod(priority=-5).priority == -5
    assert pod(priority=2**31 - 1).priority == 2**31 - 1


def test_a_pod_is_moved_by_making_another_one() -> None:
    before = pod("a", nominated="n1")
    after = before.on_node("n2").nominated_to("")
    assert (before.node_name, before.nominated_node_name, before.is_assigned) == ("", "n1", False)
    assert (after.node_name, after.nominated_node_name, after.is_assigned) == ("n2", "", True)
    assert (after.uid, after.key, after.scheduler_name) == ("pod-a", "default/a", "tandem-scheduler")


def test_finished_and_terminating_are_two_things() -> None:
    assert pod(phase="Succeeded").is_finished and pod(phase="Failed").is_finished
    leaving = pod(node="n1", deleted="2026-01-01T00:00:00Z")
    assert leaving.is_terminating and not leaving.is_finished


def test_the_controller_is_the_owner_that_is_marked_so() -> None:
    plain = owner_json("Job", "j") | {"controller": False}
    owned = pod(metadata={"ownerReferences": [plain, owner_json("ReplicaSet", "r")]})
    owner = controller_of(owned.metadata)
    assert owner is not None and owner.kind == "ReplicaSet"
    assert controller_of(pod(owner=plain).metadata) is None


def test_the_first_condition_of_a_type_counts() -> None:
    conditions = [{"type": "A", "status": "True"}, {"type": "A", "status": "False"}]
    found = pod(status={"conditions": conditions}).condition("A")
    assert found is not None and found.status == "True"
    assert pod().condition("A") is None


def test_a_node_shows_its_taints() -> None:
    tainted = node(taints=["a=b:NoExecute"], unschedulable=True)
    assert [(taint.key, taint.value, taint.effect) for taint in tainted.taints] == [("a", "b", "NoExecute")]
    assert tainted.unschedulable
