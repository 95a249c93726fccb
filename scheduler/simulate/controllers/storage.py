"""The volume controller: makes volumes available, provisions them for claims, and binds the two."""

from __future__ import annotations

from typing import Any, Final

from scheduler.simulate.apiserver import Registry
from scheduler.simulate.apiserver.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from scheduler.simulate.controllers.index import Dependents

Object = dict[str, Any]

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


def volume(registry: Registry, _: Dependents, obj: Object) -> None:
    """Makes a volume without claimRef available; binds the claim of one with it."""
    reference = obj["spec"].get("claimRef")
    if reference is None:
        _set_phase(registry, obj, "Available")
        return
    claim = registry.store.get(PERSISTENT_VOLUME_CLAIMS, reference["namespace"], reference["name"])
    if claim is None or reference.get("uid") not in (None, "", claim["metadata"]["uid"]):
        _set_phase(registry, obj, "Released" if reference.get("uid") else "Available")
        return
    if claim["spec"].get("volumeName") in (None, "", obj["metadata"]["name"]):
        _bind(registry, claim, obj)


def claim(registry: Registry, _: Dependents, obj: Object) -> None:
    """Binds a claim to the volume that it names, or provisions one, at once or for a selected node, by its class."""
    if "deletionTimestamp" in obj["metadata"] or BIND_COMPLETED in obj["metadata"].get("annotations", {}):
        return
    if obj["spec"].get("volumeName"):
        found = registry.store.get(PERSISTENT_VOLUMES, "", obj["spec"]["volumeName"])
        if found is not None and found["spec"].get("claimRef", {}).get("uid") in (None, obj["metadata"]["uid"]):
            _bind(registry, obj, found)
        return
    storage_class = registry.store.get(STORAGE_CLASSES, "", obj["spec"].get("storageClassName") or "")
    if storage_class is None or storage_class["provisioner"] == NO_PROVISIONER:
        return
    waits = storage_class["volumeBindingMode"] == "WaitForFirstConsumer"
    node = obj["metadata"].get("annotations", {}).get(SELECTED_NODE)
    if waits and not node:
        return
    _provision(registry, obj, storage_class)


def _provision(registry: Registry, claim: Object, storage_class: Object) -> None:
    name = f"pvc-{claim['metadata']['uid']}"
    if registry.store.get(PERSISTENT_VOLUMES, "", name) is not None:
        return
    provisioner = storage_class["provisioner"]
    body = {
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: provisioner}},
        "spec": {
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "accessModes": claim["spec"]["accessModes"], "storageClassName": storage_class["metadata"]["name"],
            "persistentVolumeReclaimPolicy": storage_class["reclaimPolicy"], "claimRef": _reference(claim),
            "csi": {"driver": provisioner, "volumeHandle": name},
        },
    }  # fmt: skip
    registry.create(PERSISTENT_VOLUMES, "", body)


def _reference(claim: Object) -> Object:
    metadata = claim["metadata"]
    return {
        "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": metadata["namespace"],
        "name": metadata["name"], "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
    }  # fmt: skip


def _bind(registry: Registry, claim: Object, volume: Object) -> None:
    name = volume["metadata"]["name"]

    def bound_volume(old: Object) -> Object:
        spec = old["spec"]
        if not spec.get("claimRef", {}).get("uid"):
            spec = {**spec, "claimRef": _reference(claim)}
        return {**old, "spec": spec, "status": {**old["status"], "phase": "Bound"}}

    def bound_claim(old: Object) -> Object:
        annotations = {**old["metadata"].get("annotations", {}), BIND_COMPLETED: "yes"}
        if not old["spec"].get("volumeName"):
            annotations[BOUND_BY_CONTROLLER] = "yes"
        status = {
            **old["status"], "phase": "Bound", "accessModes": volume["spec"]["accessModes"],
            "capacity": volume["spec"]["capacity"],
        }  # fmt: skip
        metadata = {**old["metadata"], "annotations": annotations}
        return {**old, "metadata": metadata, "spec": {**old["spec"], "volumeName": name}, "status": status}

    registry.change(PERSISTENT_VOLUMES, "", name, bound_volume)
    registry.change(PERSISTENT_VOLUME_CLAIMS, claim["metadata"]["namespace"], claim["metadata"]["name"], bound_claim)


def _set_phase(registry: Registry, volume: Object, phase: str) -> None:
    def edited(old: Object) -> Object:
        return {**old, "status": {**old.get("status", {}), "phase": phase}}

    registry.change(PERSISTENT_VOLUMES, "", volume["metadata"]["name"], edited)
