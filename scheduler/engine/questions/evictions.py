"""Pods that have to leave their nodes: the budgets that stand in the way, and the pods created in their place."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator
from itertools import count
from typing import Final, TypeVar

import msgspec
from msgspec import Struct, field

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.questions.answers import Moved
from scheduler.engine.questions.claims import make_claims_again
from scheduler.engine.questions.trial import Trial
from scheduler.objects.budget import ALWAYS_ALLOW, PodDisruptionBudget
from scheduler.objects.meta import ApiObject, controller_of
from scheduler.objects.pod import Pod, PodStatus
from scheduler.objects.selectors import Selector, SelectorError, parse_selector

MIRROR: Final = "kubernetes.io/config.mirror"
DAEMON_SET: Final = "DaemonSet"
_AT_ONCE: Final = 100
"""Pods that leave in one step of a question."""

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


class Evicted(Struct, frozen=True):
    """A pod that is created in place of one that left ``node``."""

    pod: PodInfo
    node: str
    after_seconds: int = 0
    """How long the pod that left was tolerating the taint that evicts it."""


class BudgetInTheWay(Struct):
    """A budget that covers pods to be evicted: ``wanted`` of them, of which ``allowed`` may leave now."""

    key: str
    selector: Selector
    namespace: str
    allowed: int
    lets_unhealthy_go: bool
    """Pods that are not ready may leave even if it allows no disruption."""
    wanted: int = 0
    blocked: int = 0
    """Pods that stay, since the budget allows none."""
    turns: deque[tuple[PodInfo, str]] = field(default_factory=deque)
    """Pods that are still to leave, with their nodes."""
    missing: dict[str, None] = field(default_factory=dict)
    """UIDs of the pods created in place of ready ones that left or, where none is created, of those that left. Each
    that has no node leaves one disruption less that the budget allows."""

    def covers(self, info: PodInfo) -> bool:
        return info.namespace == self.namespace and self.selector.matches(info.labels)


class Evictions:
    """The evictions of one question. Budgets count over all of its drains, and over all pods that leave for another
    reason."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._serial = 0
        self._counted_by: dict[str, list[BudgetInTheWay]] = {}
        """By the UID of a pod that stands in for one that left: the budgets that count it."""
        self._order = count()
        self._later: list[tuple[int, int, PodInfo, str]] = []
        """A heap: the seconds after which a pod leaves, its place among those of that time, the pod, and its node."""
        self.in_turns: set[str] = set()
        """UIDs of pods in place of those that left in turns, whose order is left to chance."""
        self.budgets: list[BudgetInTheWay] = []
        for key, written in trial.cache.objects.all_of(PodDisruptionBudget).items():
            budget = _budget(key, written)
            if budget is not None:
                self.budgets.append(budget)

    @property
    def in_the_way(self) -> tuple[BudgetInTheWay, ...]:
        """The budgets that want less than all of the evictions at once."""
        return tuple([budget for budget in self.budgets if budget.wanted > budget.allowed or budget.blocked])

    @property
    def still_to_leave(self) -> int:
        """Pods whose turn or time has not come."""
        return sum([len(budget.turns) for budget in self.budgets]) + len(self._later)

    def drain(self, node: str, evicted: list[Evicted], left: list[LeftBehind]) -> None:
        """Evict the pods of a node, budgets observed: a budget that allows none keeps its pods where they are, one that
        allows some lets them go in turns, which ``take_turns`` takes."""
        for info in self._pods_on(node):
            owner = controller_of(info.pod.metadata)
            if owner is not None and owner.kind == DAEMON_SET:
                left.append(LeftBehind(info, node, True, "belongs to a DaemonSet"))
            elif MIRROR in info.pod.metadata.annotations:
                left.append(LeftBehind(info, node, True, "is a static pod"))
            elif _is_free_to_go(info):
                self._move(info, node, evicted, left)
            else:
                self._evict(info, node, evicted, left)

    def push_off(
        self,
        node: str,
        evicted: list[Evicted],
        left: list[LeftBehind],
        seconds_left: Callable[[PodInfo], int | None],
        why: str,
    ) -> None:
        """Pods of a node leave whatever the budgets say, now or after ``seconds_left``; None: they stay."""
        for info in self._pods_on(node):
            seconds = seconds_left(info)
            if seconds == 0:
                self._push_off(info, node, evicted, left, why)
            elif seconds is not None:
                heapq.heappush(self._later, (seconds, next(self._order), info, node))

    def take_turns(self, evicted: list[Evicted], left: list[LeftBehind]) -> Generator[None, None, bool]:
        """Evict as many of the pods that leave in turns as the budgets allow by now, where a pod that has found a node
        counts as ready again. Returns whether there were any."""
        found = 0
        for budget in self.budgets:
            if not budget.turns:
                continue
            budget.missing = {uid: None for uid in budget.missing if not self._is_placed(uid)}
            while budget.turns and len(budget.missing) < budget.allowed:
                info, node = budget.turns.popleft()
                if not self._is_placed(info.uid):
                    continue  # evicted already, by another edit or for a pod of higher priority
                replacement = self._move(info, node, evicted, left)
                if replacement is not None and budget.wanted > budget.allowed:
                    self.in_turns.add(replacement.uid)
                found += 1
                if found % _AT_ONCE == 0:
                    yield
        return bool(found)

    def next_to_leave(self, evicted: list[Evicted], left: list[LeftBehind]) -> Generator[None, None, bool]:
        """Who leaves once all that left before have been tried: those whose turn it is, else those that tolerate a
        taint no longer. Returns whether there were any."""
        if (yield from self.take_turns(evicted, left)):
            return True
        if not self._later:
            return False
        soonest, number = self._later[0][0], 0
        while self._later and self._later[0][0] == soonest:
            _, _, info, node = heapq.heappop(self._later)
            if self._is_placed(info.uid):
                self._push_off(info, node, evicted, left, f"tolerates the taint for {soonest} s", soonest)
            number += 1
            if number % _AT_ONCE == 0:
                yield
        return True

    def end_turns(self, left: list[LeftBehind]) -> None:
        """The pods whose turn does not come stay."""
        for budget in self.budgets:
            for info, node in budget.turns:
                if self._is_placed(info.uid):
                    budget.blocked += 1
                    left.append(LeftBehind(info, node, True, "the budget is used up", (budget.key,)))
            budget.turns.clear()

    def again(self, info: PodInfo) -> PodInfo | None:
        """The pod that its controller creates in place of one that is gone; None if it has no controller."""
        found = None
        if controller_of(info.pod.metadata) is not None:
            self._serial += 1
            found = created_again_in(self._trial.cache, info, f"what-if-again-{self._serial}-{info.uid}")
        self._count(info, info if found is None else found)
        return found

    def _is_placed(self, uid: str) -> bool:
        return self._trial.cache.placed(uid) is not None

    def _pods_on(self, node: str) -> list[PodInfo]:
        row = self._trial.cache.table.row(node)
        return [] if row is None else list(self._trial.cache.table.pods[row].values())

    def _evict(self, info: PodInfo, node: str, evicted: list[Evicted], left: list[LeftBehind]) -> None:
        """As the API server decides it: now, in turns, or not until something changes."""
        covering = [budget for budget in self.budgets if budget.covers(info)]
        if not covering or (len(covering) == 1 and covering[0].lets_unhealthy_go and not is_healthy(info)):
            self._move(info, node, evicted, left)
            return
        for budget in covering:
            budget.wanted += 1
        if len(covering) == 1 and covering[0].allowed > 0:
            covering[0].turns.append((info, node))
            return
        for budget in covering:
            budget.blocked += 1
        why = "a budget allows no disruption" if len(covering) == 1 else "more than one budget covers it"
        left.append(LeftBehind(info, node, True, why, tuple([budget.key for budget in covering])))

    def _push_off(
        self, info: PodInfo, node: str, evicted: list[Evicted], left: list[LeftBehind], why: str, seconds: int = 0
    ) -> None:
        """Pods of DaemonSets and static ones are not created again."""
        owner = controller_of(info.pod.metadata)
        if MIRROR in info.pod.metadata.annotations or (owner is not None and owner.kind == DAEMON_SET):
            self._trial.remove(info)
            left.append(LeftBehind(info, node, False, why))
        else:
            self._move(info, node, evicted, left, seconds)

    def _move(
        self, info: PodInfo, node: str, evicted: list[Evicted], left: list[LeftBehind], seconds: int = 0
    ) -> PodInfo | None:
        self._trial.remove(info)
        if info.is_terminating:
            left.append(LeftBehind(info, node, False, "is being deleted"))
            return None
        replacement = self.again(info)
        if replacement is None:
            after = f", after {seconds} s" if seconds else ""
            left.append(LeftBehind(info, node, False, f"has no controller that would create it again{after}"))
        else:
            evicted.append(Evicted(replacement, node, seconds))
        return replacement

    def _count(self, gone: PodInfo, in_its_place: PodInfo) -> None:
        """Budgets count a ready pod as disrupted from when it leaves until there is a ready one in its place. One that
        was not ready is not counted, nor is the pod in its place, which may get no further."""
        budgets = self._counted_by.pop(gone.uid, None)
        if budgets is None:
            budgets = [budget for budget in self.budgets if budget.covers(gone)] if is_healthy(gone) else []
        self._counted_by[in_its_place.uid] = budgets
        for budget in budgets:
            budget.missing.pop(gone.uid, None)
            budget.missing[in_its_place.uid] = None


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


def is_healthy(info: PodInfo) -> bool:
    """Whether budgets count the pod as ready; one of which nothing is said to be amiss counts as ready."""
    ready = info.pod.condition("Ready")
    is_started = bool(info.node_name) and not _is_free_to_go(info)
    return is_started and (ready is None or ready.status == "True")


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
    status = written.status
    lets_unhealthy_go = (
        written.spec.unhealthy_pod_eviction_policy == ALWAYS_ALLOW
        or status.current_healthy >= status.desired_healthy > 0
    )
    return BudgetInTheWay(key, selector, written.namespace, status.disruptions_allowed, lets_unhealthy_go)
