"""Manifests of a question become pods as the API server and the controllers would make them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.questions.edits import AddTaint, PutObject, WrongQuestion
from scheduler.objects.namespace import Namespace
from scheduler.testing.documents import pod_json
from scheduler.testing.objects import build
from tests import builders, device_documents
from tests.engine.driver import Cluster
from tests.engine.questions.asking import ask, asked, deployment


def test_a_priority_class_is_known_from_pods_that_have_it() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1")
    cluster.pod("gold", priority=50, node="n0", spec={"priorityClassName": "gold"})
    cluster.pod("there", cpu="1", priority=7, node="n0")
    answer = ask(cluster, workloads=asked(deployment(1, priorityClassName="gold")))
    assert answer.placements[0].victims == ("default/there",)


def test_limits_stand_in_for_requests_as_the_api_server_fills_them_in() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1")
    manifest = deployment(1)
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2"}}
    assert "Insufficient cpu" in ask(cluster, workloads=asked(manifest)).placements[0].message


def test_pods_of_a_priority_class_that_never_preempts_preempt_in_no_answer() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1")
    cluster.pod("other", priority=50, preemption_policy="Never", node="n0", spec={"priorityClassName": "patient"})
    cluster.pod("there", cpu="1", priority=7, node="n0")
    ways: list[dict[str, Any]] = [{}, {"priority": 50}]
    for stated in ways:
        answer = ask(cluster, workloads=asked(deployment(1, priorityClassName="patient", **stated)))
        assert (answer.placed, answer.placements[0].victims) == (0, ())


@pytest.mark.parametrize(
    ("resources", "container", "placed"),
    [
        ({"limits": {"cpu": "2"}}, {}, 0),
        ({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}, {}, 1),
        ({"limits": {"cpu": "2"}}, {"requests": {"cpu": "1"}}, 1),
        ({"limits": {"hugepages-2Mi": "4Mi"}}, {}, 0),
    ],
)
def test_limits_of_a_whole_pod_stand_in_for_requests_that_no_container_states(
    resources: dict[str, Any], container: dict[str, Any], placed: int
) -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1")
    manifest = deployment(1, resources=resources)
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"] = container
    assert ask(cluster, workloads=asked(manifest)).placed == placed


@pytest.mark.parametrize(("keys", "placed"), [("matchLabelKeys", 1), ("mismatchLabelKeys", 0)])
def test_terms_of_pod_affinity_are_narrowed_to_the_pods_own_labels_by_their_keys(keys: str, placed: int) -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="4", labels={"kubernetes.io/hostname": "n0"})
    cluster.pod("old", cpu="1", node="n0", labels={"app": "web", "pod-template-hash": "old"})
    selector = {"matchLabels": {"app": "web"}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector, keys: ["pod-template-hash"]}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert ask(cluster, workloads=asked(deployment(1, affinity=affinity))).placed == placed
    preferred = [{"weight": 1, "podAffinityTerm": term}]
    soft = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    assert ask(cluster, workloads=asked(deployment(1, affinity=soft))).placed == 1


def test_a_job_has_no_more_pods_at_once_than_are_to_be_completed() -> None:
    cluster = Cluster()
    cluster.nodes_like(1, cpu="8")
    template = deployment(1)["spec"]["template"]
    spec = {"parallelism": 5, "completions": 2, "template": template}
    job = {"kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    assert ask(cluster, workloads=asked(job)).placed == 2
    assert ask(cluster, workloads=asked(job, replicas=4)).placed == 4


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_an_empty_number_of_replicas_is_one(kind: str) -> None:
    cluster = Cluster()
    cluster.nodes_like(1, cpu="8")
    manifest = {**deployment(1), "kind": kind}
    manifest["spec"] |= {"replicas": None, "parallelism": None, "completions": None}
    assert ask(cluster, workloads=asked(manifest)).placed == 1


def _put(name: str, node: str = "", **spec: Any) -> PutObject:
    document = pod_json(name, spec=spec)
    document["spec"].pop("schedulerName")
    document["spec"].pop("priority", None)
    if node:
        document["spec"]["nodeName"] = node
    return PutObject(document)


GOLD = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 50}


def test_limits_of_pods_that_are_put_stand_in_for_requests() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1")
    containers = [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]
    assert "Insufficient cpu" in ask(cluster, _put("p", containers=containers)).placements[0].message
    (asked_for,) = ask(cluster, _put("p", "n0", containers=containers), workloads=asked(deployment(1))).placements
    assert "Insufficient cpu" in asked_for.message


def test_a_pod_that_is_put_tolerates_nodes_that_are_not_ready_for_a_while() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1")
    answer = ask(cluster, _put("p", node="n0"), AddTaint("n0", "node.kubernetes.io/unreachable", "NoExecute"))
    assert [one.why for one in answer.left] == ["has no controller that would create it again, after 300 s"]


def test_a_pod_that_is_put_is_one_of_this_scheduler_unless_it_names_another() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1")
    assert [one.by_profile for one in ask(cluster, _put("p")).placements] == [""]


def test_a_priority_class_of_the_question_counts_for_pods_that_are_asked_or_put() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1")
    cluster.pod("there", cpu="1", priority=7, node="n0")
    manifests = asked(deployment(1, priorityClassName="gold"))
    assert ask(cluster, PutObject(GOLD), workloads=manifests).placements[0].victims == ("default/there",)
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    edits = (_put("p", priorityClassName="gold", containers=containers), PutObject(GOLD))
    assert ask(cluster, *edits).placements[0].victims == ("default/there",)
    default = PutObject({**GOLD, "globalDefault": True})
    assert ask(cluster, default, workloads=asked(deployment(1))).placements[0].victims == ("default/there",)


@pytest.mark.parametrize("spec", [{"priorityClassName": "gold"}, {"containers": 1}, {"containers": [1]}])
def test_a_pod_that_can_t_be_put_is_refused_with_its_reason(spec: dict[str, Any]) -> None:
    with pytest.raises(WrongQuestion, match=r"priorityClassName 'gold' is not known here|Pod can't be read"):
        ask(Cluster(), _put("p", **spec))


def test_other_objects_that_are_put_have_the_api_server_s_defaults() -> None:
    cluster = Cluster()
    node = {"kind": "Node", "metadata": {"name": "n0", "labels": {"disk": "n0"}}}
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    default = {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    storage = {"kind": "StorageClass", "metadata": default, "provisioner": "csi.test"}
    data = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    request = {"name": "r", "exactly": {"deviceClassName": "gpus"}}
    claim = {"kind": "ResourceClaim", "metadata": {"name": "gpu"}, "spec": {"devices": {"requests": [request]}}}
    puts = [
        PutObject({**node, "status": {"capacity": capacity}}),
        PutObject({**storage, "volumeBindingMode": "WaitForFirstConsumer"}),
        PutObject(data),
        PutObject(device_documents.device_class("gpus", "true")),
        PutObject(device_documents.resource_slice("n0", device_documents.gpu("gpu-0"))),
        PutObject(claim),
    ]
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    manifest = deployment(1, volumes=volumes, resourceClaims=claims)
    (placement,) = ask(cluster, *puts, workloads=asked(manifest)).placements
    assert (placement.message, placement.node) == ("", "n0")


def test_a_volume_that_is_put_without_a_status_is_available() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1")
    cluster.show(builders.storage_class("disk", wait=True, provisioner="kubernetes.io/no-provisioner"))
    cluster.show(builders.claim("data", storage_class="disk"))
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "disk"}
    volume = {"kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": spec}
    pod = pod_json("p", cpu="1", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    assert ask(cluster, workloads=asked(pod)).placed == 0
    assert ask(cluster, PutObject(volume), workloads=asked(pod)).placed == 1
    released = {**volume, "status": {"phase": "Released"}}
    assert ask(cluster, PutObject(released), workloads=asked(pod)).placed == 0


IS_MADE_OF = "pods are made of a Pod, a Deployment, a ReplicaSet, a StatefulSet or a Job"
FAULTY: dict[str, Any] = {"containers": [{"name": "c", "resources": {"limits": 5}}]}


@pytest.mark.parametrize(
    ("manifest", "text"),
    [
        ({}, f"the manifest has no kind: {IS_MADE_OF}"),
        ({"kind": "Service", "metadata": {"name": "s"}}, f"kind 'Service': {IS_MADE_OF}; put it by an edit"),
        ({"kind": "PodGroup"}, f"kind 'PodGroup': {IS_MADE_OF}; put it by an edit (--edit FILE)"),
        ({"kind": "PriorityClass"}, "put it by an edit (--edit FILE)"),
        ({"kind": "DaemonSet"}, f"{IS_MADE_OF}; ask about a Pod of its template"),
        ({"kind": "CronJob"}, "ask about the Job of its jobTemplate"),
        ({"kind": "Foo"}, f"kind 'Foo': {IS_MADE_OF}; leave it out, since decisions read no such objects"),
        ({"kind": "Pod"}, "the Pod has no name: state metadata.name"),
        ({"kind": ["Pod"], "metadata": {"name": "p"}}, "leave it out"),
        (
            {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": 5}},
            "Pod: its pods can't be read: Expected `array`, got `int` - at `$.spec.containers`",
        ),
        (
            deployment(1, containers=[5]),
            "Deployment: its pods can't be read: Expected `object`, got `int` - at `$.spec",
        ),
        (deployment(1, **FAULTY), "at `$.spec.containers[0].resources.limits`"),
        (deployment(1, volumes=5), "at `$.spec.volumes`"),
        (
            {**deployment(1), "kind": "StatefulSet", "spec": {"volumeClaimTemplates": 5}},
            "volumeClaimTemplates must be a list",
        ),
    ],
)
def test_a_manifest_that_no_pods_can_be_made_of_is_refused_with_what_to_do(manifest: dict[str, Any], text: str) -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1")
    with pytest.raises(WrongQuestion) as error:
        ask(cluster, workloads=asked(manifest))
    assert text in str(error.value)


def test_a_pod_that_is_put_and_can_not_be_read_is_refused_with_the_field() -> None:
    with pytest.raises(WrongQuestion, match=r"a Pod can't be read: .* at `\$\.spec\.containers`"):
        ask(Cluster(), _put("p", containers=5))


def test_what_a_limit_range_may_set_is_named_unless_the_containers_state_it() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="4")
    text = "state no request for cpu, or none for memory: what a LimitRange of the namespace would set was left out"
    silent = pod_json("silent", cpu="1")
    assert ask(cluster, workloads=asked(silent, deployment(1))).notes == (f"containers of silent {text}",)
    limits = {"resources": {"limits": {"cpu": "1", "memory": "1Mi"}}}
    assert ask(cluster, workloads=asked(deployment(1, containers=[limits]))).notes == ()
    first = ask(cluster, workloads=asked(deployment(1, initContainers=[{"name": "first"}])))
    assert first.notes == (f"containers of web {text}",)
    assert ask(cluster, _put("put")).notes == (f"containers of put {text}",)
    assert ask(cluster, _put("put", node="n0")).notes == ()


def test_a_runtime_class_whose_overhead_is_not_stated_is_named() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="4")
    answer = ask(cluster, workloads=asked(deployment(1, runtimeClassName="gvisor")))
    text = "nothing is known of the RuntimeClass 'gvisor': its overhead and its node selector were left out"
    assert answer.notes == (text,)
    stated: dict[str, Any] = {"runtimeClassName": "gvisor", "overhead": {"cpu": "4"}}
    answer = ask(cluster, workloads=asked(deployment(1, **stated)))
    assert (answer.pending, answer.notes) == (1, ())


def test_a_namespace_that_does_not_exist_or_ends_is_named_where_namespaces_are_known() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="4")
    question = asked(deployment(1))
    assert ask(cluster, workloads=question).notes == ()
    cluster.show(build(Namespace, {"metadata": {"name": "shop"}}))
    text = "no namespace default is there to take pods: the API server refuses them"
    assert ask(cluster, workloads=question).notes == (text,)
    new = PutObject({"kind": "Namespace", "metadata": {"name": "default"}})
    assert ask(cluster, new, workloads=question).notes == ()
    ending = {"name": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert ask(cluster, PutObject({"kind": "Namespace", "metadata": ending}), workloads=question).notes == (text,)
