"""Claims in questions: those of pods that go, of pods that are created again, and of new pods."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.questions.capacity import capacity
from scheduler.engine.questions.edits import Drain, RemovePod, WrongQuestion
from scheduler.engine.questions.evictions import MIRROR
from scheduler.engine.questions.what_helps import what_helps
from scheduler.objects.devices import DeviceClass, ResourceSlice
from scheduler.objects.resource_claims import EXTENDED_RESOURCE_CLAIM_ANNOTATION, ResourceClaim
from scheduler.testing.documents import pod_json
from scheduler.testing.objects import build
from tests import builders, device_documents
from tests.engine.driver import Cluster
from tests.engine.gangs import Gangs
from tests.engine.questions.asking import OWNER, answered, ask, asked, deployment, nodes_of

DEFAULT = {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
RESOURCE = "example.com/gpu"
FROM_TEMPLATE: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]}


def _with_devices(*nodes: str, extended: bool = False) -> Cluster:
    """Nodes of one device each."""
    cluster = Cluster()
    spec = {"extendedResourceName": RESOURCE} if extended else {}
    cluster.show(build(DeviceClass, device_documents.device_class("gpus", "true", **spec)))
    for node in nodes:
        _add_node(cluster, node)
    return cluster


def _add_node(cluster: Cluster, node: str) -> None:
    cluster.node(node, cpu="4")
    cluster.show(build(ResourceSlice, device_documents.resource_slice(node, device_documents.gpu("gpu-0"))))


def _claim(cluster: Cluster, name: str, *pods: str, node: str = "", owner: str = "", special: bool = False) -> None:
    """A claim that these pods use; ``owner``: the pod that it was made for."""
    document = device_documents.claim(name, "gpus")
    if owner:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"pod-{owner}", "controller": True}
        document["metadata"]["ownerReferences"] = [reference]
    if special:
        document["metadata"]["annotations"] = {EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"}
    if node:
        result = {"request": "r", "driver": device_documents.DRIVER, "pool": node, "device": "gpu-0"}
        there = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        document["status"] = {
            "allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [there]}},
            "reservedFor": [{"resource": "pods", "name": one, "uid": f"pod-{one}"} for one in pods],
        }
    cluster.show(build(ResourceClaim, document))


def _from_template(cluster: Cluster, name: str, node: str) -> None:
    """A pod with a controller whose claim was made from a template."""
    _claim(cluster, f"{name}-gpu-x", name, node=node, owner=name)
    cluster.pod(
        name,
        cpu="1",
        node=node or None,
        metadata=OWNER,
        spec=FROM_TEMPLATE,
        status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu-x"}]},
    )


def _by_name(cluster: Cluster, name: str, claim: str, node: str = "") -> None:
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]}
    cluster.pod(name, cpu="1", node=node or None, metadata=OWNER, spec=spec)


def test_an_evicted_pod_gets_a_device_elsewhere_by_a_claim_that_is_made_again() -> None:
    cluster = _with_devices("n0", "n1")
    _from_template(cluster, "trainer", "n0")
    (placement,) = ask(cluster, Drain("n0")).placements
    assert (placement.message, placement.node) == ("", "n1")


def test_a_pod_that_is_gone_leaves_its_device_to_one_that_waits() -> None:
    cluster = _with_devices("n0")
    _from_template(cluster, "trainer", "n0")
    _claim(cluster, "mine")
    _by_name(cluster, "waiting", "mine")
    assert ask(cluster, RemovePod("default/trainer")).placed == 1


def test_a_preempted_pod_gets_a_device_elsewhere_by_a_claim_that_is_made_again() -> None:
    cluster = _with_devices("n0", "n1")
    _from_template(cluster, "trainer", "n0")
    cluster.pod("other", cpu="3", node="n1", priority=20)
    high, again = ask(cluster, workloads=asked(pod_json("high", cpu="4", priority=10))).placements
    assert (high.node, high.victims) == ("n0", ("default/trainer",))
    assert (again.message, again.node) == ("", "n1")


def test_the_device_of_an_evicted_pod_s_extended_resource_is_free_again() -> None:
    cluster = _with_devices("n0", extended=True)
    _claim(cluster, "special", "trainer", node="n0", owner="trainer", special=True)
    cluster.pod("trainer", cpu="1", node="n0", requests={RESOURCE: "1"}, metadata=OWNER)
    cluster.pod("next", cpu="1", requests={RESOURCE: "1"})
    assert ask(cluster, RemovePod("default/trainer")).placed == 1


@pytest.mark.parametrize(("users", "node"), [(("one", "two"), ""), (("one",), "n1")])
def test_a_claim_with_a_name_of_its_own_keeps_its_device_while_another_pod_uses_it(
    users: tuple[str, ...], node: str
) -> None:
    """``two``, where it uses the claim, stays on the node of the device, which is closed."""
    cluster = _with_devices("n0", "n1")
    _claim(cluster, "shared", *users, node="n0")
    for user in users:
        _by_name(cluster, user, "shared", "n0")
    if "two" in users:
        cluster.change("two", annotations={MIRROR: "x"})
    assert nodes_of(ask(cluster, Drain("n0"))) == {"one": node}


def test_capacity_counts_pods_with_claims_from_templates_where_devices_are_free() -> None:
    cluster = _with_devices("n0", "n1")
    _from_template(cluster, "trainer", "n0")
    found = answered(cluster, capacity(cluster.engine, cluster.now))
    assert [shape.message for shape in found.shapes] == [""]
    assert [one.nodes for one in found.pools[0].fits] == [1]


def test_the_pods_that_a_group_lacks_have_claims_of_their_own() -> None:
    cluster = Gangs()
    cluster.show(build(DeviceClass, device_documents.device_class("gpus", "true")))
    for node in ("n0", "n1"):
        _add_node(cluster, node)
    cluster.group(min_count=2)
    _claim(cluster, "first-gpu-x", owner="first")
    statuses = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "first-gpu-x"}]}
    cluster.member("first", cpu="1", spec=FROM_TEMPLATE, status=statuses)
    found = answered(cluster, what_helps(cluster.engine, "default/g", cluster.now))
    assert "create 1 more pod like default/first" in [one.text for one in found.helps]


def _stateful_set(replicas: int = 1, **spec: Any) -> dict[str, Any]:
    """``db``, each of whose pods has a volume of its own."""
    manifest = {**deployment(replicas, name="db"), "kind": "StatefulSet"}
    template = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    manifest["spec"] |= {"volumeClaimTemplates": [template], **spec}
    return manifest


def _with_storage(*, wait: bool = True) -> Cluster:
    """Three nodes, each with the label disk; the default class reaches n1 alone."""
    cluster = Cluster()
    for number in range(3):
        cluster.node(f"n{number}", cpu="4", labels={"disk": f"n{number}"})
    there = [{"disk": ["n1"]}]
    cluster.show(builders.storage_class("fast", topologies=there, wait=wait, metadata=DEFAULT))
    return cluster


def test_a_stateful_set_s_pods_go_where_the_volumes_of_its_claim_templates_can_be() -> None:
    answer = ask(_with_storage(), workloads=asked(_stateful_set(3)))
    assert nodes_of(answer) == {"db-0": "n1", "db-1": "n1", "db-2": "n1"}
    assert not answer.notes


def test_a_stateful_set_s_pod_takes_the_claim_of_its_name_that_is_left_of_an_earlier_one() -> None:
    cluster = _with_storage()
    there = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["n2"]}]}
    cluster.show(builders.volume("pv", storage_class="fast", node_affinity=[there], phase="Bound"))
    cluster.show(builders.claim("data-db-1", storage_class="fast", volume="pv"))
    answer = ask(cluster, workloads=asked(_stateful_set(2)))
    assert nodes_of(answer) == {"db-0": "n1", "db-1": "n2"}


def test_an_evicted_pod_of_a_stateful_set_keeps_its_claims_and_labels() -> None:
    cluster = _with_storage()
    there = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["n0", "n2"]}]}
    cluster.show(builders.volume("pv", storage_class="fast", node_affinity=[there], phase="Bound"))
    cluster.show(builders.claim("data-db-0", storage_class="fast", volume="pv"))
    labels = {"statefulset.kubernetes.io/pod-name": "db-0", "controller-revision-hash": "db-1"}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}
    owner = {"ownerReferences": [{"kind": "StatefulSet", "name": "db", "uid": "set", "controller": True}]}
    cluster.pod("db-0", cpu="1", node="n0", labels=labels, volumes=[volume], metadata=owner)
    term = {"topologyKey": "disk", "labelSelector": {"matchLabels": labels}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    answer = ask(cluster, Drain("n0"), workloads=asked(pod_json("beside", spec={"affinity": near})))
    assert nodes_of(answer) == {"db-0": "n2", "beside": "n2"}


def test_further_pods_of_a_stateful_set_come_after_those_that_it_has() -> None:
    cluster = _with_storage()
    cluster.pod("db-0", cpu="1", node="n0")
    assert list(nodes_of(ask(cluster, workloads=asked(_stateful_set(2))))) == ["db-1", "db-2"]
    later = ask(cluster, workloads=asked(_stateful_set(2, ordinals={"start": 5})))
    assert list(nodes_of(later)) == ["db-5", "db-6"]


def test_pods_of_a_stateful_set_have_the_labels_of_their_revision() -> None:
    cluster = _with_storage(wait=False)
    for number in range(3):
        cluster.pod(f"old-{number}", node=f"n{number}", labels={"app": "db", "controller-revision-hash": "old"})
    selector = {"matchLabels": {"app": "db"}}
    term = {"topologyKey": "disk", "labelSelector": selector, "matchLabelKeys": ["controller-revision-hash"]}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    manifest = _stateful_set(3)
    manifest["spec"]["template"]["spec"]["affinity"] = affinity
    assert set(nodes_of(ask(cluster, workloads=asked(manifest))).values()) == {"n0", "n1", "n2"}


def test_volumes_of_a_class_that_provides_them_at_once_are_left_out_and_the_answer_says_so() -> None:
    answer = ask(_with_storage(wait=False), workloads=asked(_stateful_set(1)))
    assert answer.placed == 1
    assert answer.notes == ("volumes of db that are provided before their pods are tried were left out",)


def test_generic_ephemeral_volumes_of_asked_pods_are_made_where_they_can_be() -> None:
    template = {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}}
    manifest = deployment(2, volumes=[{"name": "scratch", "ephemeral": template}])
    assert set(nodes_of(ask(_with_storage(), workloads=asked(manifest))).values()) == {"n1"}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"volumeClaimTemplates": [{"metadata": {"name": "Data"}}]}, "name of a volume claim template 'Data' must"),
        ({"volumeClaimTemplates": [1]}, "volumeClaimTemplates must be a list of mappings"),
        ({"volumeClaimTemplates": [{"metadata": {"name": "a"}, "spec": 1}]}, "spec must be a mapping"),
        ({"ordinals": {"start": "2"}}, "ordinals.start must be a number from 0 on"),
    ],
)
def test_wrong_parts_of_a_stateful_set_are_named(spec: dict[str, Any], text: str) -> None:
    with pytest.raises(WrongQuestion, match=text):
        ask(_with_storage(), workloads=asked(_stateful_set(1, **spec)))
