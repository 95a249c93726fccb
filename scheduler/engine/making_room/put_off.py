"""Pods whose preemption is put off: as many removals run as may, or a budget keeps the victims."""

from __future__ import annotations

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.internal import PodsReady
from scheduler.framework.post_filter import PutOff, Room, WaitForBudget


class PutOffPods:
    """Pods that were put off, by what they wait for, in the order in which they began to wait."""

    def __init__(self) -> None:
        self._for_removals: dict[str, PodInfo] = {}
        self._for_budgets: dict[str, PodInfo] = {}

    def decided(self, pod: PodInfo, room: Room | None) -> None:
        """Record what an attempt at the pod has decided."""
        for pods, kind in ((self._for_removals, PutOff), (self._for_budgets, WaitForBudget)):
            if isinstance(room, kind):
                # One that waits already keeps its turn.
                pods[pod.uid] = pod
            else:
                pods.pop(pod.uid, None)

    def gone(self, uid: str) -> None:
        """Forget a pod that no longer waits for a node."""
        self._for_removals.pop(uid, None)
        self._for_budgets.pop(uid, None)

    def removal_ended(self, *, is_last: bool, has_failed: bool) -> list[PodsReady]:
        """The pods to be tried when a removal has ended: one for the free place; all with the last removal, since some
        may have found room elsewhere meanwhile. Victims that stay after all no longer count against their budgets."""
        free = list(self._for_removals)[: None if is_last else 1]
        ready = [PodsReady((self._for_removals.pop(uid).key,)) for uid in free]
        return [*ready, *self.budget_allows_more()] if has_failed else ready

    def budget_allows_more(self) -> list[PodsReady]:
        """The pods to be tried when a budget may allow more."""
        if not self._for_budgets:
            return []
        keys = tuple([pod.key for pod in self._for_budgets.values()])
        self._for_budgets.clear()
        return [PodsReady(keys)]
