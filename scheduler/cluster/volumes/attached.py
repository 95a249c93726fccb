"""The number of volumes of each CSI driver attached to each node, and the limits.

Source: docs/kube-scheduler/volumes.md §6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import count
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.rows_by_key import RowsByKey
from scheduler.cluster.table import NodeTable
from scheduler.cluster.volumes.csi import Attachable, attached_volumes, claim_key, needs_attaching
from scheduler.cluster.volumes.index import StorageIndex
from scheduler.cluster.volumes.unplaced import UnplacedVolumes
from scheduler.objects.storage import CSINode, PersistentVolume

Column = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

UNLIMITED = -1
MAX_STALE_PODS: Final = 32
"""Of one row. With more of them it is counted again as a whole: while no pod with volumes is to be placed, no question
comes, and those that have come and gone would be remembered without a limit."""

_new_version = count(1).__next__
"""One sequence for all tables: an answer kept by version is not taken for that of a fork."""


class AttachedOnNode(Struct, frozen=True):
    """One node's account. Only drivers with a limit are in it, and a node without a CSINode has none."""

    limits: Mapping[str, int] = field(default_factory=dict)
    by_pod: Mapping[str, tuple[Attachable, ...]] = field(default_factory=dict)
    """UID → the volumes of a pod there, each once; pods without any are left out."""
    left_over: frozenset[Attachable] = frozenset()
    """Volumes that a VolumeAttachment says are attached, with a pod or without."""
    migrated: frozenset[str] = frozenset()
    """In-tree plugins that the node's annotation says a driver serves there; VolumeBinding alone goes by it."""

    @property
    def by_pods(self) -> frozenset[Attachable]:
        """The volumes of the pods there."""
        return frozenset([each for volumes in self.by_pod.values() for each in volumes])

    @property
    def counts(self) -> dict[str, int]:
        """Driver → volumes of the pods there, and those that are still attached without a pod; each counts once."""
        return dict(Counter([each.driver for each in self.by_pods | self.left_over]))

    def has_room_for(self, volumes: Iterable[Attachable]) -> bool:
        """Whether these volumes of a new pod stay within the limits.

        A volume that a pod there has already is not new. One that is attached but of no pod counts twice, as in
        kube-scheduler 1.36.
        """
        wanted = Counter([each.driver for each in set(volumes) - self.by_pods])
        counts = self.counts
        return all(
            driver not in self.limits or counts.get(driver, 0) + count <= self.limits[driver]
            for driver, count in wanted.items()
        )


_NO_LIMITS = AttachedOnNode()


class AttachedVolumes:
    """The accounts of all rows of a table, with a column a driver.

    Whatever an account depends on only marks rows here; they are counted again when asked for. Updated with pods by
    ``add`` and ``remove``, of objects by the ``mark`` methods.
    """

    def __init__(self, table: NodeTable, objects: ObjectStore, index: StorageIndex) -> None:
        self._table = table
        self._objects = objects
        self._index = index
        self._rows: list[AttachedOnNode] = []
        self._named_at: list[int] = []
        self._names_version = -1
        self._stale: set[int] = set()
        self._stale_pods: dict[int, dict[str, None]] = {}
        """Row → UIDs of pods that came or went there: what is known of the others' volumes holds."""
        self._is_all_stale = True
        self._rows_of_claim: RowsByKey[str] = RowsByKey()
        self._counts: dict[str, Column] = {}
        self._limits: dict[str, Column] = {}
        self._migrating: dict[str, Mask] = {}
        self._rows_of_volume: RowsByKey[Attachable] = RowsByKey()
        self._versions: Column = np.zeros(0, np.int64)
        self.unplaced = UnplacedVolumes(objects)

    # --- changes ------------------------------------------------------------------------------------------------------

    def add(self, info: PodInfo, row: int) -> None:
        if needs_attaching(info):
            self._mark_pod(info.uid, row)
            for key in _claims(info):
                self._rows_of_claim.add(key, row)

    def remove(self, info: PodInfo, row: int) -> None:
        if needs_attaching(info):
            self._mark_pod(info.uid, row)
            for key in _claims(info):
                self._rows_of_claim.remove(key, row)

    def _mark_pod(self, uid: str, row: int) -> None:
        if self._is_all_stale or row in self._stale:
            return
        changed = self._stale_pods.setdefault(row, {})
        changed[uid] = None
        if len(changed) > MAX_STALE_PODS:
            del self._stale_pods[row]
            self._stale.add(row)

    def mark_everything(self) -> None:
        self._is_all_stale = True
        self.unplaced.mark_everything()

    def mark_row(self, row: int) -> None:
        self._stale.add(row)

    def mark_node(self, name: str) -> None:
        row = self._table.row(name)
        if row is not None:
            self._stale.add(row)

    def mark_claim(self, key: str) -> None:
        self._stale.update(self._rows_of_claim.of(key))
        self.unplaced.mark_claim(key)

    def mark_volume(self, name: str) -> None:
        """Note that a volume was added, changed or removed: its users and attachments are counted again."""
        for key in self._index.claims_by_volume.of(name):
            self.mark_claim(key)
        for attachment in self._index.attachments_by_volume.of(name).values():
            self.mark_node(attachment.spec.node_name)

    # --- answers ------------------------------------------------------------------------------------------------------

    def limits(self, driver: str) -> Column | None:
        """Volumes that can be attached: int64, one a row, UNLIMITED where nothing is said; None if nowhere is."""
        column = self._limits.get(driver)
        return None if column is None else column[: self._table.size]

    def counts(self, driver: str) -> Column:
        """Volumes attached: int64, one a row; 0 on rows without a limit. Only for drivers that have ``limits``."""
        return self._counts[driver][: self._table.size]

    def rows_with(self, volume: Attachable) -> Collection[int]:
        """Rows with a limit whose pods have this volume."""
        return self._rows_of_volume.of(volume).keys()

    def migrates(self, plugin: str) -> Mask | None:
        """Rows whose annotation says that an in-tree plugin's volumes are served by its driver: bool, one a row; None
        if there are none. Do not change it."""
        column = self._migrating.get(plugin)
        return None if column is None else column[: self._table.size]

    @property
    def versions(self) -> Column:
        """A number for each row that no row of any table had before, whenever the row's account is another one."""
        return self._versions[: self._table.size]

    def on_row(self, row: int) -> AttachedOnNode:
        return self._rows[row]

    def pods_on(self, row: int) -> Mapping[str, PodInfo]:
        """The pods that the row's account is of, by UID."""
        return self._table.pods[row]

    def refresh(self) -> None:
        """Count the marked rows again; call it before any question."""
        table = self._table
        if self._names_version != table.names_version:
            self._look_at_names()
        if self._is_all_stale:
            self._stale = set(range(table.size))
            self._is_all_stale = False
        if self._stale or self._stale_pods:
            for row in sorted(self._stale | self._stale_pods.keys()):
                self._recount(row, None if row in self._stale else self._stale_pods[row])
            self._stale = set()
            self._stale_pods = {}

    def _look_at_names(self) -> None:
        """Mark the rows that belong to another node now, or to one that was gone: while it had no row, what became of
        its CSINode and attachments marked nothing."""
        table = self._table
        self._rows.extend([_NO_LIMITS] * (table.size - len(self._rows)))
        self._named_at.extend([0] * (table.size - len(self._named_at)))
        if len(self._versions) < table.size:
            self._versions = np.append(self._versions, np.zeros(2 * table.size - len(self._versions), np.int64))
        for row, named_at in enumerate(table.named_at):
            if self._named_at[row] != named_at:
                self._named_at[row] = named_at
                self._stale.add(row)
        self._names_version = table.names_version
        # New rows may have no limit of their own, and still be asked about.
        for driver in self._limits:
            self._column(self._limits, driver, UNLIMITED)
            self._column(self._counts, driver, 0)
        for plugin in self._migrating:
            self._migrating_column(plugin)

    def _recount(self, row: int, changed: Iterable[str] | None) -> None:
        """``changed``: UIDs of the pods that came and went, where nothing else has changed; None: anything may have."""
        before = self._rows[row]
        name = self._table.names[row]
        if changed is not None:
            account = self._with_changed(before, changed, self._table.pods[row])
        else:
            account = self.account(name, self._table.pods[row].values()) if name else _NO_LIMITS
        if account == before:
            return
        self._rows[row] = account
        self._versions[row] = _new_version()
        for driver in before.limits.keys() - account.limits.keys():
            self._limits[driver][row] = UNLIMITED
            self._counts[driver][row] = 0
        counts = account.counts
        for driver, limit in account.limits.items():
            self._column(self._limits, driver, UNLIMITED)[row] = limit
            self._column(self._counts, driver, 0)[row] = counts.get(driver, 0)
        for plugin in before.migrated | account.migrated:
            self._migrating_column(plugin)[row] = plugin in account.migrated
        had, has = before.by_pods, account.by_pods
        for volume in had - has:
            self._rows_of_volume.remove(volume, row)
        for volume in has - had:
            self._rows_of_volume.add(volume, row)

    def _with_changed(
        self, before: AttachedOnNode, changed: Iterable[str], there: Mapping[str, PodInfo]
    ) -> AttachedOnNode:
        """The account after these pods came and went: a node may have hundreds of others. ``there``: its pods now."""
        if not before.limits:
            return before
        by_pod = dict(before.by_pod)
        for uid in changed:
            info = there.get(uid)
            volumes = self._limited(info, before.limits) if info is not None else ()
            if volumes:
                by_pod[uid] = volumes
            else:
                by_pod.pop(uid, None)
        return AttachedOnNode(before.limits, by_pod, before.left_over, before.migrated)

    def _limited(self, info: PodInfo, limits: Mapping[str, int]) -> tuple[Attachable, ...]:
        """A pod's volumes, each once, of the drivers with a limit."""
        return tuple(dict.fromkeys([each for each in attached_volumes(info, self._objects) if each.driver in limits]))

    def _column(self, columns: dict[str, Column], driver: str, fill: int) -> Column:
        column = columns.get(driver)
        size = self._table.size
        if column is None or len(column) < size:
            longer = np.full(2 * size, fill, np.int64)
            if column is not None:
                longer[: len(column)] = column
            column = columns[driver] = longer
        return column

    def _migrating_column(self, plugin: str) -> Mask:
        column = self._migrating.get(plugin)
        size = self._table.size
        if column is None or len(column) < size:
            longer = np.zeros(2 * size, np.bool_)
            if column is not None:
                longer[: len(column)] = column
            column = self._migrating[plugin] = longer
        return column

    def fork(self, table: NodeTable, objects: ObjectStore, index: StorageIndex) -> AttachedVolumes:
        """The same over forks of what it stands on."""
        other = AttachedVolumes(table, objects, index)
        other._rows = self._rows[:]
        other._named_at = self._named_at[:]
        other._names_version = self._names_version
        other._stale = set(self._stale)
        other._stale_pods = {row: dict(pods) for row, pods in self._stale_pods.items()}
        other._is_all_stale = self._is_all_stale
        other._rows_of_claim = self._rows_of_claim.fork()
        other._counts = {driver: column.copy() for driver, column in self._counts.items()}
        other._limits = {driver: column.copy() for driver, column in self._limits.items()}
        other._migrating = {plugin: column.copy() for plugin, column in self._migrating.items()}
        other._rows_of_volume = self._rows_of_volume.fork()
        other._versions = self._versions.copy()
        return other

    def account(
        self, node: str, pods: Iterable[PodInfo], known: Mapping[str, tuple[Attachable, ...]] | None = None
    ) -> AttachedOnNode:
        """The account of a node with these pods on it, whatever rows say. ``known``: UID → volumes with a limit of pods
        that need not be looked at."""
        csi_node = self._objects.find(CSINode, node)
        if csi_node is None:
            return _NO_LIMITS
        limits, migrated = csi_node.limits, csi_node.migrated_plugins
        if not limits:
            return AttachedOnNode(migrated=migrated) if migrated else _NO_LIMITS
        by_pod: dict[str, tuple[Attachable, ...]] = {}
        for info in pods:
            if not info.pod.spec.volumes:
                continue
            volumes = known.get(info.uid) if known else None
            if volumes is None:
                volumes = self._limited(info, limits)
            if volumes:
                by_pod[info.uid] = volumes
        left_over = frozenset([each for each in self._still_attached(node) if each.driver in limits])
        return AttachedOnNode(limits, by_pod, left_over, migrated)

    def _still_attached(self, node: str) -> Iterable[Attachable]:
        for attachment in self._index.attachments_by_node.of(node).values():
            attacher, name = attachment.spec.attacher, attachment.spec.source.persistent_volume_name
            if attacher and name:
                volume = self._objects.find(PersistentVolume, name)
                if volume is not None and volume.spec.csi is not None:
                    yield Attachable(attacher, volume.spec.csi.volume_handle)


def _claims(info: PodInfo) -> list[str]:
    return [key for volume in info.pod.spec.volumes if (key := claim_key(info, volume)) is not None]
