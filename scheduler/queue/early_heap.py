"""A heap of pods in back-off after a rejection, from which those that an attempt may place are taken early.

A pod is taken early so that the scheduler is not idle while a pod might fit. An attempt is useless if one of an equal
pod has just failed in the same state of the cluster: after an event that wakes a thousand pods of one template without
making room, one of them is tried. The others are skipped until the cluster changes or their back-off ends.
kube-scheduler 1.36 tries all of them, one after the other.

Nor is a change worth an attempt that helps none of them: while the pod that was tried waits for an event that its hints
call helpful, the others would be rejected as it was. So bindings, and nodes that do not concern them, cost no attempt.
Hints look at a pod's own claim, and an event of it may help this pod alone; but then its claim says something else than
those of the others, and it is no longer one of their class. One behind others is found out when its back-off ends.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.sort_keys import SortKey
from scheduler.queue.pod_heap import Entry, Order, PodHeap, Ranked
from scheduler.queue.queued_pod import QueuedPod

_SLACK = 64

Waits = Callable[[QueuedPod], bool]
"""Whether no event since the pod's last attempt may help it: it is in the pool, and no gate holds it back."""

ClassOf = Callable[[QueuedPod], Hashable]
"""Attempts of pods of one class end alike while the cluster is the same."""


class _Class:
    """Pods of one class. ``front``: the serial of the pod under which the class is found among the others, 0 = it is
    not to be found. ``failed_at``: the state of the cluster in which an attempt of one of them found no node.
    ``witness``: the pod of that attempt, with the attempt's number and the pod as it was then, where all that could
    help any pod of the class is an event that moves this one; None for the pod where its class hangs on claims, too."""

    __slots__ = ("count", "failed_at", "front", "is_aside", "key", "ranked", "witness")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.count = 0
        self.ranked: list[Ranked] = []
        self.front = 0
        self.failed_at: Hashable = None
        self.is_aside = False
        self.witness: tuple[QueuedPod, int, PodInfo | None] | None = None

    def put(self, ranked: Ranked) -> None:
        heappush(self.ranked, ranked)
        if len(self.ranked) > 2 * self.count + _SLACK:
            self.ranked = [each for each in self.ranked if each[3].record is not None]
            heapify(self.ranked)

    def head(self) -> Ranked | None:
        """The first pod's place in the order; None without one."""
        while self.ranked:
            if self.ranked[0][3].record is not None:
                return self.ranked[0]
            heappop(self.ranked)
        return None


def _waits_no_pod(_record: QueuedPod) -> bool:
    return False


_Front = tuple[SortKey, int, int, Entry, _Class]


class EarlyHeap(PodHeap):
    """A heap in two orders: of all pods, and of those that are not certain to be rejected again.

    Only the first pod of each class stands for it in the second. A class is set aside when it is found to have failed
    in the present state of the cluster, so at most as many as there were attempts in that state, and comes back with
    the next state: both cost little beside the attempts.
    """

    __slots__ = ("_aside", "_class_by_key", "_class_of", "_classes", "_fronts", "_state")

    def __init__(self, order: Order, class_of: ClassOf) -> None:
        super().__init__(order)
        self._class_of = class_of
        self._classes: dict[Hashable, _Class] = {}
        self._class_by_key: dict[str, _Class] = {}
        self._fronts: list[_Front] = []
        """One entry for each class, under the serial of its front; those under others are out of date."""
        self._aside: list[_Class] = []
        self._state: Hashable = None

    def put(self, record: QueuedPod) -> Entry:
        self._leave(record.key)
        entry = super().put(record)
        key = self._class_of(record)
        of = self._classes.get(key)
        if of is None:
            of = self._classes[key] = _Class(key)
        of.count += 1
        of.put(entry.ranked)
        self._class_by_key[record.key] = of
        head = of.head()
        if not of.is_aside and head is not None and head[2] == entry.serial:
            self._stand(of, head)
        return entry

    def remove(self, key: str) -> QueuedPod | None:
        self._leave(key)
        return super().remove(key)

    def take(self) -> QueuedPod | None:
        record = super().take()
        if record is not None:
            self._leave(record.key)
        return record

    def take_early(self, state: Hashable, waits: Waits = _waits_no_pod) -> QueuedPod | None:
        """Removes and returns the first pod that may be placed in this state of the cluster; None if there is none.
        Equal states, except None, promise equal answers."""
        if state != self._state:
            self._state = state
            aside, self._aside = self._aside, []
            for of in aside:
                of.is_aside = False
                self._stand(of, of.head())
        while self._fronts:
            of, serial = self._fronts[0][4], self._fronts[0][2]
            head = of.head()
            if of.front != serial or head is None:
                heappop(self._fronts)
            elif head[2] != serial:
                heappop(self._fronts)
                self._stand(of, head)
            elif state is not None and (of.failed_at == state or self._is_witnessed(of, waits)):
                if of.failed_at != state and self._is_filed_wrongly(of, head):
                    continue
                heappop(self._fronts)
                of.front, of.is_aside = 0, True
                self._aside.append(of)
            else:
                record = head[3].record
                return self.remove(record.key) if record is not None else None
        return None

    def _is_witnessed(self, of: _Class, waits: Waits) -> bool:
        """Whether nothing has happened that may help a pod of the class since one of them was tried."""
        if of.witness is None:
            return False
        record, attempts, info = of.witness
        is_still_one = record.attempts == attempts and waits(record)
        if is_still_one and (record.info is info or self._class_of(record) == of.key):
            return True
        of.witness = None
        return False

    def _is_filed_wrongly(self, of: _Class, head: Ranked) -> bool:
        """Whether the first pod of a class is of another one now, since its claims have changed; it is filed there."""
        record = head[3].record
        if of.witness is None or of.witness[2] is not None or record is None or self._class_of(record) == of.key:
            return False
        self.put(record)
        return True

    def failed(self, record: QueuedPod, state: Hashable, has_claims: bool = False) -> None:
        """Record that in this state of the cluster an attempt at this pod, which is not here, found no node; nor would
        one at the others of its class, nor in later states, as long as it waits. ``has_claims``: its class depends on
        its claims, too, and not on the pod alone."""
        of = self._classes.get(self._class_of(record)) if self._classes else None
        if of is not None:
            of.failed_at = state
            of.witness = (record, record.attempts, None if has_claims else record.info)

    def forget_failures(self) -> None:
        """Forget which classes found no node: attempts may answer differently in the same state of the cluster."""
        for of in self._classes.values():
            of.failed_at = of.witness = None
        self._state = None
        aside, self._aside = self._aside, []
        for of in aside:
            of.is_aside = False
            self._stand(of, of.head())

    def _leave(self, key: str) -> None:
        of = self._class_by_key.pop(key, None)
        if of is None:
            return
        of.count -= 1
        if not of.count:
            del self._classes[of.key]
            of.front = 0

    def _stand(self, of: _Class, head: Ranked | None) -> None:
        if head is None:
            return
        of.front = head[2]
        heappush(self._fronts, (*head, of))
        if len(self._fronts) > 2 * len(self._classes) + _SLACK:
            self._fronts = [each for each in self._fronts if each[4].front == each[2]]
            heapify(self._fronts)
