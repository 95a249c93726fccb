"""Objects of the scenarios whose pods have a claim each."""

from __future__ import annotations

from typing import Any

from e2e.builders import Object

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
DRIVER = "bench.test"
EBS_DRIVER = "ebs.csi.aws.com"
CLASS = "bench-later"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


def csi_node(node: str, limit: int = 39) -> Object:
    """With limits for the bench's driver and for EBS, whose in-tree volumes are migrated to it."""
    drivers = [{"name": name, "nodeID": node, "allocatable": {"count": limit}} for name in (DRIVER, EBS_DRIVER)]
    migrated = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
    return {
        "kind": "CSINode",
        "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": node, "annotations": migrated},
        "spec": {"drivers": drivers},
    }


def storage_class(provisioner: str) -> Object:
    """Its claims wait for their first consumer."""
    return {
        "kind": "StorageClass",
        "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": CLASS},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Retain",
    }


def volume(name: str, source: dict[str, Any], **spec: Any) -> Object:
    return {
        "kind": "PersistentVolume",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            **source,
            **spec,
        },
    }


def csi_volume(name: str, **spec: Any) -> Object:
    return volume(name, {"csi": {"driver": DRIVER, "volumeHandle": name}}, **spec)


def ebs_volume(name: str, **spec: Any) -> Object:
    return volume(name, {"awsElasticBlockStore": {"volumeID": name}}, **spec)


def reached_by(key: str, value: str) -> dict[str, Any]:
    """A field of a volume's spec: nodes with this label reach it."""
    expression = {"key": key, "operator": "In", "values": [value]}
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


def claim(name: str, namespace: str, volume_name: str | None = None) -> Object:
    """Bound to the volume; without one, waiting for its first consumer."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    if volume_name is None:
        spec["storageClassName"] = CLASS
    else:
        # What the volume controller writes in the end; with it the claim is bound and no controller is needed.
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        spec |= {"volumeName": volume_name, "storageClassName": ""}
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": metadata, "spec": spec}


def mounted(name: str) -> dict[str, Any]:
    """A field of a pod's spec: it uses this claim."""
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}
