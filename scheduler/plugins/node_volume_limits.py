"""NodeVolumeLimits: no node gets more volumes of a CSI driver than it can attach.

The limit is what the node's CSINode says of the driver (``allocatable.count``); without one there is no limit. Volumes
of all pods on the node count, and those that are still attached to it without a pod; claims whose volume is yet to be
made count as one of the driver that will make it. In-tree volumes of AWS EBS, GCE PD, Azure Disk, Cinder and Portworx
count as volumes of their CSI drivers, whether or not the CSINode lists them as migrated. Refuses with
``node(s) exceed max volume count``; preemption may help. No arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scheduler.cluster.volumes.csi import Attachable, ForeignClaim, MissingClaim, attachable_volumes, needs_attaching
from scheduler.cluster.volumes.migration import CSI_DRIVERS, in_tree_plugin
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin, Rows, State, Verdicts
from scheduler.messages.status import SKIP, Refusal, Skip, failure, unresolvable, unschedulable
from scheduler.plugins.volume_hints import its_claim_changed

if TYPE_CHECKING:
    from scheduler.cluster.pod_info import PodInfo
    from scheduler.cluster.view import View
    from scheduler.objects.storage import CSINode, VolumeAttachment

TOO_MANY = unschedulable("node(s) exceed max volume count")


@dataclass(frozen=True, slots=True)
class NewVolumes(State):
    """What the pod would have attached to its node; or why that cannot be told."""

    volumes: tuple[Attachable, ...]
    unknown: Refusal | None = None


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin):
    """Reference plugins.md §3.14, volumes.md §6."""

    name = "NodeVolumeLimits"

    def concerns(self, pod: PodInfo) -> bool:
        return needs_attaching(pod)

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip | Refusal:
        if not needs_attaching(pod):
            return SKIP
        try:
            return NewVolumes(tuple(dict.fromkeys(attachable_volumes(pod, view.objects))))
        except MissingClaim as error:
            return NewVolumes((), unresolvable(str(error)))
        except ForeignClaim as error:
            return NewVolumes((), failure(str(error)))

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        assert isinstance(state, NewVolumes)
        table = view.table
        if state.unknown is not None:
            return Verdicts(np.ones(len(table.exists[rows]), np.int16), (state.unknown,))
        if not state.volumes:
            return None
        if not view.volumes.is_of(table):
            full = self._full_rows_one_by_one(state, view, rows)
        else:
            full = self._full_rows(state, view)[rows]
        return Verdicts(full.astype(np.int16), (TOO_MANY,)) if full.any() else None

    @staticmethod
    def _full_rows(state: NewVolumes, view: View) -> npt.NDArray[np.bool_]:
        """All rows, by the drivers' columns."""
        attached = view.volumes.attached
        full = np.zeros(view.table.size, np.bool_)
        by_driver: dict[str, list[str]] = {}
        for each in state.volumes:
            by_driver.setdefault(each.driver, []).append(each.handle)
        for driver, handles in by_driver.items():
            limits = attached.limits(driver)
            if limits is None:
                continue
            new = np.full(view.table.size, len(handles), np.int64)
            for handle in handles:
                for row in attached.rows_with(driver, handle):
                    new[row] -= 1
            full |= (limits >= 0) & (new > 0) & (attached.counts(driver) + new > limits)
        return full

    @staticmethod
    def _full_rows_one_by_one(state: NewVolumes, view: View, rows: Rows) -> npt.NDArray[np.bool_]:
        """The rows asked, of a table whose pods are not the cluster's."""
        attached = view.volumes.attached
        table = view.table
        return np.array(
            [
                not attached.account(table.names[row], table.pods[row].values()).has_room_for(state.volumes)
                for row in np.arange(table.size)[rows].tolist()
            ],
            np.bool_,
        )

    def events(self) -> tuple[EventRegistration, ...]:
        return _EVENTS


def _limit_grew(_pod: PodInfo, old: CSINode | None, new: CSINode | None) -> Hint:
    if old is None or new is None:
        return Hint.QUEUE
    before = old.limits
    grew = any(limit > before.get(driver, 0) for driver, limit in new.limits.items())
    return Hint.QUEUE if grew else Hint.SKIP


def _attached_pod_left(_pod: PodInfo, old: PodInfo | None, _new: PodInfo | None) -> Hint:
    return Hint.QUEUE if old is not None and _frees_an_attachment(old) else Hint.SKIP


def _frees_an_attachment(other: PodInfo) -> bool:
    return bool(other.node_name or other.pod.status.nominated_node_name) and needs_attaching(other)


def _detached(pod: PodInfo, old: VolumeAttachment | None, _new: VolumeAttachment | None) -> Hint:
    if old is None:
        return Hint.SKIP
    for volume in pod.pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return Hint.QUEUE
        plugin = in_tree_plugin(volume)
        if plugin and CSI_DRIVERS[plugin] == old.spec.attacher:
            return Hint.QUEUE
    return Hint.SKIP


_EVENTS = (
    EventRegistration(ClusterEvent(Resource.CSI_NODE, Action.ADD | Action.UPDATE), _limit_grew),
    EventRegistration(ClusterEvent(Resource.POD, Action.DELETE), _attached_pod_left, _frees_an_attachment),
    EventRegistration(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD), its_claim_changed),
    EventRegistration(ClusterEvent(Resource.VOLUME_ATTACHMENT, Action.DELETE), _detached),
)
