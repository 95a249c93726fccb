"""Disks that pods have inline and that not every second pod may share (docs/kube-scheduler/volumes.md §7)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping

from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.rows_by_key import RowsByKey
from scheduler.objects.pod import Volume


class Disk(Struct, frozen=True):
    """One inline disk. ``key`` is equal for disks that may be the same one; ``conflicts_with`` decides."""

    key: Hashable
    is_read_only: bool
    shares_read_only: bool = True
    monitors: frozenset[str] | None = None
    """RBD only: disks without a monitor in common are different ones."""

    def conflicts_with(self, other: Disk) -> bool:
        """Whether two pods on one node cannot have both: the same disk, unless both only read it where that helps."""
        if self.key != other.key:
            return False
        if self.monitors is not None and other.monitors is not None and not self.monitors & other.monitors:
            return False
        return not (self.shares_read_only and self.is_read_only and other.is_read_only)


def disks_of(info: PodInfo) -> tuple[Disk, ...]:
    """The restricted inline disks of a pod, in its order: GCE PD, AWS EBS, iSCSI and RBD."""
    volumes = info.pod.spec.volumes
    return tuple(disk for volume in volumes if (disk := _disk(volume)) is not None) if volumes else ()


def _disk(volume: Volume) -> Disk | None:
    if (gce := volume.gce_persistent_disk) is not None:
        return Disk(("gce", gce.pd_name), gce.read_only)
    if (ebs := volume.aws_elastic_block_store) is not None:
        return Disk(("ebs", ebs.volume_id), ebs.read_only, shares_read_only=False)
    if (iscsi := volume.iscsi) is not None:
        return Disk(("iscsi", iscsi.iqn), iscsi.read_only)
    if (rbd := volume.rbd) is not None:
        return Disk(("rbd", rbd.pool, rbd.image), rbd.read_only, monitors=frozenset(rbd.monitors))
    return None


def any_conflict(wanted: Iterable[Disk], others: Iterable[PodInfo]) -> bool:
    """Whether some pod of ``others`` has a disk that the wanted ones cannot be beside."""
    wanted = tuple(wanted)
    return any(mine.conflicts_with(theirs) for other in others for theirs in disks_of(other) for mine in wanted)


class DiskUsers:
    """The rows that have pods with a disk, by the disk's key."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: RowsByKey[Hashable] = RowsByKey()

    def add(self, info: PodInfo, row: int) -> None:
        for disk in disks_of(info):
            self._rows.add(disk.key, row)

    def remove(self, info: PodInfo, row: int) -> None:
        for disk in disks_of(info):
            self._rows.remove(disk.key, row)

    def rows_with(self, disks: Iterable[Disk]) -> Collection[int]:
        """Rows where some pod has a disk that may be one of these."""
        return self._rows.having([disk.key for disk in disks])

    def fork(self) -> DiskUsers:
        other = DiskUsers()
        other._rows = self._rows.fork()
        return other

    def items(self) -> Iterator[tuple[Hashable, Mapping[int, int]]]:
        """Key → row → pods' disks there; for comparing with a recount."""
        return self._rows.items()
