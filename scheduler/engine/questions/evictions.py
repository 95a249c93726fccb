"""Pods that have to leave their nodes: the budgets that stand in the way, and the pods created in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.questions.answers import Moved
from scheduler.engine.questions.claims import make_claims_again
from scheduler.engine.questions.trial import Trial
from scheduler.objects.budget import PodDisruptionBudget
from scheduler.objects.meta import ApiObject, controller_of
from scheduler.objects.pod import Pod, PodStatus
from scheduler.objects.selectors import Selector, SelectorError, parse_selector

MIRROR: Final = "kubernetes.io/config.mirror"
DAEMON_SET: Final = "DaemonSet"

AnyObject = TypeVar("AnyObject", bound=ApiObject)


class LeftBehind(Struct, frozen=True):
    """A pod that an eviction would not move: it stays on its node, or ends for good."""

    pod: PodInfo
    node: str
    stays: bool
    why: str
    budgets: tuple[str, ...] = ()
    """The budgets that keep it where it is."""

    def listed(self) -> Moved:
        return Moved(self.pod.key, self.node, self.stays, self.why, self.budgets)


class BudgetInTheWay(Struct):
    """A budget that covers pods to be evicted: ``wanted`` of them, of which ``allowed`` may leave now."""

    key: str
    selector: Selector
    namespace: str
    allowed: int
    wanted: int = 0
    blocked: int = 0
    """Pods that stay, since the budget allows none."""

    def covers(self, info: PodInfo) -> bool:
        return info.namespace == self.namespace and self.selector.matches(info.labels)


class Evictions:
    """The evictions of one question. Budgets count over all of its drains."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._serial = 0
        self.budgets: list[BudgetInTheWay] = []
        for key, written in trial.cache.objects.all_of(PodDisruptionBudget).items():
            budget = _budget(key, written)
            if budget is not None:
                self.budgets.append(budget)

    @property
    def in_the_way(self) -> tuple[BudgetInTheWay, ...]:
        """The budgets that want less than all of the evictions at once."""
        return tuple([budget for budget in self.budgets if budget.wanted > budget.allowed or budget.blocked])

    def drain(self, node: str, evicted: list[tuple[PodInfo, str]], left: list[LeftBehind]) -> None:
        """Evict the pods of a node, budgets observed: a budget that allows none keeps its pods where they are, one that
        allows some lets them go in turns."""
        for info in self._pods_on(node):
            owner = controller_of(info.pod.metadata)
            if owner is not None and owner.kind == DAEMON_SET:
                left.append(LeftBehind(info, node, True, "belongs to a DaemonSet"))
            elif MIRROR in info.pod.metadata.annotations:
                left.append(LeftBehind(info, node, True, "is a static pod"))
            elif not _is_free_to_go(info) and (blocking := self._blocked_by(info)):
                why = "a budget allows no disruption" if len(blocking) == 1 else "more than one budget covers it"
                left.append(LeftBehind(info, node, True, why, tuple([budget.key for budget in blocking])))
            else:
                self._move(info, node, evicted, left)

    def push_off(
        self,
        node: str,
        evicted: list[tuple[PodInfo, str]],
        left: list[LeftBehind],
        concerned: Callable[[PodInfo], bool],
        why: str,
    ) -> None:
        """Pods of a node leave whatever the budgets say. Those of DaemonSets and static ones are not created again."""
        for info in self._pods_on(node):
            if not concerned(info):
                continue
            owner = controller_of(info.pod.metadata)
            if MIRROR in info.pod.metadata.annotations or (owner is not None and owner.kind == DAEMON_SET):
                self._trial.remove(info)
                left.append(LeftBehind(info, node, False, why))
            else:
                self._move(info, node, evicted, left)

    def again(self, info: PodInfo) -> PodInfo | None:
        """The pod that its controller creates in place of one that is gone; None if it has no controller."""
        if controller_of(info.pod.metadata) is None:
            return None
        self._serial += 1
        return created_again_in(self._trial.cache, info, f"what-if-again-{self._serial}-{info.uid}")

    def _pods_on(self, node: str) -> list[PodInfo]:
        row = self._trial.cache.table.row(node)
        return [] if row is None else list(self._trial.cache.table.pods[row].values())

    def _blocked_by(self, info: PodInfo) -> list[BudgetInTheWay]:
        """The budgets for which the API server refuses to evict the pod until something changes."""
        covering = [budget for budget in self.budgets if budget.covers(info)]
        for budget in covering:
            budget.wanted += 1
        blocking = covering if len(covering) > 1 else [budget for budget in covering if budget.allowed <= 0]
        for budget in blocking:
            budget.blocked += 1
        return blocking

    def _move(self, info: PodInfo, node: str, evicted: list[tuple[PodInfo, str]], left: list[LeftBehind]) -> None:
        self._trial.remove(info)
        if info.is_terminating:
            left.append(LeftBehind(info, node, False, "is being deleted"))
            return
        replacement = self.again(info)
        if replacement is None:
            left.append(LeftBehind(info, node, False, "has no controller that would create it again"))
        else:
            evicted.append((replacement, node))


def created_again(info: PodInfo, uid: str) -> PodInfo:
    """A new pod from the same template, waiting."""
    pod = info.pod
    metadata = msgspec.structs.replace(pod.metadata, uid=uid, resource_version="", deletion_timestamp=None)
    spec = msgspec.structs.replace(pod.spec, node_name="")
    status = PodStatus(phase="Pending", resource_claim_statuses=pod.status.resource_claim_statuses)
    return PodInfo(Pod(metadata=metadata, spec=spec, status=status))


def created_again_in(cache: ClusterCache, old: PodInfo, uid: str) -> PodInfo:
    """As ``created_again``, and in this fork the claims that were made for the old pod are made for the new one."""
    return make_claims_again(cache, old, created_again(old, uid))


def _is_free_to_go(info: PodInfo) -> bool:
    """Whether the API server evicts the pod whatever the budgets say: it does not run yet, or is being deleted."""
    return info.is_terminating or info.pod.status.phase == "Pending"


def with_own_name(known: AnyObject, name: str) -> AnyObject:
    """A copy of an object without namespace, under another name and UID."""
    metadata = msgspec.structs.replace(
        known.metadata, name=name, uid=f"what-if-{name}", resource_version="", deletion_timestamp=None
    )
    return msgspec.structs.replace(known, metadata=metadata)


def _budget(key: str, written: PodDisruptionBudget) -> BudgetInTheWay | None:
    try:
        selector = parse_selector(written.spec.selector)
    except SelectorError:
        return None
    if selector.selects_nothing:
        return None
    return BudgetInTheWay(key, selector, written.namespace, written.status.disruptions_allowed)
