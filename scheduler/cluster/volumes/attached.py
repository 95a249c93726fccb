"""How many volumes of each CSI driver are attached to each node, against how many can be (reference volumes.md §6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler.cluster.forkable import ForkableDict
from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.cluster.volumes.csi import Attachable, attached_volumes, claim_key, needs_attaching
from scheduler.cluster.volumes.disks import count_on
from scheduler.cluster.volumes.index import StorageIndex
from scheduler.objects.kinds import Kind
from scheduler.objects.storage import CSINode, PersistentVolume

Handle = tuple[str, str]
"""A driver and what it calls a volume."""
Column = npt.NDArray[np.int64]

UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class AttachedOnNode:
    """One node's account. Only drivers with a limit are in it."""

    limits: dict[str, int]
    by_pods: frozenset[Handle]
    """Volumes of the pods there."""
    counts: dict[str, int]
    """Driver → volumes of the pods there, and those that are still attached without a pod; each counts once."""

    def has_room_for(self, volumes: Iterable[Attachable]) -> bool:
        """Whether these volumes of a new pod stay within the limits.

        A volume that a pod there has already is not new. One that is attached but of no pod counts twice, as in
        kube-scheduler 1.36.
        """
        wanted = Counter(driver for driver, _ in set(volumes) - self.by_pods)
        return all(
            driver not in self.limits or self.counts.get(driver, 0) + count <= self.limits[driver]
            for driver, count in wanted.items()
        )


_NO_LIMITS = AttachedOnNode({}, frozenset(), {})


class AttachedVolumes:
    """The accounts of all rows of a table, with a column a driver.

    Whatever an account depends on only marks rows here; they are counted again when somebody asks. Told of pods by
    ``add`` and ``remove``, of objects by the ``mark`` methods.
    """

    def __init__(self, table: NodeTable, objects: ObjectStore, index: StorageIndex) -> None:
        self._table = table
        self._objects = objects
        self._index = index
        self._rows: list[AttachedOnNode] = []
        self._names: list[str] = []
        self._stale: set[int] = set()
        self._is_all_stale = True
        self._rows_of_claim: ForkableDict[str, Counter[int]] = ForkableDict()
        self._counts: dict[str, Column] = {}
        self._limits: dict[str, Column] = {}
        self._rows_of_handle: ForkableDict[Handle, dict[int, None]] = ForkableDict()

    # --- changes ------------------------------------------------------------------------------------------------------

    def add(self, info: PodInfo, row: int) -> None:
        if needs_attaching(info):
            self._stale.add(row)
            for key in _claims(info):
                count_on(self._rows_of_claim, key, row, 1)

    def remove(self, info: PodInfo, row: int) -> None:
        if needs_attaching(info):
            self._stale.add(row)
            for key in _claims(info):
                count_on(self._rows_of_claim, key, row, -1)

    def mark_everything(self) -> None:
        self._is_all_stale = True

    def mark_node(self, name: str) -> None:
        row = self._table.row(name)
        if row is not None:
            self._stale.add(row)

    def mark_claim(self, key: str) -> None:
        self._stale.update(self._rows_of_claim.get(key, ()))

    def mark_volume(self, name: str) -> None:
        """A volume came, went, or is another one: its claim's users and its attachments count differently."""
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

    def rows_with(self, driver: str, handle: str) -> Collection[int]:
        """Rows with a limit whose pods have this volume."""
        return self._rows_of_handle.get((driver, handle), {}).keys()

    def on_row(self, row: int) -> AttachedOnNode:
        return self._rows[row]

    def refresh(self) -> None:
        """Count again what may have changed; call it before asking."""
        table = self._table
        if self._names != table.names:
            self._look_at_names()
        if self._is_all_stale:
            self._stale = set(range(table.size))
            self._is_all_stale = False
        if self._stale:
            for row in sorted(self._stale):
                self._recount(row)
            self._stale = set()

    def _look_at_names(self) -> None:
        """Rows that belong to another node now are stale."""
        table = self._table
        self._rows.extend([_NO_LIMITS] * (table.size - len(self._rows)))
        self._names.extend([""] * (table.size - len(self._names)))
        for row, name in enumerate(table.names):
            if self._names[row] != name:
                self._names[row] = name
                self._stale.add(row)

    def _recount(self, row: int) -> None:
        before = self._rows[row]
        name = self._table.names[row]
        account = self.account(name, self._table.pods[row].values()) if name else _NO_LIMITS
        self._rows[row] = account
        for driver in before.limits.keys() - account.limits.keys():
            self._limits[driver][row] = UNLIMITED
            self._counts[driver][row] = 0
        for driver, limit in account.limits.items():
            self._column(self._limits, driver, UNLIMITED)[row] = limit
            self._column(self._counts, driver, 0)[row] = account.counts.get(driver, 0)
        for handle in before.by_pods - account.by_pods:
            rows = self._rows_of_handle.writable(handle, dict)
            del rows[row]
            if not rows:
                del self._rows_of_handle[handle]
        for handle in account.by_pods - before.by_pods:
            if handle in self._rows_of_handle:
                self._rows_of_handle.writable(handle, dict)[row] = None
            else:
                self._rows_of_handle[handle] = {row: None}

    def _column(self, columns: dict[str, Column], driver: str, fill: int) -> Column:
        column = columns.get(driver)
        size = self._table.size
        if column is None or len(column) < size:
            longer = np.full(2 * size, fill, np.int64)
            if column is not None:
                longer[: len(column)] = column
            column = columns[driver] = longer
        return column

    def fork(self, table: NodeTable, objects: ObjectStore, index: StorageIndex) -> AttachedVolumes:
        """The same over forks of what it stands on."""
        other = AttachedVolumes(table, objects, index)
        other._rows = self._rows[:]
        other._names = self._names[:]
        other._stale = set(self._stale)
        other._is_all_stale = self._is_all_stale
        other._rows_of_claim = self._rows_of_claim.fork()
        other._counts = {driver: column.copy() for driver, column in self._counts.items()}
        other._limits = {driver: column.copy() for driver, column in self._limits.items()}
        other._rows_of_handle = self._rows_of_handle.fork()
        return other

    def account(self, node: str, pods: Iterable[PodInfo]) -> AttachedOnNode:
        """The account of a node with these pods on it, whatever rows say."""
        csi_node: CSINode | None = self._objects.get(Kind.CSI_NODE, node)
        if csi_node is None:
            return _NO_LIMITS
        limits = csi_node.limits
        if not limits:
            return _NO_LIMITS
        by_pods: set[Handle] = set()
        for info in pods:
            if info.pod.spec.volumes:
                by_pods.update(each for each in attached_volumes(info, self._objects) if each.driver in limits)
        everything = by_pods.union(handle for handle in self._still_attached(node) if handle[0] in limits)
        counts = Counter(driver for driver, _ in everything)
        return AttachedOnNode(limits, frozenset(by_pods), dict(counts))

    def _still_attached(self, node: str) -> Iterable[Handle]:
        for attachment in self._index.attachments_by_node.of(node).values():
            attacher, name = attachment.spec.attacher, attachment.spec.source.persistent_volume_name
            if attacher and name:
                volume: PersistentVolume | None = self._objects.get(Kind.PERSISTENT_VOLUME, name)
                if volume is not None and volume.spec.csi is not None:
                    yield attacher, volume.spec.csi.volume_handle


def _claims(info: PodInfo) -> list[str]:
    return [key for volume in info.pod.spec.volumes if (key := claim_key(info, volume)) is not None]
