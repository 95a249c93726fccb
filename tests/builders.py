"""Builders of cluster objects for tests: `pod("a", cpu="500m")`, `node("n1", taints=["dedicated=db:NoSchedule"])`.

Every builder makes the API's JSON (`pod_json`) and, without `_json`, sends it through the product's own decoder. What a
builder has no argument for is given in the API's own form: `spec={...}`, `status={...}` and `metadata={...}` are merged
in last and win. UIDs are `<kind>-<name>` and the namespace is `default` unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from scheduler.objects.budget import PodDisruptionBudget
from scheduler.objects.devices import DeviceClass
from scheduler.objects.kinds import AnyObject, decode_as
from scheduler.objects.namespace import Namespace
from scheduler.objects.node import Node
from scheduler.objects.owners import ReplicaSet, ReplicationController, Service, StatefulSet
from scheduler.objects.pod import Pod
from scheduler.objects.priority_class import PriorityClass
from scheduler.objects.storage import (
    BIND_COMPLETED_ANNOTATION,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

Json = dict[str, Any]


def build(type_: type[AnyObject], document: Mapping[str, Any]) -> AnyObject:
    """Any object from its JSON form, through the product's decoder."""
    return decode_as(type_, msgspec.json.encode(document))


# --- pods -------------------------------------------------------------------------------------------------------------


def pod_json(
    name: str = "pod",
    *,
    namespace: str = "default",
    uid: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: Json | None = None,
    created: str | None = "2026-01-01T00:00:00Z",
    deleted: str | None = None,
    resource_version: str | None = None,
    cpu: str | None = None,
    memory: str | None = None,
    requests: Mapping[str, str] | None = None,
    image: str = "registry.test/app:v1",
    ports: Iterable[int | Json] = (),
    containers: Sequence[Json] | None = None,
    init_containers: Sequence[Json] = (),
    node: str | None = None,
    nominated: str | None = None,
    scheduler: str = "tandem-scheduler",
    priority: int | None = None,
    preemption_policy: str | None = None,
    node_selector: Mapping[str, str] | None = None,
    affinity: Json | None = None,
    tolerations: Iterable[str | Json] = (),
    spread: Iterable[Json] = (),
    claims: Iterable[str] = (),
    volumes: Iterable[Json] = (),
    gates: Iterable[str] = (),
    phase: str | None = None,
    started: str | None = None,
    metadata: Json | None = None,
    spec: Json | None = None,
    status: Json | None = None,
) -> Json:
    """A pod of one container, unless `containers` are given.

    `cpu`, `memory`, `requests` are the container's requests. `ports`: host ports, or ports in the API's form.
    `tolerations`: as in `toleration`. `claims`: names of PersistentVolumeClaims, each becomes a volume.
    """
    if containers is None:
        containers = [container_json("main", image=image, cpu=cpu, memory=memory, requests=requests, ports=ports)]
    all_volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    all_volumes += list(volumes)
    return {
        "metadata": _metadata(
            "pod",
            name,
            metadata,
            namespace=namespace,
            uid=uid,
            labels=labels,
            annotations=annotations,
            creationTimestamp=created,
            deletionTimestamp=deleted,
            resourceVersion=resource_version,
            ownerReferences=[owner] if owner else None,
        ),
        "spec": _given(
            nodeName=node,
            schedulerName=scheduler,
            priority=priority,
            preemptionPolicy=preemption_policy,
            nodeSelector=node_selector,
            affinity=affinity,
            tolerations=[toleration(each) if isinstance(each, str) else each for each in tolerations] or None,
            topologySpreadConstraints=list(spread) or None,
            containers=list(containers),
            initContainers=list(init_containers) or None,
            volumes=all_volumes or None,
            schedulingGates=[{"name": gate} for gate in gates] or None,
        )
        | (spec or {}),
        "status": _given(
            phase=phase or ("Running" if node else "Pending"), nominatedNodeName=nominated, startTime=started
        )
        | (status or {}),
    }


def pod(name: str = "pod", **fields: Any) -> Pod:
    """See `pod_json`."""
    return build(Pod, pod_json(name, **fields))


def container_json(
    name: str = "main",
    *,
    image: str = "registry.test/app:v1",
    cpu: str | None = None,
    memory: str | None = None,
    requests: Mapping[str, str] | None = None,
    ports: Iterable[int | Json] = (),
    sidecar: bool = False,
    **fields: Any,
) -> Json:
    """A container. `sidecar`: an init container that goes on running. `fields` are in the API's own form."""
    asked = _given(cpu=cpu, memory=memory) | dict(requests or {})
    return (
        _given(
            name=name,
            image=image,
            resources={"requests": asked} if asked else None,
            ports=[{"hostPort": port, "containerPort": port} if isinstance(port, int) else port for port in ports]
            or None,
            restartPolicy="Always" if sidecar else None,
        )
        | fields
    )


def toleration(text: str) -> Json:
    """`key=value:Effect`, `key:Effect` (exists), `key` (exists, any effect), or `` (everything)."""
    rest, _, effect = text.partition(":")
    key, equals, value = rest.partition("=")
    if equals:
        return _given(key=key, operator="Equal", value=value, effect=effect or None)
    return _given(key=key or None, operator="Exists", effect=effect or None)


def pod_term(
    selector: Mapping[str, str] | Json | None,
    topology_key: str = "kubernetes.io/hostname",
    *,
    namespaces: Sequence[str] | None = None,
    namespace_selector: Json | None = None,
) -> Json:
    """A term of pod affinity. `selector`: labels, or a LabelSelector in the API's form."""
    return _given(
        labelSelector=label_selector(selector) if selector is not None else None,
        topologyKey=topology_key,
        namespaces=list(namespaces) if namespaces is not None else None,
        namespaceSelector=namespace_selector,
    )


def affinity_json(
    *,
    node_required: Sequence[Json] | None = None,
    node_preferred: Sequence[tuple[int, Json]] = (),
    required: Sequence[Json] = (),
    preferred: Sequence[tuple[int, Json]] = (),
    anti_required: Sequence[Json] = (),
    anti_preferred: Sequence[tuple[int, Json]] = (),
) -> Json:
    """`spec.affinity`. Node terms as in `node_term`, pod terms as in `pod_term`; the preferred ones with weights."""
    return _given(
        nodeAffinity=_given(
            requiredDuringSchedulingIgnoredDuringExecution=(
                {"nodeSelectorTerms": list(node_required)} if node_required is not None else None
            ),
            preferredDuringSchedulingIgnoredDuringExecution=[
                {"weight": weight, "preference": term} for weight, term in node_preferred
            ]
            or None,
        )
        or None,
        podAffinity=_pod_affinity(required, preferred) or None,
        podAntiAffinity=_pod_affinity(anti_required, anti_preferred) or None,
    )


def node_term(*expressions: str | Json, fields: Sequence[str | Json] = ()) -> Json:
    """A term of node affinity; see `expression` for the short form of what is in it."""
    return _given(
        matchExpressions=[expression(each) if isinstance(each, str) else each for each in expressions] or None,
        matchFields=[expression(each) if isinstance(each, str) else each for each in fields] or None,
    )


def expression(text: str) -> Json:
    """`disk In ssd,nvme`, `disk NotIn hdd`, `disk Exists`, `disk DoesNotExist`, `cores Gt 4`."""
    key, operator, *values = text.split(" ", 2)
    return _given(key=key, operator=operator, values=values[0].split(",") if values else None)


def spread_json(
    topology_key: str,
    selector: Mapping[str, str] | Json | None = None,
    *,
    max_skew: int = 1,
    soft: bool = False,
    **fields: Any,
) -> Json:
    """A topology spread constraint. `fields` are in the API's own form, such as `minDomains=2`."""
    return (
        _given(
            maxSkew=max_skew,
            topologyKey=topology_key,
            whenUnsatisfiable="ScheduleAnyway" if soft else "DoNotSchedule",
            labelSelector=label_selector(selector) if selector is not None else None,
        )
        | fields
    )


def label_selector(selector: Mapping[str, Any]) -> Json:
    """A LabelSelector: from labels, or as it is if it is one already."""
    if not selector or "matchLabels" in selector or "matchExpressions" in selector:
        return dict(selector)
    return {"matchLabels": dict(selector)}


def owner_json(kind: str, name: str, *, uid: str | None = None, api_version: str = "apps/v1") -> Json:
    """A controlling owner, for `pod(owner=...)`."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid or f"{kind.lower()}-{name}",
        "controller": True,
    }


# --- nodes ------------------------------------------------------------------------------------------------------------


def node_json(
    name: str = "node",
    *,
    cpu: str | None = "4",
    memory: str | None = "8Gi",
    pods: int | str | None = 110,
    allocatable: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    zone: str | None = None,
    region: str | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Iterable[str | Json] = (),
    unschedulable: bool = False,
    ready: bool = True,
    images: Mapping[str, int] | None = None,
    features: Sequence[str] = (),
    resource_version: str | None = None,
    metadata: Json | None = None,
    spec: Json | None = None,
    status: Json | None = None,
) -> Json:
    """A node with its hostname label. `allocatable` adds to cpu, memory and pods. `taints`: as in `taint`."""
    offered = _given(cpu=cpu, memory=memory, pods=str(pods) if pods is not None else None) | dict(allocatable or {})
    own_labels = _given(
        **{
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": zone,
            "topology.kubernetes.io/region": region,
        }
    )
    return {
        "metadata": _metadata(
            "node",
            name,
            metadata,
            labels=own_labels | dict(labels or {}),
            annotations=annotations,
            resourceVersion=resource_version,
        ),
        "spec": _given(
            unschedulable=unschedulable or None,
            taints=[taint(each) if isinstance(each, str) else each for each in taints] or None,
        )
        | (spec or {}),
        "status": _given(
            allocatable=offered,
            capacity=offered,
            conditions=[{"type": "Ready", "status": "True" if ready else "False"}],
            images=[{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()] or None,
            declaredFeatures=list(features) or None,
        )
        | (status or {}),
    }


def node(name: str = "node", **fields: Any) -> Node:
    """See `node_json`."""
    return build(Node, node_json(name, **fields))


def taint(text: str) -> Json:
    """`key=value:Effect` or `key:Effect`."""
    rest, _, effect = text.partition(":")
    key, _, value = rest.partition("=")
    return _given(key=key, value=value or None, effect=effect or "NoSchedule")


# --- others -----------------------------------------------------------------------------------------------------------


def namespace(name: str, labels: Mapping[str, str] | None = None) -> Namespace:
    own_labels = {"kubernetes.io/metadata.name": name} | dict(labels or {})
    return build(Namespace, {"metadata": _metadata("namespace", name, None, labels=own_labels)})


def budget(
    name: str,
    selector: Mapping[str, Any] | None,
    *,
    allowed: int = 0,
    namespace: str = "default",
    disrupted: Mapping[str, str] | None = None,
    **fields: Any,
) -> PodDisruptionBudget:
    """`selector`: labels, a LabelSelector, or None. `fields` go to the spec, such as `minAvailable=1`."""
    selector_json = label_selector(selector) if selector is not None else None
    return build(
        PodDisruptionBudget,
        {
            "metadata": _metadata("budget", name, None, namespace=namespace),
            "spec": _given(selector=selector_json) | fields,
            "status": _given(disruptionsAllowed=allowed, disruptedPods=disrupted),
        },
    )


def service(name: str, selector: Mapping[str, str] | None, *, namespace: str = "default") -> Service:
    return _owner(Service, name, namespace, selector)


def replication_controller(
    name: str, selector: Mapping[str, str] | None, *, namespace: str = "default"
) -> ReplicationController:
    return _owner(ReplicationController, name, namespace, selector)


def replica_set(name: str, selector: Mapping[str, Any], *, namespace: str = "default") -> ReplicaSet:
    return _owner(ReplicaSet, name, namespace, label_selector(selector))


def stateful_set(name: str, selector: Mapping[str, Any], *, namespace: str = "default") -> StatefulSet:
    return _owner(StatefulSet, name, namespace, label_selector(selector))


def priority_class(name: str, value: int, **fields: Any) -> PriorityClass:
    return build(PriorityClass, {"metadata": _metadata("priorityclass", name, None), "value": value} | fields)


def device_class(name: str, extended_resource: str | None = None) -> DeviceClass:
    spec = _given(extendedResourceName=extended_resource)
    return build(DeviceClass, {"metadata": _metadata("deviceclass", name, None), "spec": spec})


# --- storage ----------------------------------------------------------------------------------------------------------


def claim(
    name: str,
    *,
    namespace: str = "default",
    uid: str | None = None,
    storage_class: str | None = None,
    size: str | None = "1Gi",
    modes: Sequence[str] = ("ReadWriteOnce",),
    volume: str | None = None,
    bound: bool | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: Json | None = None,
    deleted: str | None = None,
    resource_version: str | None = "1",
    spec: Json | None = None,
    status: Json | None = None,
) -> PersistentVolumeClaim:
    """A claim; with a `volume` it is fully bound to it unless `bound=False`."""
    is_bound = volume is not None if bound is None else bound
    own_annotations = {BIND_COMPLETED_ANNOTATION: "yes"} if is_bound else {}
    return build(
        PersistentVolumeClaim,
        {
            "metadata": _metadata(
                "claim",
                name,
                None,
                namespace=namespace,
                uid=uid,
                annotations=(own_annotations | dict(annotations or {})) or None,
                deletionTimestamp=deleted,
                resourceVersion=resource_version,
                ownerReferences=[owner] if owner else None,
            ),
            "spec": _given(
                accessModes=list(modes),
                resources={"requests": {"storage": size}} if size is not None else None,
                storageClassName=storage_class,
                volumeName=volume,
            )
            | (spec or {}),
            "status": {"phase": "Bound" if is_bound else "Pending"} | (status or {}),
        },
    )


def volume(
    name: str,
    *,
    size: str = "1Gi",
    storage_class: str | None = None,
    modes: Sequence[str] = ("ReadWriteOnce",),
    claimed_by: Json | None = None,
    csi: tuple[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    node_affinity: Sequence[Json] | None = None,
    phase: str = "Available",
    resource_version: str | None = "1",
    spec: Json | None = None,
) -> PersistentVolume:
    """A PersistentVolume. `csi`: driver and handle. `node_affinity`: terms as in `node_term`."""
    return build(
        PersistentVolume,
        {
            "metadata": _metadata(
                "volume", name, None, labels=labels, annotations=annotations, resourceVersion=resource_version
            ),
            "spec": _given(
                capacity={"storage": size},
                accessModes=list(modes),
                storageClassName=storage_class,
                claimRef=claimed_by,
                csi={"driver": csi[0], "volumeHandle": csi[1]} if csi else None,
                nodeAffinity={"required": {"nodeSelectorTerms": list(node_affinity)}} if node_affinity else None,
            )
            | (spec or {}),
            "status": {"phase": phase},
        },
    )


def storage_class(
    name: str,
    provisioner: str = "csi.test",
    *,
    wait: bool = True,
    topologies: Sequence[Mapping[str, Sequence[str]]] = (),
    **fields: Any,
) -> StorageClass:
    """`wait`: WaitForFirstConsumer, else Immediate. `topologies`: terms of label -> values."""
    terms = [{"matchLabelExpressions": [{"key": k, "values": list(v)} for k, v in term.items()]} for term in topologies]
    return build(
        StorageClass,
        {
            "metadata": _metadata("storageclass", name, None),
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer" if wait else "Immediate",
            "allowedTopologies": terms,
        }
        | fields,
    )


def csi_node(name: str, limits: Mapping[str, int | None], *, annotations: Mapping[str, str] | None = None) -> CSINode:
    """`limits`: driver -> how many volumes, or None for no limit."""
    drivers = [
        _given(name=driver, nodeID=name, allocatable={"count": count} if count is not None else None)
        for driver, count in limits.items()
    ]
    metadata = _metadata("csinode", name, None, annotations=annotations)
    return build(CSINode, {"metadata": metadata, "spec": {"drivers": drivers}})


def csi_driver(name: str, **spec: Any) -> CSIDriver:
    """`spec` is in the API's own form, such as `storageCapacity=True`."""
    return build(CSIDriver, {"metadata": _metadata("csidriver", name, None), "spec": spec})


def csi_capacity(
    name: str,
    storage_class: str,
    *,
    topology: Mapping[str, Any] | None = None,
    capacity: str | None = None,
    maximum: str | None = None,
    namespace: str = "default",
) -> CSIStorageCapacity:
    """`topology`: labels or a LabelSelector; None for no node at all, `{}` for every node."""
    fields = _given(
        storageClassName=storage_class,
        nodeTopology=label_selector(topology) if topology is not None else None,
        capacity=capacity,
        maximumVolumeSize=maximum,
    )
    return build(CSIStorageCapacity, {"metadata": _metadata("capacity", name, None, namespace=namespace)} | fields)


def attachment(name: str, node: str, volume: str | None, attacher: str = "csi.test") -> VolumeAttachment:
    spec = {"attacher": attacher, "nodeName": node, "source": _given(persistentVolumeName=volume)}
    return build(VolumeAttachment, {"metadata": _metadata("attachment", name, None), "spec": spec})


# --- parts ------------------------------------------------------------------------------------------------------------


def _given(**fields: Any) -> Json:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def _metadata(prefix: str, name: str, more: Json | None, *, uid: str | None = None, **fields: Any) -> Json:
    return _given(name=name, uid=uid or f"{prefix}-{name}", **fields) | (more or {})


def _pod_affinity(required: Sequence[Json], preferred: Sequence[tuple[int, Json]]) -> Json:
    return _given(
        requiredDuringSchedulingIgnoredDuringExecution=list(required) or None,
        preferredDuringSchedulingIgnoredDuringExecution=[
            {"weight": weight, "podAffinityTerm": term} for weight, term in preferred
        ]
        or None,
    )


def _owner(type_: type[AnyObject], name: str, namespace: str, selector: Mapping[str, Any] | None) -> AnyObject:
    metadata = _metadata(type_.__name__.lower(), name, None, namespace=namespace)
    return build(type_, {"metadata": metadata, "spec": _given(selector=selector)})
