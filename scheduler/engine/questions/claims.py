"""What becomes of a pod's claims: when it goes, when its controller creates it again, and when it is a new pod.

Claims that are made for one pod end with it. Claims with a name of their own lose a consumer, and their devices with
the last one, as the API server's controllers would have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.volumes.csi import claim_key, is_made_for
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.pod import PodResourceClaimStatus
from scheduler.objects.resource_claims import ResourceClaim, ResourceClaimStatus
from scheduler.objects.storage import (
    BIND_COMPLETED_ANNOTATION,
    BOUND_BY_CONTROLLER_ANNOTATION,
    SELECTED_NODE_ANNOTATION,
    STORAGE_CLASS_ANNOTATION,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    StorageClass,
)

_OF_A_BOUND_CLAIM: Final = (BIND_COMPLETED_ANNOTATION, BOUND_BY_CONTROLLER_ANNOTATION, SELECTED_NODE_ANNOTATION)

_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def release_devices(cache: ClusterCache, gone: PodInfo) -> None:
    """Give back the devices of a pod that is gone. A claim that was made for it stays in the fork without devices, so
    that ``make_claims_again`` finds what it asks for."""
    for special in cache.devices.special_claims_of(gone.uid):
        cache.remove_object(Kind.RESOURCE_CLAIM, special.key)
    for name in _claim_names(gone):
        claim = cache.objects.find(ResourceClaim, f"{gone.namespace}/{name}")
        if claim is None:
            continue
        others = tuple([one for one in claim.status.reserved_for if one.uid != gone.uid])
        if claim.is_controlled_by(gone.uid) or (claim.is_reserved_for(gone.uid) and not others):
            status = ResourceClaimStatus()
        else:
            status = msgspec.structs.replace(claim.status, reserved_for=others)
        if status != claim.status:
            cache.observe_object(Kind.RESOURCE_CLAIM, msgspec.structs.replace(claim, status=status))


def make_claims_again(cache: ClusterCache, old: PodInfo, new: PodInfo) -> PodInfo:
    """The new pod with claims that are made for it, where the old one had such: for its generic ephemeral volumes under
    the names that its own demands, where one of the old pod ends, and for devices under new names."""
    for volume in old.pod.spec.volumes:
        key = claim_key(old, volume) if volume.ephemeral is not None else None
        claim = cache.objects.find(PersistentVolumeClaim, key) if key is not None else None
        if claim is not None and is_made_for(claim, old):
            again = _volume_claim_again(cache, claim, old, new)
            name = (claim_key(new, volume) or "").partition("/")[2]
            again = msgspec.structs.replace(again, metadata=msgspec.structs.replace(again.metadata, name=name))
            cache.observe_object(Kind.PERSISTENT_VOLUME_CLAIM, again)
    statuses = tuple([_device_claim_again(cache, one, old, new) for one in old.pod.status.resource_claim_statuses])
    if statuses == new.pod.status.resource_claim_statuses:
        return new
    status = msgspec.structs.replace(new.pod.status, resource_claim_statuses=statuses)
    return PodInfo(msgspec.structs.replace(new.pod, status=status))


def in_a_class(objects: ObjectStore, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """A new claim of volumes: in the default class if it names none, as the API server has it."""
    if claim.spec.storage_class_name is not None or STORAGE_CLASS_ANNOTATION in claim.annotations:
        return claim
    classes = objects.all_of(StorageClass).values()
    defaults = [one for one in classes if any(one.annotations.get(key) == "true" for key in _DEFAULT_CLASS)]
    if not defaults:
        return claim
    newest = max(one.metadata.creation_timestamp or "" for one in defaults)
    name = min(one.name for one in defaults if (one.metadata.creation_timestamp or "") == newest)
    return msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, storage_class_name=name))


def _claim_names(info: PodInfo) -> Iterator[str]:
    """The names of the device claims that the pod uses, including those made from templates."""
    for entry in info.pod.spec.resource_claims:
        if entry.resource_claim_name:
            yield entry.resource_claim_name
    for status in info.pod.status.resource_claim_statuses:
        if status.resource_claim_name:
            yield status.resource_claim_name


def _device_claim_again(
    cache: ClusterCache, status: PodResourceClaimStatus, old: PodInfo, new: PodInfo
) -> PodResourceClaimStatus:
    """The status of the new pod for a claim of the old one; a claim that was not made for the pod stays."""
    found = cache.objects.find(ResourceClaim, f"{old.namespace}/{status.resource_claim_name or ''}")
    if found is None or not found.is_controlled_by(old.uid):
        return status
    name = f"{found.name}-{new.uid}"
    metadata = msgspec.structs.replace(
        _owned_by(found.metadata, old, new), name=name, uid=f"{found.uid}-{new.uid}", resource_version=""
    )
    claim = msgspec.structs.replace(found, metadata=metadata, status=ResourceClaimStatus())
    cache.observe_object(Kind.RESOURCE_CLAIM, claim)
    return msgspec.structs.replace(status, resource_claim_name=name)


def _volume_claim_again(
    cache: ClusterCache, claim: PersistentVolumeClaim, old: PodInfo, new: PodInfo
) -> PersistentVolumeClaim:
    """Where the class waits for a pod, a new volume follows the pod; else the old one stands for it."""
    metadata = _owned_by(claim.metadata, old, new)
    found = cache.objects.find(StorageClass, claim.storage_class)
    if found is None or not found.waits_for_first_consumer:
        return msgspec.structs.replace(claim, metadata=metadata)
    annotations = {key: value for key, value in metadata.annotations.items() if key not in _OF_A_BOUND_CLAIM}
    metadata = msgspec.structs.replace(metadata, uid=f"{claim.uid}-{new.uid}", annotations=annotations)
    return msgspec.structs.replace(
        claim,
        metadata=metadata,
        spec=msgspec.structs.replace(claim.spec, volume_name=""),
        status=PersistentVolumeClaimStatus(phase="Pending"),
    )


def _owned_by(metadata: ObjectMeta, old: PodInfo, new: PodInfo) -> ObjectMeta:
    """The metadata with the new pod as the owner in place of the old one, and without a deletion timestamp."""
    owners = tuple(
        [
            msgspec.structs.replace(owner, uid=new.uid) if owner.uid == old.uid else owner
            for owner in metadata.owner_references
        ]
    )
    return msgspec.structs.replace(metadata, owner_references=owners, deletion_timestamp=None)
