"""Pods that wait for victims to be gone.

Tried any earlier, such a pod finds its room still taken, and all it does is to say so to the API server. So where its
removal has ended well, it is tried in the moment in which the last of its victims is gone; and until then it does not
hear of other pods' victims, whose room is not for it (by the reference each of them would wake it). Other events wake
it as they do any pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scheduler.cluster.pod_info import PodInfo
from scheduler.preemption.eligibility import is_dying_victim
from scheduler.queue.queued_pod import QueuedPod


class AwaitedVictims:
    """``nominated_node``: of a pod, by UID; "" for none."""

    def __init__(self, nominated_node: Callable[[str], str]) -> None:
        self._nominated_node = nominated_node
        self._left: dict[str, tuple[str, set[str]]] = {}
        """UID of a preemptor whose removal has ended → the node, and the UIDs of its victims that are still there."""
        self._preemptors: dict[str, set[str]] = {}
        """The other way round."""
        self._waiting: set[str] = set()
        """UIDs of pods whose room is on their nominated node, once victims there are gone."""

    # --- until all are gone -------------------------------------------------------------------------------------------

    def await_end(self, preemptor_uid: str, node: str, victims: Iterable[str]) -> None:
        """``victims``: UIDs of pods that terminate; at least one."""
        self._stop_awaiting(preemptor_uid)
        left = set(victims)
        self._left[preemptor_uid] = node, left
        for uid in left:
            self._preemptors.setdefault(uid, set()).add(preemptor_uid)

    def gone(self, uid: str) -> set[str]:
        """A pod is gone. The nodes on which preemptors wait for nobody any more."""
        self.forget(uid)
        ready = set()
        for preemptor_uid in self._preemptors.pop(uid, ()):
            node, left = self._left[preemptor_uid]
            left.discard(uid)
            if not left:
                del self._left[preemptor_uid]
                ready.add(node)
        return ready

    def take_all(self) -> set[str]:
        """The nodes on which preemptors wait for their victims; none does afterwards."""
        nodes = {node for node, _ in self._left.values()}
        self._left.clear()
        self._preemptors.clear()
        return nodes

    def forget(self, preemptor_uid: str) -> None:
        """The pod is gone, or removes others."""
        self._waiting.discard(preemptor_uid)
        self._stop_awaiting(preemptor_uid)

    def _stop_awaiting(self, preemptor_uid: str) -> None:
        _, left = self._left.pop(preemptor_uid, (None, ()))
        for uid in left:
            preemptors = self._preemptors[uid]
            preemptors.discard(preemptor_uid)
            if not preemptors:
                del self._preemptors[uid]

    # --- whom a victim's end concerns ---------------------------------------------------------------------------------

    def waits(self, uid: str) -> None:
        """The pod's last attempt has ended so."""
        self._waiting.add(uid)

    def is_tried(self, uid: str) -> None:
        """The next attempt says anew what the pod waits for."""
        self._waiting.discard(uid)

    def concerned_by(self, gone: PodInfo, was_evicted: bool) -> Callable[[QueuedPod], bool] | None:
        """Who should hear that this pod has left its node; None = anybody. ``was_evicted``: victims leave so."""
        if not self._waiting or not is_dying_victim(gone, was_evicted):
            return None
        waiting, nominated_node, its_own = self._waiting, self._nominated_node, ("", gone.node_name)
        return lambda record: (uid := record.info.uid) not in waiting or nominated_node(uid) in its_own
