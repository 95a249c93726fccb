"""Storage objects by what they belong to: volumes and capacity by class, claims by volume, attachments by node."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from scheduler.cluster.assumed import AssumedObjects
from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.volumes.pools import CapacityPool, VolumePool
from scheduler.objects.kinds import Kind
from scheduler.objects.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim, VolumeAttachment

Entry = TypeVar("Entry")

INDEXED_KINDS = (
    Kind.PERSISTENT_VOLUME,
    Kind.PERSISTENT_VOLUME_CLAIM,
    Kind.CSI_STORAGE_CAPACITY,
    Kind.VOLUME_ATTACHMENT,
)

_NO_POOL = VolumePool()
_NO_CAPACITY = CapacityPool()


class Groups(Generic[Entry]):
    """Group → name → entry; empty groups are forgotten."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, Entry]] = {}

    def put(self, group: str, name: str, entry: Entry) -> None:
        self._groups.setdefault(group, {})[name] = entry

    def drop(self, group: str, name: str) -> None:
        entries = self._groups.get(group)
        if entries is not None:
            entries.pop(name, None)
            if not entries:
                del self._groups[group]

    def of(self, group: str) -> dict[str, Entry]:
        """Do not change it."""
        return self._groups.get(group, {})


class StorageIndex:
    """Kept by ``change`` for each change of an object; ``rebuild`` makes a kind's part anew."""

    def __init__(self, objects: ObjectStore, volumes: AssumedObjects[PersistentVolume]) -> None:
        self._objects = objects
        self._assumed = volumes
        self._pools: dict[str, VolumePool] = {}
        self._capacities: dict[str, CapacityPool] = {}
        self.claims_by_volume: Groups[None] = Groups()
        """Name of a volume → keys of the claims that name it."""
        self.attachments_by_node: Groups[VolumeAttachment] = Groups()
        self.attachments_by_volume: Groups[VolumeAttachment] = Groups()

    def pool(self, storage_class: str) -> VolumePool:
        """The volumes of a class. The class is the API object's, the volumes are as assumed."""
        return self._pools.get(storage_class, _NO_POOL)

    def capacity(self, storage_class: str) -> CapacityPool:
        return self._capacities.get(storage_class, _NO_CAPACITY)

    def refresh_volume(self, name: str) -> None:
        """A volume was assumed or is no longer."""
        stored: PersistentVolume | None = self._objects.get(Kind.PERSISTENT_VOLUME, name)
        current = self._assumed.get(name)
        if stored is not None and current is not None:
            self._pools.setdefault(stored.storage_class, VolumePool()).put(current)

    def change(self, kind: Kind, old: Any, new: Any) -> None:
        match kind:
            case Kind.PERSISTENT_VOLUME:
                self._change_volume(old, new)
            case Kind.PERSISTENT_VOLUME_CLAIM:
                self._change_claim(old, new)
            case Kind.CSI_STORAGE_CAPACITY:
                self._change_capacity(old, new)
            case Kind.VOLUME_ATTACHMENT:
                self._change_attachment(old, new)

    def rebuild(self, kind: Kind) -> None:
        match kind:
            case Kind.PERSISTENT_VOLUME:
                self._pools = {}
            case Kind.PERSISTENT_VOLUME_CLAIM:
                self.claims_by_volume = Groups()
            case Kind.CSI_STORAGE_CAPACITY:
                self._capacities = {}
            case Kind.VOLUME_ATTACHMENT:
                self.attachments_by_node = Groups()
                self.attachments_by_volume = Groups()
        for each in self._objects.all(kind).values():
            self.change(kind, None, each)

    # --- one kind each ------------------------------------------------------------------------------------------------

    def _change_volume(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None and (new is None or new.storage_class != old.storage_class):
            pool = self._pools.get(old.storage_class)
            if pool is not None:
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
        if old is not None:
            self._capacities[old.storage_class_name].drop(old.key)
        if new is not None:
            self._capacities.setdefault(new.storage_class_name, CapacityPool()).put(new)

    def _change_attachment(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None:
            self.attachments_by_node.drop(old.spec.node_name, old.key)
            self.attachments_by_volume.drop(old.spec.source.persistent_volume_name or "", old.key)
        if new is not None:
            self.attachments_by_node.put(new.spec.node_name, new.key, new)
            if new.spec.source.persistent_volume_name:
                self.attachments_by_volume.put(new.spec.source.persistent_volume_name, new.key, new)
