"""Pods and nodes as the API server shows them, in its JSON: `pod_json("a", cpu="500m")`, `node_json("n", zone="a")`.

`PodFields` and `NodeFields` are the keywords that builders of pods and nodes take. What has no keyword is given in the
API's own form: `spec={...}`, `status={...}` and `metadata={...}` are merged in last and win. The namespace is `default`
and the UID `<kind>-<name>` unless stated; outside of the namespace `default` its name is part of the UID.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypedDict, Unpack

from scheduler.testing.fragments import Json, container_json, given, taint, toleration

DEFAULT_NAMESPACE: Final = "default"
CREATED: Final = "2026-01-01T00:00:00Z"


class PodFields(TypedDict, total=False):
    """Keywords of `pod`, all of them optional."""

    namespace: str
    uid: str | None
    labels: Mapping[str, str] | None
    annotations: Mapping[str, str] | None
    owner: Json | None
    """See `owner_json`."""
    created: str | None
    deleted: str | None
    resource_version: str | None
    cpu: str | None
    memory: str | None
    requests: Mapping[str, str] | None
    """Requests of the container, beside `cpu` and `memory`."""
    image: str
    ports: Iterable[int | Json]
    """Host ports, or ports in the API's form."""
    containers: Sequence[Json] | None
    """In place of the one that the fields above describe."""
    init_containers: Sequence[Json]
    node: str | None
    """The node that the pod is bound to."""
    nominated: str | None
    scheduler: str
    priority: int | None
    preemption_policy: str | None
    node_selector: Mapping[str, str] | None
    affinity: Json | None
    """See `affinity_json`."""
    tolerations: Iterable[str | Json]
    """See `toleration`."""
    spread: Iterable[Json]
    """Topology spread constraints; see `spread_json`."""
    claims: Iterable[str]
    """Names of PersistentVolumeClaims; each becomes a volume."""
    volumes: Iterable[Json]
    gates: Iterable[str]
    phase: str | None
    """By default Running on a node, else Pending."""
    started: str | None
    metadata: Json | None
    spec: Json | None
    status: Json | None


class NodeFields(TypedDict, total=False):
    """Keywords of `node`, all of them optional."""

    cpu: str | None
    """By default 4."""
    memory: str | None
    """By default 8Gi."""
    pods: int | str | None
    """By default 110."""
    allocatable: Mapping[str, str] | None
    """Added to cpu, memory and pods."""
    labels: Mapping[str, str] | None
    """Added to the hostname's."""
    zone: str | None
    region: str | None
    annotations: Mapping[str, str] | None
    taints: Iterable[str | Json]
    """See `taint`."""
    unschedulable: bool
    ready: bool
    images: Mapping[str, int] | None
    """Sizes in bytes by name."""
    features: Sequence[str]
    resource_version: str | None
    metadata: Json | None
    spec: Json | None
    status: Json | None


def pod_json(name: str = "pod", **fields: Unpack[PodFields]) -> Json:
    """A pod of one container, unless `containers` are given."""
    node = fields.get("node")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _pod_metadata(name, fields),
        "spec": _pod_spec(fields) | (fields.get("spec") or {}),
        "status": given(
            phase=fields.get("phase") or ("Running" if node else "Pending"),
            nominatedNodeName=fields.get("nominated"),
            startTime=fields.get("started"),
        )
        | (fields.get("status") or {}),
    }


def _pod_metadata(name: str, fields: PodFields) -> Json:
    namespace = fields.get("namespace", DEFAULT_NAMESPACE)
    owner = fields.get("owner")
    own = given(
        namespace=namespace,
        uid=fields.get("uid"),
        labels=fields.get("labels"),
        annotations=fields.get("annotations"),
        creationTimestamp=fields.get("created", CREATED),
        deletionTimestamp=fields.get("deleted"),
        resourceVersion=fields.get("resource_version"),
        ownerReferences=[owner] if owner else None,
    )
    place = "" if namespace == DEFAULT_NAMESPACE else f"{namespace}-"
    return {"name": name, "uid": f"pod-{place}{name}"} | own | (fields.get("metadata") or {})


def _pod_spec(fields: PodFields) -> Json:
    volumes: list[Json] = [
        {"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in fields.get("claims", ())
    ]
    volumes += fields.get("volumes", ())
    containers = fields.get("containers")
    return given(
        nodeName=fields.get("node"),
        schedulerName=fields.get("scheduler", "tandem-scheduler"),
        priority=fields.get("priority"),
        preemptionPolicy=fields.get("preemption_policy"),
        nodeSelector=fields.get("node_selector"),
        affinity=fields.get("affinity"),
        tolerations=[toleration(one) if isinstance(one, str) else one for one in fields.get("tolerations", ())] or None,
        topologySpreadConstraints=list(fields.get("spread", ())) or None,
        containers=[_container(fields)] if containers is None else list(containers),
        initContainers=list(fields.get("init_containers", ())) or None,
        volumes=volumes or None,
        schedulingGates=[{"name": gate} for gate in fields.get("gates", ())] or None,
    )


def _container(fields: PodFields) -> Json:
    return container_json(
        image=fields.get("image", "registry.test/app:v1"),
        cpu=fields.get("cpu"),
        memory=fields.get("memory"),
        requests=fields.get("requests"),
        ports=fields.get("ports", ()),
    )


def node_json(name: str = "node", **fields: Unpack[NodeFields]) -> Json:
    """A node with its hostname label, ready unless `ready=False`."""
    pods = fields.get("pods", 110)
    offered = given(
        cpu=fields.get("cpu", "4"),
        memory=fields.get("memory", "8Gi"),
        pods=str(pods) if pods is not None else None,
    ) | dict(fields.get("allocatable") or {})
    taints = [taint(one) if isinstance(one, str) else one for one in fields.get("taints", ())]
    images = [{"names": [image], "sizeBytes": size} for image, size in (fields.get("images") or {}).items()]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _node_metadata(name, fields),
        "spec": given(unschedulable=fields.get("unschedulable") or None, taints=taints or None)
        | (fields.get("spec") or {}),
        "status": given(
            allocatable=offered,
            capacity=offered,
            conditions=[{"type": "Ready", "status": "True" if fields.get("ready", True) else "False"}],
            images=images or None,
            declaredFeatures=list(fields.get("features", ())) or None,
        )
        | (fields.get("status") or {}),
    }


def _node_metadata(name: str, fields: NodeFields) -> Json:
    labels = given(
        **{
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": fields.get("zone"),
            "topology.kubernetes.io/region": fields.get("region"),
        }
    )
    own = given(
        labels=labels | dict(fields.get("labels") or {}),
        annotations=fields.get("annotations"),
        resourceVersion=fields.get("resource_version"),
    )
    return {"name": name, "uid": f"node-{name}"} | own | (fields.get("metadata") or {})
