"""Claims, volumes, classes and attachments as scheduling reads them, with the assumptions not written yet.

Storage objects live in the ObjectStore like all others; this keeps what is found by anything but their key, lays
assumptions over PersistentVolumes and claims, and remembers what each pod on its way to a node has set aside
(docs/kube-scheduler/volumes.md §3). ``observe`` must be called for every change of a storage kind, after the store and
before the queue: a pod that is woken by a change has to find it here. Changes that it missed are noticed by the kind's
version, and cost a pass over all objects of the kind.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from typing import cast

import numpy as np
import numpy.typing as npt

from scheduler.cluster.assumed import AssumedObjects
from scheduler.cluster.node_matching import matches_selector
from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.rows_by_key import RowsByKey
from scheduler.cluster.table import NodeTable
from scheduler.cluster.volumes.attached import AttachedVolumes
from scheduler.cluster.volumes.csi import attachable, claim_key
from scheduler.cluster.volumes.disks import Disk, DiskUsers
from scheduler.cluster.volumes.index import StorageIndex
from scheduler.cluster.volumes.migration import in_tree_plugin, migrated
from scheduler.cluster.volumes.pools import CapacityPool, VolumePool
from scheduler.cluster.volumes.reserved import Reservation
from scheduler.cluster.volumes.storage_selectors import (
    MAX_KEPT_PARTS,
    has_long_selector,
    node_affinity_of,
    parse_in_steps,
    size_of,
)
from scheduler.errors import InvariantViolation
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.node_selectors import NodeSelector
from scheduler.objects.steps import Steps
from scheduler.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment

STORAGE_KINDS = (
    Kind.PERSISTENT_VOLUME_CLAIM,
    Kind.PERSISTENT_VOLUME,
    Kind.STORAGE_CLASS,
    Kind.CSI_NODE,
    Kind.CSI_STORAGE_CAPACITY,
    Kind.VOLUME_ATTACHMENT,
)
"""The kinds that something is kept of."""

_MAX_MASKS = 256
_MAX_MASKS_PARTS = MAX_KEPT_PARTS
"""Of the selectors that masks are kept for, together: one volume may have 1.5 MB."""


class Volumes:
    """One of the tallies of the cluster cache: updated with every pod that comes to a row or leaves it."""

    def __init__(
        self,
        table: NodeTable,
        objects: ObjectStore,
        assumed_volumes: AssumedObjects[PersistentVolume] | None = None,
        assumed_claims: AssumedObjects[PersistentVolumeClaim] | None = None,
    ) -> None:
        self._table = table
        self._objects = objects
        self._users: RowsByKey[str] = RowsByKey()
        """By claim, the pods that use it."""
        self.version = 0
        """Grows whenever the users of any claim change."""
        self._seen: dict[Kind, int] = dict.fromkeys(STORAGE_KINDS, 0)
        self._assumed_volumes = assumed_volumes or AssumedObjects(Kind.PERSISTENT_VOLUME, objects)
        self._assumed_claims = assumed_claims or AssumedObjects(Kind.PERSISTENT_VOLUME_CLAIM, objects)
        self._reservations: dict[str, Reservation] = {}
        self._index = StorageIndex(objects, self._assumed_volumes)
        self._attached = AttachedVolumes(table, objects, self._index)
        self._disks = DiskUsers()
        self._masks: OrderedDict[NodeSelector, npt.NDArray[np.bool_]] = OrderedDict()
        self._masks_parts = 0
        self._masks_of = (-1, -1)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def add(self, info: PodInfo, row: int) -> None:
        if not info.pod.spec.volumes:
            return
        for claim in _claims_of(info):
            self._users.add(claim, row)
            self.version += 1
        self._attached.add(info, row)
        self._disks.add(info, row)

    def remove(self, info: PodInfo, row: int) -> None:
        if not info.pod.spec.volumes:
            return
        for claim in _claims_of(info):
            self._users.remove(claim, row)
            self.version += 1
        self._attached.remove(info, row)
        self._disks.remove(info, row)
        self.release(info.uid)

    def replace(self, known: PodInfo, info: PodInfo, row: int) -> None:
        """Replace a pod of a row by another version."""
        if known.pod.spec.volumes == info.pod.spec.volumes:
            if info.pod.spec.volumes:
                self.release(info.uid)
            return
        self.remove(known, row)
        self.add(info, row)
        self._attached.mark_row(row)

    def users(self, claim: str) -> int:
        """How many pods on nodes that exist use a claim (``namespace/name``) by their PersistentVolumeClaim volumes.
        What ran on a node that is gone uses nothing, as kube-scheduler 1.36 sees it."""
        nodes = self._table.nodes
        return sum(count for row, count in self._users.of(claim).items() if nodes[row] is not None)

    def is_attached(self, volume: PersistentVolume) -> bool:
        """Whether the volume has a VolumeAttachment, or pods use it, by any claim, on a node that limits its driver."""
        found, attached = attachable(volume), self.attached
        return bool(self._index.attachments_by_volume.of(volume.metadata.name)) or (
            found is not None and bool(attached.rows_with(found))
        )

    def rows_using(self, claims: Iterable[str]) -> Collection[int]:
        """Rows whose pods use one of these claims by their PersistentVolumeClaim volumes."""
        return self._users.having(claims)

    def rows_with_disks(self, disks: Iterable[Disk]) -> Collection[int]:
        """Rows where some pod has a disk that may be one of these."""
        return self._disks.rows_with(disks)

    @property
    def table(self) -> NodeTable:
        """The table that rows refer to."""
        return self._table

    def is_of(self, table: NodeTable) -> bool:
        """Whether rows refer to this table; they do not if it is a private copy for a what-if."""
        return table is self._table

    # --- objects ------------------------------------------------------------------------------------------------------

    def observe(self, kind: Kind, old: ApiObject | None, new: ApiObject | None) -> None:
        """Apply a change of the store, just after it: ``old`` is None for a new object, ``new`` for a removed one."""
        seen = self._seen.get(kind)
        changed = new if new is not None else old
        if seen is None or changed is None or seen + 1 != self._objects.version(kind):
            return
        self._seen[kind] = seen + 1
        match kind:
            case Kind.PERSISTENT_VOLUME:
                self._assumed_volumes.settle(changed.key)
                self._index.change(kind, old, new)
                volumes = cast(PersistentVolume | None, old), cast(PersistentVolume | None, new)
                if volumes[0] is None or volumes[1] is None or attachable(volumes[0]) != attachable(volumes[1]):
                    self._attached.mark_volume(changed.key)
            case Kind.PERSISTENT_VOLUME_CLAIM:
                self._assumed_claims.settle(changed.key)
                self._index.change(kind, old, new)
                self._attached.mark_claim(changed.key)
            case Kind.CSI_STORAGE_CAPACITY:
                self._index.change(kind, old, new)
            case Kind.VOLUME_ATTACHMENT:
                self._index.change(kind, old, new)
                for attachment in (old, new):
                    if isinstance(attachment, VolumeAttachment):
                        self._attached.mark_node(attachment.spec.node_name)
            case Kind.CSI_NODE:
                self._attached.mark_node(changed.key)
            case _:
                self._attached.mark_everything()

    def _catch_up(self) -> None:
        for kind, seen in self._seen.items():
            version = self._objects.version(kind)
            if seen != version:
                self._seen[kind] = version
                self._index.rebuild(kind)
                self._attached.mark_everything()

    def pool(self, storage_class: str) -> VolumePool:
        """The PersistentVolumes of a class, as assumed."""
        self._catch_up()
        return self._index.pool(storage_class)

    def capacity(self, storage_class: str) -> CapacityPool:
        """The capacity that drivers report for volumes of a class."""
        self._catch_up()
        return self._index.capacity(storage_class)

    @property
    def attached(self) -> AttachedVolumes:
        """The attached volumes of each row and their limits, brought up to date."""
        self._catch_up()
        self._attached.refresh()
        return self._attached

    def rows_reaching(self, volume: PersistentVolume) -> npt.NDArray[np.bool_] | None:
        """Rows from which a volume can be used, in the table that this is kept for: bool, one a row; None if all. A
        volume of an in-tree plugin is its driver's on the rows whose CSINode says so. Do not change it."""
        plain = self._affine_rows(volume)
        plugin = in_tree_plugin(volume.spec)
        migrates = self.attached.migrates(plugin) if plugin else None
        if migrates is None:
            return plain
        as_csi = self._affine_rows(migrated(volume))
        if plain is None and as_csi is None:
            return None
        return (migrates | (True if plain is None else plain)) & (~migrates | (True if as_csi is None else as_csi))

    def _affine_rows(self, volume: PersistentVolume) -> npt.NDArray[np.bool_] | None:
        selector = node_affinity_of(volume)
        return None if selector is None else self.matching_rows(selector)

    def has_long_selector(self, info: PodInfo) -> bool:
        """Whether a claim of the pod, or its volume or class, has a selector that takes long to parse."""
        return any(has_long_selector(*each) for each in self._storage_of(info))

    def parse_in_steps(self, info: PodInfo) -> Steps[None]:
        """Parse the long selectors of the pod's claims, their volumes and classes, with pauses: who asks for them next
        has them."""
        for each in self._storage_of(info):
            yield from parse_in_steps(*each)

    def _storage_of(
        self, info: PodInfo
    ) -> Iterator[tuple[PersistentVolumeClaim, PersistentVolume | None, StorageClass | None]]:
        for each in info.pod.spec.volumes:
            key = claim_key(info, each)
            claim = self.claim(key) if key is not None else None
            if claim is not None:
                name = claim.spec.volume_name
                volume = self.volume(name) if name else None
                yield claim, volume, self._objects.find(StorageClass, claim.storage_class)

    def matching_rows(self, selector: NodeSelector) -> npt.NDArray[np.bool_]:
        """Rows that the node affinity of a volume, or the topologies of a class, accept by their labels: bool, one a
        row. Do not change it."""
        table = self._table
        now = (table.labels_version, table.size)
        if now != self._masks_of:
            self._masks.clear()
            self._masks_parts = 0
            self._masks_of = now
        mask = self._masks.get(selector)
        if mask is None:
            mask = self._masks[selector] = matches_selector(table, selector, slice(0, table.size))
            self._masks_parts += size_of(selector)
            while len(self._masks) > _MAX_MASKS or (self._masks_parts > _MAX_MASKS_PARTS and len(self._masks) > 1):
                oldest, _ = self._masks.popitem(last=False)
                self._masks_parts -= size_of(oldest)
        return mask

    # --- assumptions --------------------------------------------------------------------------------------------------

    def volume(self, name: str) -> PersistentVolume | None:
        """The volume by name, as assumed if an assumption about it holds."""
        return self._assumed_volumes.get(name)

    def claim(self, key: str) -> PersistentVolumeClaim | None:
        """The claim (``namespace/name``), as assumed if an assumption about it holds."""
        return self._assumed_claims.get(key)

    def reservation(self, pod_uid: str) -> Reservation | None:
        """The pod's reservation until it is bound; None if all its claims were bound before."""
        return self._reservations.get(pod_uid)

    def reserve(self, reservation: Reservation) -> None:
        """Set volumes and claims aside for a pod. Raises OutOfSync, and then has changed nothing."""
        self._reservations[reservation.pod_uid] = reservation
        try:
            for binding in reservation.bindings:
                if binding.is_changed:
                    self._assumed_volumes.assume(binding.volume)
                    self._index.refresh_volume(binding.volume.metadata.name)
            for provision in reservation.provisions:
                self._assumed_claims.assume(provision.claim)
        except Exception:
            self.release(reservation.pod_uid)
            raise

    def release(self, pod_uid: str) -> None:
        """Release the pod's reservation, if it has one."""
        reservation = self._reservations.pop(pod_uid, None)
        if reservation is None:
            return
        for binding in reservation.bindings:
            self._assumed_volumes.restore(binding.volume)
            self._index.refresh_volume(binding.volume.metadata.name)
        for provision in reservation.provisions:
            self._assumed_claims.restore(provision.claim)

    # --- forks and invariants ----------------------------------------------------------------------------------------

    def fork(self, table: NodeTable, objects: ObjectStore) -> Volumes:
        """The same over forks of the table and the objects; neither side sees what the other does from now on."""
        other = Volumes(table, objects, self._assumed_volumes.fork(objects), self._assumed_claims.fork(objects))
        other._users = self._users.fork()
        other.version = self.version
        other._seen = dict(self._seen)
        other._reservations = dict(self._reservations)
        other._index = self._index.fork(objects, other._assumed_volumes)
        other._attached = self._attached.fork(table, objects, other._index)
        other._disks = self._disks.fork()
        return other

    def check(self) -> None:
        """Raise InvariantViolation unless a recount of all pods gives the same."""
        recount = Volumes(self._table, self._objects)
        for row, pods in enumerate(self._table.pods):
            for info in pods.values():
                recount.add(info, row)
        if dict(recount._users.items()) != dict(self._users.items()):
            raise InvariantViolation("users of claims differ from a recount")
        if dict(recount._disks.items()) != dict(self._disks.items()):
            raise InvariantViolation("users of disks differ from a recount")
        expected, found = recount.attached, self.attached
        for row, name in enumerate(self._table.names):
            if expected.on_row(row) != found.on_row(row):
                raise InvariantViolation(f"volumes attached to {name} differ from a recount")
        placed = {uid for pods in self._table.pods for uid in pods}
        for uid in self._reservations:
            if uid not in placed:
                raise InvariantViolation(f"{uid} has volumes set aside but is on no node")


def _claims_of(info: PodInfo) -> list[str]:
    return [
        f"{info.namespace}/{volume.persistent_volume_claim.claim_name}"
        for volume in info.pod.spec.volumes
        if volume.persistent_volume_claim is not None
    ]
