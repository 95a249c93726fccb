"""Storage objects by what they belong to: volumes and capacity by class, claims by volume, attachments by node."""

from __future__ import annotations

from typing import Generic, TypeVar, cast

from scheduler.cluster.assumed import AssumedObjects
from scheduler.cluster.forkable import ForkableDict
from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.volumes.pools import CapacityPool, VolumePool
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim, VolumeAttachment

Entry = TypeVar("Entry")

_NO_POOL = VolumePool()
_NO_CAPACITY = CapacityPool()


class Groups(Generic[Entry]):
    """Group → name → entry; empty groups are forgotten."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: ForkableDict[str, dict[str, Entry]] = ForkableDict()

    def put(self, group: str, name: str, entry: Entry) -> None:
        if group in self._groups:
            self._groups.writable(group, dict)[name] = entry
        else:
            self._groups[group] = {name: entry}

    def drop(self, group: str, name: str) -> None:
        if group in self._groups:
            entries = self._groups.writable(group, dict)
            entries.pop(name, None)
            if not entries:
                del self._groups[group]

    def of(self, group: str) -> dict[str, Entry]:
        """The entries of a group by name, not to be changed."""
        found: dict[str, Entry] | None = self._groups.get(group)
        return {} if found is None else found

    def fork(self) -> Groups[Entry]:
        other: Groups[Entry] = Groups()
        other._groups = self._groups.fork()
        return other


class StorageIndex:
    """Kept by ``change`` for each change of an object; ``rebuild`` computes a kind's part from the store."""

    def __init__(self, objects: ObjectStore, volumes: AssumedObjects[PersistentVolume]) -> None:
        self._objects = objects
        self._assumed = volumes
        self._pools: ForkableDict[str, VolumePool] = ForkableDict()
        self._capacities: ForkableDict[str, CapacityPool] = ForkableDict()
        self.claims_by_volume: Groups[None] = Groups()
        """Name of a volume → keys of the claims that name it."""
        self.attachments_by_node: Groups[VolumeAttachment] = Groups()
        self.attachments_by_volume: Groups[VolumeAttachment] = Groups()

    def pool(self, storage_class: str) -> VolumePool:
        """The volumes of a class. The class is the API object's, the volumes are as assumed."""
        found: VolumePool = self._pools.get(storage_class, _NO_POOL)
        return found

    def capacity(self, storage_class: str) -> CapacityPool:
        found: CapacityPool = self._capacities.get(storage_class, _NO_CAPACITY)
        return found

    def refresh_volume(self, name: str) -> None:
        """Update a volume in its pool after it was assumed, or the assumption dropped."""
        stored = self._objects.find(PersistentVolume, name)
        current = self._assumed.get(name)
        if stored is not None and current is not None:
            if stored.storage_class not in self._pools:
                self._pools[stored.storage_class] = VolumePool()
            self._pools.writable(stored.storage_class, VolumePool.copied).put(current)

    def change(self, kind: Kind, old: ApiObject | None, new: ApiObject | None) -> None:
        match kind:
            case Kind.PERSISTENT_VOLUME:
                self._change_volume(cast(PersistentVolume | None, old), cast(PersistentVolume | None, new))
            case Kind.PERSISTENT_VOLUME_CLAIM:
                self._change_claim(cast(PersistentVolumeClaim | None, old), cast(PersistentVolumeClaim | None, new))
            case Kind.CSI_STORAGE_CAPACITY:
                self._change_capacity(cast(CSIStorageCapacity | None, old), cast(CSIStorageCapacity | None, new))
            case Kind.VOLUME_ATTACHMENT:
                self._change_attachment(cast(VolumeAttachment | None, old), cast(VolumeAttachment | None, new))

    def fork(self, objects: ObjectStore, volumes: AssumedObjects[PersistentVolume]) -> StorageIndex:
        """The same over forks of what it stands on. Whichever side changes a class's volumes first copies them."""
        other = StorageIndex(objects, volumes)
        other._pools = self._pools.fork()
        other._capacities = self._capacities.fork()
        other.claims_by_volume = self.claims_by_volume.fork()
        other.attachments_by_node = self.attachments_by_node.fork()
        other.attachments_by_volume = self.attachments_by_volume.fork()
        return other

    def rebuild(self, kind: Kind) -> None:
        match kind:
            case Kind.PERSISTENT_VOLUME:
                self._pools = ForkableDict()
            case Kind.PERSISTENT_VOLUME_CLAIM:
                self.claims_by_volume = Groups()
            case Kind.CSI_STORAGE_CAPACITY:
                self._capacities = ForkableDict()
            case Kind.VOLUME_ATTACHMENT:
                self.attachments_by_node = Groups()
                self.attachments_by_volume = Groups()
        for each in self._objects.all(kind).values():
            self.change(kind, None, each)

    # --- one kind each ------------------------------------------------------------------------------------------------

    def _change_volume(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        has_left = old is not None and (new is None or new.storage_class != old.storage_class)
        if old is not None and has_left and old.storage_class in self._pools:
            pool = self._pools.writable(old.storage_class, VolumePool.copied)
            pool.drop(old.metadata.name)
            if not len(pool):
                del self._pools[old.storage_class]
        if new is not None:
            self.refresh_volume(new.metadata.name)

    def _change_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if old is not None and old.spec.volume_name:
            self.claims_by_volume.drop(old.spec.volume_name, old.key)
        if new is not None and new.spec.volume_name:
            self.claims_by_volume.put(new.spec.volume_name, new.key, None)

    def _change_capacity(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        has_left = old is not None and (new is None or new.storage_class_name != old.storage_class_name)
        if old is not None and has_left and old.storage_class_name in self._capacities:
            capacities = self._capacities.writable(old.storage_class_name, CapacityPool.copied)
            capacities.drop(old.key)
            if not len(capacities):
                del self._capacities[old.storage_class_name]
        if new is not None:
            if new.storage_class_name not in self._capacities:
                self._capacities[new.storage_class_name] = CapacityPool()
            self._capacities.writable(new.storage_class_name, CapacityPool.copied).put(new)

    def _change_attachment(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None:
            self.attachments_by_node.drop(old.spec.node_name, old.key)
            self.attachments_by_volume.drop(old.spec.source.persistent_volume_name or "", old.key)
        if new is not None:
            self.attachments_by_node.put(new.spec.node_name, new.key, new)
            if new.spec.source.persistent_volume_name:
                self.attachments_by_volume.put(new.spec.source.persistent_volume_name, new.key, new)
