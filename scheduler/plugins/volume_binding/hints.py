"""Which events may make a pod schedulable that VolumeBinding rejected (docs/kube-scheduler/volumes.md §4)."""

from __future__ import annotations

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource
from scheduler.objects.storage import MIGRATED_PLUGINS_ANNOTATION, CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from scheduler.plugins.volume_hints import CLAIM_KEYS, its_claim_changed, key_of_claim


def _topologies_changed(_pod: PodInfo, old: StorageClass | None, new: StorageClass | None) -> Hint:
    if old is None or new is None or old.allowed_topologies != new.allowed_topologies:
        return Hint.QUEUE
    return Hint.SKIP


def _migration_changed(_pod: PodInfo, old: CSINode | None, new: CSINode | None) -> Hint:
    if old is None or new is None:
        return Hint.QUEUE
    before = old.annotations.get(MIGRATED_PLUGINS_ANNOTATION, "")
    return Hint.SKIP if before == new.annotations.get(MIGRATED_PLUGINS_ANNOTATION, "") else Hint.QUEUE


def _capacity_no_longer_matters(pod: PodInfo, old: CSIDriver | None, new: CSIDriver | None) -> Hint:
    """As in kube-scheduler 1.36 only pods with an inline volume of the driver are woken."""
    if new is None:
        return Hint.SKIP
    uses_driver = any(
        volume.csi is not None and volume.csi.driver == new.metadata.name for volume in pod.pod.spec.volumes
    )
    did_matter = old is not None and bool(old.spec.storage_capacity)
    return Hint.QUEUE if uses_driver and did_matter and not new.spec.storage_capacity else Hint.SKIP


def _capacity_grew(_pod: PodInfo, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> Hint:
    if old is None or new is None:
        return Hint.QUEUE
    before, after = old.limit, new.limit
    return Hint.QUEUE if after is not None and (before is None or after > before) else Hint.SKIP


EVENTS = (
    EventRegistration(ClusterEvent(Resource.STORAGE_CLASS, Action.ADD | Action.UPDATE), _topologies_changed),
    EventRegistration(
        ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD | Action.UPDATE),
        its_claim_changed,
        key_of_claim,
        CLAIM_KEYS,
    ),
    EventRegistration(ClusterEvent(Resource.PERSISTENT_VOLUME, Action.ADD | Action.UPDATE)),
    EventRegistration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
    EventRegistration(ClusterEvent(Resource.CSI_NODE, Action.ADD | Action.UPDATE), _migration_changed),
    EventRegistration(ClusterEvent(Resource.CSI_DRIVER, Action.UPDATE), _capacity_no_longer_matters),
    EventRegistration(ClusterEvent(Resource.CSI_STORAGE_CAPACITY, Action.ADD | Action.UPDATE), _capacity_grew),
)
