"""Victims whose deletion the API server has granted and the watch has not shown yet."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.messages.now import Now
from scheduler.objects.meta import ApiObject, Condition
from scheduler.objects.pod import Pod
from scheduler.objects.timestamps import format_seconds

LOST_SECONDS = 60.0
"""Time for the watch to show a granted deletion."""
BUDGET_SECONDS = 30.0
"""Seconds after which a budget's status is taken to count a victim as gone, even if no change of it was seen."""


class _Leaving(Struct, frozen=True, gc=False):
    """When the deletion was granted, monotonic and as the API's text, and the condition that was written before, if the
    pod had none."""

    granted_at: float
    since: str
    condition: Condition | None


class GrantedDeletions:
    """Victims from the grant of their deletion until the watch shows it, and until budgets count them."""

    __slots__ = ("_leaving", "_shown", "_uncounted", "counted")

    def __init__(self) -> None:
        self._leaving: dict[str, _Leaving] = {}
        """By UID, the victims until the watch shows that they are gone."""
        self._uncounted: dict[str, tuple[float, PodInfo]] = {}
        """UID of each victim until the status of the budgets can be expected to count it → when (monotonic), in that
        order."""
        self._shown: dict[str, str] = {}
        """UID → namespace of each victim that the watch shows leaving before the answer about it has come."""
        self.counted: set[str] = set()
        """UIDs of the victims that the status of the budgets can be expected to count. Read only."""

    def __len__(self) -> int:
        return len(self._leaving)

    def grant(self, victim: PodInfo, budgets: Mapping[str, ApiObject], now: Now) -> None:
        """Record a granted deletion, which the ``budgets`` do not count yet. A pod in whose namespace there is no
        budget is left out: it would be kept until the next preemption for nothing."""
        self.forget_old(now)
        if victim.uid in self.counted:
            return
        if any(budget.metadata.namespace == victim.namespace for budget in budgets.values()):
            self._uncounted[victim.uid] = now.monotonic, victim

    def shown_leaving(self, victim: PodInfo) -> None:
        """Record that the watch shows a victim leaving, about which there is no answer yet."""
        self._shown[victim.uid] = victim.namespace

    def settled(self, uid: str) -> None:
        """The answer about a victim has come."""
        self._shown.pop(uid, None)
        self.counted.discard(uid)

    def leaves(self, uid: str, condition: Condition | None, now: Now) -> None:
        """Record that the pod has this condition and terminates, before the watch shows it."""
        self._leaving[uid] = _Leaving(now.monotonic, format_seconds(now.wall), condition)

    def gone(self, uid: str) -> None:
        self._leaving.pop(uid, None)

    def was_lost(self, pod: Pod, now: Now) -> bool:
        """Whether a deletion was granted some time ago, and the pod, as the API server shows it, does not terminate:
        etcd was restored to an earlier state. It is forgotten then."""
        leaving = self._leaving.get(pod.metadata.uid) if self._leaving else None
        if leaving is None or pod.is_terminating or now.monotonic - leaving.granted_at < LOST_SECONDS:
            return False
        self.gone(pod.metadata.uid)
        return True

    def as_leaving(self, pod: Pod) -> Pod:
        """The pod as the API server has it: an event may be older than the granted deletion of a victim."""
        leaving = self._leaving.get(pod.metadata.uid) if self._leaving else None
        if leaving is None or pod.metadata.deletion_timestamp is not None:
            return pod
        condition, status = leaving.condition, pod.status
        if condition is not None:
            others = [each for each in status.conditions if each.type != condition.type]
            status = msgspec.structs.replace(status, conditions=(*others, condition))
        metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=leaving.since)
        return msgspec.structs.replace(pod, metadata=metadata, status=status)

    def budget_shown(self, namespace: str) -> None:
        """Stop counting the victims of a namespace: the status of a budget there may count them now."""
        for uid in [uid for uid, (_, info) in self._uncounted.items() if info.namespace == namespace]:
            del self._uncounted[uid]
        self.counted.update([uid for uid, of in self._shown.items() if of == namespace])

    def forget_old(self, now: Now) -> None:
        """Drop the victims that every budget's status counts by now."""
        while self._uncounted:
            uid, (since, _) = next(iter(self._uncounted.items()))
            if now.monotonic - since < BUDGET_SECONDS:
                return
            del self._uncounted[uid]

    @property
    def uncounted(self) -> dict[str, PodInfo]:
        """The victims that the budgets do not count as gone yet, by UID."""
        return {uid: info for uid, (_, info) in self._uncounted.items()}
