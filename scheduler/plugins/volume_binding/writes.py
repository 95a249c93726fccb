"""What VolumeBinding sets aside, writes and waits for once a node is chosen.

Source: docs/kube-scheduler/volumes.md §2.7, §2.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.cluster.volumes.migration import in_tree_plugin, migrated
from scheduler.cluster.volumes.pools import reaches
from scheduler.cluster.volumes.reserved import Provision, Reservation, StaticBinding
from scheduler.messages.commands import UpdateObject
from scheduler.messages.status import Refusal, failure
from scheduler.objects.kinds import AnyObject, Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.node import Node
from scheduler.objects.storage import (
    BOUND_BY_CONTROLLER_ANNOTATION,
    SELECTED_NODE_ANNOTATION,
    CSINode,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.plugins.volume_binding.delayed import Sources

# --- what is set aside ------------------------------------------------------------------------------------------------


def reservation_of(pod_uid: str, node: str, sources: Sources) -> Reservation:
    """The volumes and claims as they are to be, in the order in which they were found."""
    return Reservation(
        pod_uid,
        node,
        tuple([_bound_to(volume, claim) for volume, claim in sources.bindings]),
        tuple([_provisioned_on(claim, node) for claim in sources.provisions]),
    )


def _bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> StaticBinding:
    reference = volume.spec.claim_ref
    meta = claim.metadata
    changed = volume
    if reference is None or (reference.namespace, reference.name, reference.uid) != (
        meta.namespace,
        meta.name,
        meta.uid,
    ):
        wanted = ObjectReference(
            api_version="v1",
            kind="PersistentVolumeClaim",
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
        changed = msgspec.structs.replace(changed, spec=msgspec.structs.replace(volume.spec, claim_ref=wanted))
    if not volume.is_claimed_by(claim) and BOUND_BY_CONTROLLER_ANNOTATION not in volume.metadata.annotations:
        changed = _annotated(changed, BOUND_BY_CONTROLLER_ANNOTATION, "yes")
    return StaticBinding(changed, claim, is_changed=changed is not volume)


def _provisioned_on(claim: PersistentVolumeClaim, node: str) -> Provision:
    if claim.selected_node == node:
        return Provision(claim, is_changed=False)
    return Provision(_annotated(claim, SELECTED_NODE_ANNOTATION, node), is_changed=True)


def _annotated(obj: AnyObject, key: str, value: str) -> AnyObject:
    metadata = msgspec.structs.replace(obj.metadata, annotations={**obj.metadata.annotations, key: value})
    return msgspec.structs.replace(obj, metadata=metadata)


# --- what is written --------------------------------------------------------------------------------------------------


def writes_of(reservation: Reservation) -> Iterator[UpdateObject]:
    """Merge patches that carry the resourceVersion: a change of the object meanwhile makes them conflicts."""
    for binding in reservation.bindings:
        yield _write_volume(binding.volume)
    for provision in reservation.provisions:
        claim = provision.claim
        yield UpdateObject(
            0,
            Kind.PERSISTENT_VOLUME_CLAIM,
            claim.key,
            {
                "metadata": {
                    "resourceVersion": claim.metadata.resource_version,
                    "annotations": {SELECTED_NODE_ANNOTATION: reservation.node},
                }
            },
        )


def _write_volume(volume: PersistentVolume) -> UpdateObject:
    metadata: dict[str, Any] = {"resourceVersion": volume.metadata.resource_version}
    marked = volume.metadata.annotations.get(BOUND_BY_CONTROLLER_ANNOTATION)
    if marked is not None:
        metadata["annotations"] = {BOUND_BY_CONTROLLER_ANNOTATION: marked}
    claim_ref = msgspec.to_builtins(volume.spec.claim_ref)
    return UpdateObject(
        0, Kind.PERSISTENT_VOLUME, volume.metadata.name, {"metadata": metadata, "spec": {"claimRef": claim_ref}}
    )


# --- what is waited for -----------------------------------------------------------------------------------------------


def progress(pod: PodInfo, view: View, node_name: str) -> bool | Refusal:
    """Whether all claims are bound by now; a Refusal if they will not be. Looks at what the API server says only."""
    row = view.table.existing_row(node_name)
    node = view.table.nodes[row] if row is not None else None
    if node is None:
        return _aborted(f'failed to get node "{node_name}": node "{node_name}" not found')
    reservation = view.volumes.reservation(pod.uid)
    if reservation is None:
        # The reservation lasts as long as the pod is on the node, so the pod is gone.
        return _aborted(f'pod does not exist any more: pod "{pod.name}" not found')
    return _all_done(
        [
            *(_binding_progress(binding, node, view) for binding in reservation.bindings),
            *(_provision_progress(provision, node, view) for provision in reservation.provisions),
        ]
    )


def awaited(pod: PodInfo, view: View) -> Iterator[str]:
    """The claims that the pod's binding waits for, in words."""
    reservation = view.volumes.reservation(pod.uid)
    row = view.table.existing_row(reservation.node) if reservation is not None else None
    node = view.table.nodes[row] if row is not None else None
    if reservation is None or node is None:
        return
    for binding in reservation.bindings:
        if _binding_progress(binding, node, view) is False:
            yield f"claim {binding.claim.key} is not bound to volume {binding.volume.metadata.name} yet"
    for provision in reservation.provisions:
        if _provision_progress(provision, node, view) is False:
            claim = provision.claim
            found = view.find(StorageClass, claim.storage_class)
            maker = f"{found.provisioner} of class {claim.storage_class}" if found is not None else "its provisioner"
            yield f"claim {claim.key} has no volume yet: {maker} is to make it for node {reservation.node}"


def _all_done(answers: Iterable[bool | Refusal]) -> bool | Refusal:
    """The first answer that is not "done"."""
    return next((answer for answer in answers if answer is not True), True)


def _binding_progress(binding: StaticBinding, node: Node, view: View) -> bool | Refusal:
    name = binding.volume.metadata.name
    volume = view.find(PersistentVolume, name)
    if volume is None:
        return _aborted(f'failed to check binding: persistentvolumes "{name}" not found')
    claim = view.find(PersistentVolumeClaim, binding.claim.key)
    if claim is None:
        return _aborted(f'failed to check binding: persistentvolumeclaims "{binding.claim.key}" not found')
    if binding.is_changed and _is_unchanged(volume, binding.volume):
        return False
    if not _fits(volume, node, view):
        return _elsewhere(name, node)
    if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
        return _aborted(f'ClaimRef got reset for pv "{name}"')
    return claim.is_fully_bound


def _provision_progress(provision: Provision, node: Node, view: View) -> bool | Refusal:
    name = provision.claim.metadata.name
    claim = view.find(PersistentVolumeClaim, provision.claim.key)
    if claim is None:
        return _aborted(f'failed to check provisioning pvc: persistentvolumeclaims "{provision.claim.key}" not found')
    if provision.is_changed and _is_unchanged(claim, provision.claim):
        return False
    if not claim.metadata.annotations:
        return _aborted(f'selectedNode annotation reset for PVC "{name}"')
    if (claim.selected_node or "") != node.metadata.name:
        return _aborted(f'provisioning failed for PVC "{name}"')
    if claim.spec.volume_name:
        volume = view.find(PersistentVolume, claim.spec.volume_name)
        if volume is None:
            return False
        if not _fits(volume, node, view):
            return _elsewhere(volume.metadata.name, node)
    return claim.is_fully_bound


def _is_unchanged(stored: ApiObject, written: ApiObject) -> bool:
    """The watch has not shown our write yet.

    The write could only succeed on the version that the assumption was made from, so any other version contains it.
    """
    return stored.metadata.resource_version == written.metadata.resource_version


def _fits(volume: PersistentVolume, node: Node, view: View) -> bool:
    plugin = in_tree_plugin(volume.spec)
    if plugin:
        csi_node = view.find(CSINode, node.metadata.name)
        if csi_node is not None and plugin in csi_node.migrated_plugins:
            volume = migrated(volume)
    return reaches(volume, node.metadata.labels)


def _elsewhere(volume: str, node: Node) -> Refusal:
    return _aborted(
        f'pv "{volume}" node affinity doesn\'t match node "{node.metadata.name}": no matching NodeSelectorTerms'
    )


def _aborted(cause: str) -> Refusal:
    return failure(f"binding volumes: {cause}")
