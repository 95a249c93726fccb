"""The volumes of a pod that a CSI driver attaches, which count against the driver's limit on the node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.volumes.migration import CSI_DRIVERS, csi_handle, in_tree_plugin
from scheduler.errors import SchedulerError
from scheduler.objects.meta import controller_of
from scheduler.objects.pod import Volume
from scheduler.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass


class MissingClaim(SchedulerError):
    """A claim that the pod needs does not exist."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(key)

    def __str__(self) -> str:
        name = self.key.rpartition("/")[2]
        return f'looking up PVC {self.key}: persistentvolumeclaim "{name}" not found'


class ForeignClaim(SchedulerError):
    """The claim of a generic ephemeral volume belongs to another pod."""

    def __init__(self, claim: str, pod: str) -> None:
        self.claim = claim
        self.pod = pod
        super().__init__(claim, pod)

    def __str__(self) -> str:
        return f"PVC {self.claim} was not created for pod {self.pod} (pod is not owner)"


class Attachable(NamedTuple):
    """A volume that a driver has to attach, those of migrated in-tree plugins included: these count as their driver's
    on every node that has a CSINode, whatever its annotations say, and other nodes have no limits (volumes.md §6.1)."""

    driver: str
    handle: str


def claim_key(info: PodInfo, volume: Volume) -> str | None:
    """``namespace/name`` of the claim behind a pod's volume, be it a generic ephemeral one; None if there is none."""
    if volume.persistent_volume_claim is not None:
        return f"{info.namespace}/{volume.persistent_volume_claim.claim_name}"
    if volume.ephemeral is not None:
        return f"{info.namespace}/{info.name}-{volume.name}"
    return None


def is_made_for(claim: PersistentVolumeClaim, info: PodInfo) -> bool:
    """Whether the claim is the one that was made for a generic ephemeral volume of this very pod."""
    owner = controller_of(claim.metadata)
    return claim.metadata.namespace == info.namespace and owner is not None and owner.uid == info.uid


def needs_attaching(info: PodInfo) -> bool:
    """Whether any volume of the pod may be attached by a CSI driver."""
    return any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None or in_tree_plugin(volume) != ""
        for volume in info.pod.spec.volumes
    )


def attachable_volumes(info: PodInfo, objects: ObjectStore) -> Iterator[Attachable]:
    """The volumes of a pod that is to be placed. Raises MissingClaim, ForeignClaim."""
    return _volumes(info, objects, is_running=False)


def attached_volumes(info: PodInfo, objects: ObjectStore) -> Iterator[Attachable]:
    """The volumes of a pod that runs; claims that are missing or belong to another pod are left out."""
    return _volumes(info, objects, is_running=True)


def _volumes(info: PodInfo, objects: ObjectStore, *, is_running: bool) -> Iterator[Attachable]:
    for volume in info.pod.spec.volumes:
        key = claim_key(info, volume)
        if key is None:
            yield from _inline(volume)
            continue
        claim = objects.find(PersistentVolumeClaim, key)
        if claim is not None and (volume.ephemeral is None or is_made_for(claim, info)):
            yield from _of_claim(claim, objects)
        elif not is_running:
            raise MissingClaim(key) if claim is None else ForeignClaim(key, info.key)


def _inline(volume: Volume) -> Iterator[Attachable]:
    plugin = in_tree_plugin(volume)
    if plugin:
        yield Attachable(CSI_DRIVERS[plugin], csi_handle(volume))


def _of_claim(claim: PersistentVolumeClaim, objects: ObjectStore) -> Iterator[Attachable]:
    volume: PersistentVolume | None = None
    if claim.spec.volume_name:
        volume = objects.find(PersistentVolume, claim.spec.volume_name)
    if volume is None:
        yield from _to_be_made(claim, objects)
        return
    found = attachable(volume)
    if found is not None:
        yield found


def attachable(volume: PersistentVolume) -> Attachable | None:
    """What a driver attaches for a PersistentVolume; None if no driver has to."""
    source = volume.spec.csi
    if source is not None:
        return Attachable(source.driver, source.volume_handle)
    plugin = in_tree_plugin(volume.spec)
    return Attachable(CSI_DRIVERS[plugin], csi_handle(volume.spec, volume.metadata.labels)) if plugin else None


def _to_be_made(claim: PersistentVolumeClaim, objects: ObjectStore) -> Iterator[Attachable]:
    """An unbound claim counts as a volume of its own, of the driver that will make it."""
    found: StorageClass | None = None
    if claim.storage_class:
        found = objects.find(StorageClass, claim.storage_class)
    if found is None:
        return
    # No driver's handle begins with a NUL: it stands for kube-scheduler's random prefix.
    yield Attachable(CSI_DRIVERS.get(found.provisioner, found.provisioner), f"\0{claim.key}")
