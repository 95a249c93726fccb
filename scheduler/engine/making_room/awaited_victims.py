"""Pods that wait for victims to be gone: the removals that are in the state DYING, found by their victims.

An attempt before the victims are gone would fail again. So after a successful removal the pod is tried when its last
victim is gone; until then neither victims of other preemptors nor its own earlier ones wake it (in kube-scheduler each
of them does). Other events wake it like any pod. After an attempt caused by such an event fewer victims may be enough,
so each victim on its node wakes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.machine import ReadsNominations
from scheduler.engine.making_room.removal import Removal, RemovalState
from scheduler.preemption.eligibility import is_dying_victim
from scheduler.queue.queued_pod import QueuedPod


class AwaitedVictims:
    """The preemptors that wait for victims, and the victims that are still there."""

    def __init__(self, nominator: ReadsNominations) -> None:
        self._nominator = nominator
        self._left: dict[str, tuple[Removal, set[str]]] = {}
        """UID of the preemptor of a removal that is DYING → the UIDs of its victims that are still there."""
        self._preemptors: dict[str, dict[str, None]] = {}
        """The other way round, in the order in which they began to wait."""
        self._waiting: set[str] = set()
        """UIDs of pods that will have room on their nominated node once its victims are gone."""
        self._untried: set[str] = set()
        """UIDs of those that have not been tried since their victims were chosen: each victim is needed."""
        self._need_all: set[str] = set()
        """UIDs of the untried pods of removals that are DYING."""

    # --- until all are gone -------------------------------------------------------------------------------------------

    def await_end(self, removal: Removal, victims: Iterable[str]) -> None:
        """Wait until these pods, which terminate, are gone. ``victims``: their UIDs, at least one."""
        uid = removal.preemptor.uid
        self._stop_awaiting(uid)
        removal.become(RemovalState.DYING)
        left = set(victims)
        self._left[uid] = removal, left
        for victim in left:
            self._preemptors.setdefault(victim, {})[uid] = None
        self._need_all.update([pod.uid for pod in removal.preemptor.pods if pod.uid in self._untried])

    def gone(self, uid: str) -> list[str]:
        """Record that a pod is gone; returns the nodes whose removals that completes."""
        self.forget(uid)
        ready: list[str] = []
        for preemptor_uid in self._preemptors.pop(uid, ()):
            removal, left = self._left[preemptor_uid]
            left.discard(uid)
            if not left:
                del self._left[preemptor_uid]
                self._is_over(removal)
                ready += removal.preemptor.nodes
        return list(dict.fromkeys(ready))

    def take_all(self) -> list[str]:
        """Clear and return the nodes on which preemptors wait for their victims."""
        removals = [removal for removal, _ in self._left.values()]
        self._left.clear()
        self._preemptors.clear()
        for removal in removals:
            self._is_over(removal)
        return list(dict.fromkeys(node for removal in removals for node in removal.preemptor.nodes))

    def forget(self, preemptor_uid: str) -> None:
        """Drop a preemptor that is gone, or that removes other pods."""
        self.waits_no_more(preemptor_uid)
        self._stop_awaiting(preemptor_uid)

    def _stop_awaiting(self, preemptor_uid: str) -> None:
        found = self._left.pop(preemptor_uid, None)
        if found is None:
            return
        removal, left = found
        self._is_over(removal)
        for uid in left:
            preemptors = self._preemptors[uid]
            preemptors.pop(preemptor_uid, None)
            if not preemptors:
                del self._preemptors[uid]

    def _is_over(self, removal: Removal) -> None:
        removal.become(RemovalState.OVER)
        self._need_all.difference_update([pod.uid for pod in removal.preemptor.pods])

    # --- pods concerned by a victim's end -----------------------------------------------------------------------------

    def waits(self, uid: str) -> None:
        """Record that the pod waits for victims after its last attempt."""
        self._waiting.add(uid)

    def waits_for_all(self, uid: str) -> None:
        """Record that victims have been chosen for the pod, which begins to wait for all of them."""
        self._waiting.add(uid)
        self._untried.add(uid)

    def waits_no_more(self, uid: str) -> None:
        """Record that an attempt of the pod has ended, which decides what it waits for from now on."""
        if uid in self._waiting:  # the other two are subsets of it
            for uids in (self._waiting, self._untried, self._need_all):
                uids.discard(uid)

    def concerned_by(self, gone: PodInfo, was_evicted: bool) -> ConcernedByVictim | None:
        """The pods to notify that this one has left its node; None = all. ``was_evicted``: as victims leave."""
        if not self._waiting or not is_dying_victim(gone, was_evicted):
            return None
        return ConcernedByVictim(self._waiting, self._need_all, self._nominator, gone.node_name)


class ConcernedByVictim(Struct, frozen=True):
    """The waiting pods to notify of a victim that left ``node``: all but those that are nominated to another node, or
    wait for further victims. A pod that has lost its nomination is notified of every victim."""

    waiting: Set[str]
    need_all: Set[str]
    """The waiting pods that are tried only when all their victims are gone."""
    nominator: ReadsNominations
    node: str

    def __call__(self, record: QueuedPod) -> bool:
        uid = record.uid
        if uid not in self.waiting:
            return True
        node = self.nominator.nominated_node(uid)
        return not node or (node == self.node and uid not in self.need_all)

    def may_concern(self, members: Mapping[str, QueuedPod]) -> bool:
        """Whether any of these pods may be notified. Only a group of one is looked at: preemptors that are unlike all
        others are such groups."""
        return len(members) != 1 or all(map(self, members.values()))

    def among(self, members: Mapping[str, QueuedPod]) -> Iterable[QueuedPod]:
        """The pods to notify, as of ``Only``. A thousand preemptors of one template that all wait elsewhere are not
        asked one by one."""
        uids = members.keys()
        if uids <= self.waiting and uids <= self.nominator.uids:
            there = [info.uid for info in self.nominator.pods_for_node(self.node) if info.uid in members]
            if len(there) < 2:
                return [members[uid] for uid in there if uid not in self.need_all]
        return filter(self, members.values())
