"""The room of nominations that have ended: it is announced like that of a pod that has left its node.

Only to pods of at most the nominated pod's priority, since it did not count for others. A nomination that the pod's
status names ends with the watch's word that the status has changed. One that the watch has never shown has no such end:
the writer may have folded the write that cleared it into the one that set it.
"""

from __future__ import annotations

from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.messages.now import Now
from scheduler.queue.cluster_events import ASSIGNED_POD_DELETE
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.queue.waking import OnlyIf


class NominatedRoom(Struct, frozen=True):
    """Tells the queue which room is free because a pod's nomination has ended."""

    _queue: SchedulingQueue

    def status_changed(self, old: PodInfo, new: PodInfo | None, now: Now) -> None:
        """The watch shows that the pod's status names another node than before, or none, or that the pod is gone."""
        node = old.pod.status.nominated_node_name
        if node and (new is None or new.pod.status.nominated_node_name != node):
            self._queue.move_all(ASSIGNED_POD_DELETE, old, None, now, _at_most(old.priority))

    def ended(self, pod: PodInfo, node: str, now: Now) -> None:
        """Announce the room of a pod that no longer counts on this node."""
        self._queue.move_all(ASSIGNED_POD_DELETE, pod.on_node(node), None, now, _at_most(pod.priority, but=pod.uid))

    def decided(self, pod: PodInfo, before: str, after: str, now: Now) -> None:
        """An attempt has decided about the nomination. ``pod``: as last observed; "" is no node."""
        if before and after != before and pod.pod.status.nominated_node_name != before:
            self.ended(pod, before, now)
            self._queue.finish_waking()


def _at_most(priority: int, but: str = "") -> OnlyIf:
    """``but``: the UID of a pod that is left out: it did not count for itself."""
    return OnlyIf(lambda record: record.info.priority <= priority and record.uid != but)
