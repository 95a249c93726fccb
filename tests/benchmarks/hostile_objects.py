"""Objects that an API server admits and that are hard on a scheduler: many terms, labels or resources in one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from scheduler.objects.kinds import Kind
from scheduler.testing.documents import node_json
from tests.benchmarks.clusters import pending

NODES = 5_000
HOST = "kubernetes.io/hostname"

LIMIT_BYTES = 1_500_000
"""Of a request, etcd's limit is 1.5 MiB; an object's JSON is at most this long."""

Documents = list[tuple[Kind, dict[str, Any]]]


def term(key: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def with_terms(terms: list[dict[str, Any]]) -> Documents:
    document = pending("hostile")
    required = {"nodeSelectorTerms": terms}
    document["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    document["spec"]["priority"] = 100
    return [(Kind.POD, document)]


def tolerating() -> Documents:
    document = pending("hostile")
    document["spec"]["tolerations"] = [
        {"key": f"taint-{number}", "operator": "Exists", "effect": "NoSchedule"} for number in range(15_000)
    ]
    document["spec"]["priority"] = 100
    return [(Kind.POD, document)]


def named_nodes() -> Documents:
    name = "metadata.name"
    fields = [{"key": name, "operator": "In", "values": [f"node-{number:05}"]} for number in range(10_000)]
    return with_terms([{"matchFields": [field]} for field in fields])


def preferring() -> Documents:
    document = pending("hostile")
    terms = [{"weight": 1, "preference": term(HOST, f"node-{number % NODES:05}")} for number in range(10_000)]
    document["spec"]["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    document["spec"]["priority"] = 100
    return [(Kind.POD, document)]


def apart_from(count: int, namespaces: int, *, is_preferred: bool = False) -> Documents:
    document = pending("hostile")
    named = {"namespaces": [f"namespace-{number}" for number in range(namespaces)]} if namespaces else {}
    terms: list[dict[str, Any]] = [
        {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": f"app-{number}"}}, **named}
        for number in range(count)
    ]
    if is_preferred:
        weighted = [{"weight": 1, "podAffinityTerm": term} for term in terms]
        document["spec"]["affinity"] = {
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
        }
    else:
        document["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    document["spec"]["priority"] = 100
    return [(Kind.POD, document)]


def labelled(count: int) -> Documents:
    document = pending("hostile", labels=keys(count))
    document["spec"]["priority"] = 100
    return [(Kind.POD, document)]


def with_claims(claims: int, volumes: int) -> Documents:
    """A pod with claims of a class whose static volumes are all in one zone."""
    storage_class = {
        "metadata": {"name": "static"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    fields = {"accessModes": ["ReadWriteOnce"], "storageClassName": "static"}
    zone = {"required": {"nodeSelectorTerms": [term("topology.kubernetes.io/zone", "zone-1")]}}
    documents: Documents = [(Kind.STORAGE_CLASS, storage_class)]
    for number in range(volumes):
        spec = {**fields, "capacity": {"storage": "1Gi"}, "nodeAffinity": zone}
        volume = {"metadata": {"name": f"volume-{number}"}, "spec": spec, "status": {"phase": "Available"}}
        documents.append((Kind.PERSISTENT_VOLUME, volume))
    for number in range(claims):
        metadata = {"name": f"claim-{number}", "namespace": "default", "uid": f"claim-{number}"}
        spec = {**fields, "resources": {"requests": {"storage": "1Gi"}}}
        documents.append((Kind.PERSISTENT_VOLUME_CLAIM, {"metadata": metadata, "spec": spec}))
    document = pending("hostile")
    document["spec"]["volumes"] = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": f"claim-{number}"}} for number in range(claims)
    ]
    document["spec"]["priority"] = 100
    return [*documents, (Kind.POD, document)]


def asking_for(count: int, amount: str, node: str = "") -> Documents:
    document = pending("hostile", requests={f"example.com/r-{number}": amount for number in range(count)})
    document["spec"]["priority"] = 100
    if node:
        document["spec"] |= {"nodeName": node, "schedulerName": "other"}
    return [(Kind.POD, document)]


def spreading(count: int) -> Documents:
    document = pending("hostile", labels={"app": "x"})
    document["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": f"key-{number}",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": f"app-{number}"}},
        }
        for number in range(count)
    ]
    document["spec"]["priority"] = 100
    return [(Kind.POD, document)]


def claiming(claim: dict[str, Any], *others: tuple[Kind, dict[str, Any]]) -> Documents:
    """A pod with a claim ``data``, whose spec this is, and what is there besides."""
    fields = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    document = pending("hostile")
    document["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    document["spec"]["priority"] = 100
    metadata: dict[str, Any] = {"name": "data", "namespace": "default", "uid": "claim"}
    status = {"phase": "Bound" if "volumeName" in claim else "Pending"}
    if "volumeName" in claim:
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    claimed = {"metadata": metadata, "spec": {**fields, **claim}, "status": status}
    return [*others, (Kind.PERSISTENT_VOLUME_CLAIM, claimed), (Kind.POD, document)]


def class_with_terms(terms: list[dict[str, Any]]) -> Documents:
    storage_class = {
        "metadata": {"name": "odd"},
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": terms,
    }
    return claiming({"storageClassName": "odd"}, (Kind.STORAGE_CLASS, storage_class))


def volume_with_terms(terms: list[dict[str, Any]]) -> Documents:
    volume = {
        "metadata": {"name": "odd"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "default", "name": "data", "uid": "claim"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
        "status": {"phase": "Bound"},
    }
    return claiming({"volumeName": "odd"}, (Kind.PERSISTENT_VOLUME, volume))


def node(**fields: Any) -> list[dict[str, Any]]:
    return [node_json("odd", cpu="32", memory="128Gi", pods=110, **fields)]


def no_nodes() -> list[dict[str, Any]]:
    return []


def keys(count: int) -> dict[str, str]:
    return {f"key-{number}": f"value-{number}" for number in range(count)}


# --- at the limit of size ---------------------------------------------------------------------------------------------


def as_many(piece: Callable[[int], Any], *, limit: int = LIMIT_BYTES - 10_000) -> list[Any]:
    """Pieces by their number, as many as an object may hold."""
    count = limit // (len(msgspec.json.encode(piece(10_000))) + 1)
    return [piece(number) for number in range(count)]


def as_many_named(key: str, value: str, *, share: float = 1.0) -> dict[str, str]:
    """Key → value with numbers in place of ``{}``, as many as an object may hold."""
    count = int((LIMIT_BYTES - 10_000) * share) // (len(f'"{key}":"{value}",'.format(10_000, 10_000)) + 2)
    return {key.format(number): value.format(number) for number in range(count)}


def pod(spec: dict[str, Any], **fields: Any) -> Documents:
    document = pending("hostile", **fields)
    document["spec"] |= spec | {"priority": 100}
    return [(Kind.POD, document)]


def pod_affinity(kind: str, terms: list[dict[str, Any]]) -> Documents:
    """A pod with these terms, which are preferred if they have weights."""
    when = "preferred" if "weight" in terms[0] else "required"
    return pod({"affinity": {kind: {f"{when}DuringSchedulingIgnoredDuringExecution": terms}}})


def weighted_term(number: int) -> dict[str, Any]:
    return {"weight": 1, "podAffinityTerm": short_term(number)}


def short_term(number: int) -> dict[str, Any]:
    return {"topologyKey": HOST, "labelSelector": {"matchLabels": {"a": str(number)}}}


def one_requirement(operator: str) -> dict[str, Any]:
    """A node selector term or a label selector with one requirement, of as many values as an object may hold."""
    return {
        "matchExpressions": [{"key": HOST, "operator": operator, "values": as_many(lambda number: f"n{number:06}")}]
    }


def constraint(when: str, selector: dict[str, Any], number: int) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": f"k{number}", "whenUnsatisfiable": when, "labelSelector": selector}


def container(number: int) -> dict[str, Any]:
    return {"name": f"c{number}", "image": f"i{number}", "resources": {"requests": {"cpu": "1m"}}}


def port(number: int) -> dict[str, Any]:
    return {"containerPort": 80, "hostPort": 1 + number % 65_535, "protocol": ("TCP", "UDP")[number // 65_535]}


def claim_with_selector(selector: dict[str, Any]) -> Documents:
    volume = {
        "metadata": {"name": "free", "labels": {"k1": "v"}},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "static"},
        "status": {"phase": "Available"},
    }
    storage_class = {
        "metadata": {"name": "static"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    return claiming(
        {"storageClassName": "static", "selector": selector},
        (Kind.STORAGE_CLASS, storage_class),
        (Kind.PERSISTENT_VOLUME, volume),
    )


def nodes_of(documents: list[dict[str, Any]]) -> Documents:
    return [(Kind.NODE, document) for document in documents]


Case = tuple[Callable[[], list[dict[str, Any]]], Callable[[], Documents]]

_ANTI, _TOWARDS = "podAntiAffinity", "podAffinity"
_NAME = "kubernetes.io/r{}"

AT_THE_LIMIT: dict[str, Callable[[], Documents]] = {
    "labels of a pod": lambda: pod({}, labels=as_many_named("k{}", "v{}")),
    "resources of a pod": lambda: pod({}, requests=as_many_named(_NAME, "1")),
    "resources of a pod, of amount 0": lambda: pod({}, requests=as_many_named(_NAME, "0")),
    "extended resources of a pod, with limits": lambda: pod(
        {},
        requests=as_many_named("e.com/r{}", "1", share=0.5),
        limits=as_many_named("e.com/r{}", "1", share=0.5),
    ),
    "node selector of a pod": lambda: pod({"nodeSelector": as_many_named("k{}", "v{}")}),
    "values in one node affinity term": lambda: with_terms([one_requirement("In")]),
    "unwanted values in one node affinity term": lambda: with_terms([one_requirement("NotIn")]),
    "requirements in one node affinity term": lambda: with_terms(
        [{"matchExpressions": as_many(lambda number: {"key": f"k{number}", "operator": "DoesNotExist"})}]
    ),
    "preferred values in one node affinity term": lambda: pod(
        {
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "preference": one_requirement("In")}
                    ]
                }
            }
        }
    ),
    "node affinity terms": lambda: with_terms(as_many(lambda number: term(f"k{number}", "x"))),
    "required anti-affinity terms": lambda: pod_affinity(_ANTI, as_many(short_term)),
    "required affinity terms": lambda: pod_affinity(_TOWARDS, as_many(short_term)),
    "preferred anti-affinity terms": lambda: pod_affinity(_ANTI, as_many(weighted_term)),
    "preferred affinity terms": lambda: pod_affinity(_TOWARDS, as_many(weighted_term)),
    "values in one anti-affinity term": lambda: pod_affinity(
        _ANTI, [{"topologyKey": HOST, "labelSelector": one_requirement("In")}]
    ),
    "labels in one anti-affinity term": lambda: pod_affinity(
        _ANTI, [{"topologyKey": HOST, "labelSelector": {"matchLabels": as_many_named("k{}", "v{}")}}]
    ),
    "labels in one affinity term": lambda: pod_affinity(
        _TOWARDS, [{"topologyKey": HOST, "labelSelector": {"matchLabels": as_many_named("k{}", "v{}")}}]
    ),
    "namespaces in one anti-affinity term": lambda: pod_affinity(
        _ANTI,
        [{"topologyKey": HOST, "labelSelector": {}, "namespaces": as_many(lambda number: f"n{number:06}")}],
    ),
    "spread constraints, preferred": lambda: pod(
        {
            "topologySpreadConstraints": as_many(
                lambda number: constraint("ScheduleAnyway", {"matchLabels": {"app": f"a{number}"}}, number)
            )
        }
    ),
    "spread constraints, required": lambda: pod(
        {
            "topologySpreadConstraints": as_many(
                lambda number: constraint("DoNotSchedule", {"matchLabels": {"app": f"a{number}"}}, number)
            )
        }
    ),
    "labels in one spread constraint": lambda: pod(
        {
            "topologySpreadConstraints": [
                constraint("DoNotSchedule", {"matchLabels": as_many_named("k{}", "v{}")}, 1) | {"topologyKey": HOST}
            ]
        }
    ),
    "values in one spread constraint": lambda: pod(
        {"topologySpreadConstraints": [constraint("DoNotSchedule", one_requirement("In"), 1) | {"topologyKey": HOST}]}
    ),
    "tolerations": lambda: pod({"tolerations": as_many(lambda number: {"key": f"t{number}", "operator": "Exists"})}),
    "containers": lambda: pod({"containers": as_many(container)}),
    "init containers": lambda: pod({"initContainers": as_many(container)}),
    "host ports": lambda: pod({"containers": [{"name": "c", "image": "i", "ports": as_many(port)}]}),
    "claims that are not there": lambda: pod(
        {
            "volumes": as_many(
                lambda number: {"name": f"v{number}", "persistentVolumeClaim": {"claimName": f"c{number}"}}
            )
        }
    ),
    "resource claims that are not there": lambda: pod(
        {"resourceClaims": as_many(lambda number: {"name": f"c{number}", "resourceClaimName": f"c{number}"})}
    ),
    "disks": lambda: pod(
        {"volumes": as_many(lambda number: {"name": f"v{number}", "gcePersistentDisk": {"pdName": f"d{number}"}})}
    ),
    "ephemeral volumes": lambda: pod(
        {"volumes": as_many(lambda number: {"name": f"v{number}", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})}
    ),
    "scheduling gates": lambda: pod({"schedulingGates": as_many(lambda number: {"name": f"g{number}"})}),
    "labels of a node": lambda: nodes_of(node(labels=as_many_named("k{}", "v{}"))),
    "taints of a node": lambda: nodes_of(
        [
            document | {"spec": {"taints": as_many(lambda number: {"key": f"t{number}", "effect": "NoSchedule"})}}
            for document in node()
        ]
    ),
    "resources of a node": lambda: nodes_of(
        [
            document | {"status": {"allocatable": {"cpu": "32", "pods": "110", **as_many_named(_NAME, "1")}}}
            for document in node()
        ]
    ),
    "images of a node": lambda: nodes_of(
        [document | {"status": {**document["status"], "images": as_many(_image)}} for document in node()]
    ),
    "affinity terms of a volume": lambda: volume_with_terms(as_many(lambda number: term("k", f"{number}"))),
    "topology terms of a class": lambda: class_with_terms(
        as_many(lambda number: {"matchLabelExpressions": [{"key": "k", "values": [f"v{number}"]}]})
    ),
    "requirements of a claim's selector": lambda: claim_with_selector(
        {"matchExpressions": as_many(lambda number: {"key": f"k{number}", "operator": "Exists"})}
    ),
    "labels of a claim's selector": lambda: claim_with_selector({"matchLabels": as_many_named("k{}", "v{}")}),
    "values of a claim's selector": lambda: claim_with_selector(one_requirement("In")),
}


def _image(number: int) -> dict[str, Any]:
    return {"names": [f"i{number}"], "sizeBytes": 30_000_000}
