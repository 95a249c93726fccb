"""Objects of other kinds than pods and nodes: budgets, owners, classes, storage.

Each is made as the API's JSON and goes through the scheduler's own decoder. UIDs are `<kind>-<name>` and the namespace
is `default` unless stated. Pods and nodes: `scheduler.testing.objects`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.objects.budget import PodDisruptionBudget
from scheduler.objects.devices import DeviceClass
from scheduler.objects.kinds import AnyObject
from scheduler.objects.owners import ReplicaSet, ReplicationController, Service, StatefulSet
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
from scheduler.testing.fragments import Json, given, label_selector
from scheduler.testing.objects import build


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
            "spec": given(selector=selector_json) | fields,
            "status": given(disruptionsAllowed=allowed, disruptedPods=disrupted),
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
    spec = given(extendedResourceName=extended_resource)
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
            "spec": given(
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
            "spec": given(
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
        given(name=driver, nodeID=name, allocatable={"count": count} if count is not None else None)
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
    fields = given(
        storageClassName=storage_class,
        nodeTopology=label_selector(topology) if topology is not None else None,
        capacity=capacity,
        maximumVolumeSize=maximum,
    )
    return build(CSIStorageCapacity, {"metadata": _metadata("capacity", name, None, namespace=namespace)} | fields)


def attachment(name: str, node: str, volume: str | None, attacher: str = "csi.test") -> VolumeAttachment:
    spec = {"attacher": attacher, "nodeName": node, "source": given(persistentVolumeName=volume)}
    return build(VolumeAttachment, {"metadata": _metadata("attachment", name, None), "spec": spec})


# --- parts ------------------------------------------------------------------------------------------------------------


def _metadata(prefix: str, name: str, more: Json | None, *, uid: str | None = None, **fields: Any) -> Json:
    return given(name=name, uid=uid or f"{prefix}-{name}", **fields) | (more or {})


def _owner(type_: type[AnyObject], name: str, namespace: str, selector: Mapping[str, Any] | None) -> AnyObject:
    metadata = _metadata(type_.__name__.lower(), name, None, namespace=namespace)
    return build(type_, {"metadata": metadata, "spec": given(selector=selector)})
