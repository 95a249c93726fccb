"""Disruption budgets: which of a node's potential victims would violate one (docs/kube-scheduler/preemption.md §4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.budget import PodDisruptionBudget
from scheduler.objects.selectors import Selector, SelectorError, parse_selector


class Budget(Struct, frozen=True):
    """A budget that some pod may be under. ``allowed``: disruptions it still allows, can be negative."""

    namespace: str
    selector: Selector
    allowed: int
    granted: Set[str]
    """Names of pods whose disruption is paid for already."""

    def covers(self, info: PodInfo) -> bool:
        return info.namespace == self.namespace and bool(info.labels) and self.selector.matches(info.labels)


class Budgets:
    """All budgets at one moment. Each node is judged by a count of its own: what is allowed, is allowed on each."""

    __slots__ = ("_by_namespace", "all", "paid")

    def __init__(self, budgets: Iterable[Budget], paid: Set[str] = frozenset()) -> None:
        self.all = tuple(budgets)
        self.paid = paid
        """UIDs of pods that were subtracted from what is allowed and so don't count again."""
        self._by_namespace: dict[str, list[tuple[int, Budget]]] = {}
        for index, budget in enumerate(self.all):
            self._by_namespace.setdefault(budget.namespace, []).append((index, budget))

    def split(self, victims: Sequence[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """(pods whose removal violates a budget, the others), in the order given.

        ``victims``: most important first, since the most important ones use up what is allowed. A pod takes from every
        budget that it is under, also if one of them has nothing left.
        """
        if not self.all:
            return [], list(victims)
        allowed = [budget.allowed for budget in self.all]
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for info in victims:
            violates = False
            for index in self.charged(info):
                allowed[index] -= 1
                violates |= allowed[index] < 0
            (violating if violates else others).append(info)
        return violating, others

    def charged(self, info: PodInfo) -> list[int]:
        """Indices into ``all`` of the budgets that the pod's removal takes from."""
        return [index for index in self.covering(info) if self.charges(index, info)]

    def covering(self, info: PodInfo) -> tuple[int, ...]:
        """Indices of all budgets that select the pod."""
        budgets = self._by_namespace.get(info.namespace)
        return () if budgets is None else tuple([index for index, budget in budgets if budget.covers(info)])

    def charges(self, index: int, info: PodInfo) -> bool:
        """Whether a budget that covers the pod has yet to pay for it."""
        return info.uid not in self.paid and info.name not in self.all[index].granted


def usable_budgets(objects: Mapping[str, PodDisruptionBudget], victims_in_flight: Sequence[PodInfo] = ()) -> Budgets:
    """The budgets that can match a pod. An absent, empty or invalid selector matches none here, although evictions
    through the API take an empty one for all.

    ``victims_in_flight``: pods on their way out that the status of the budgets does not count yet.
    """
    budgets: list[Budget] = []
    leaving: dict[str, list[PodInfo]] = {}
    for info in victims_in_flight:
        leaving.setdefault(info.namespace, []).append(info)
    for written in objects.values():
        try:
            selector = parse_selector(written.spec.selector)
        except SelectorError:
            continue
        if selector.is_everything or selector.selects_nothing:
            continue
        granted = written.status.disrupted_pods.keys()
        budget = Budget(written.namespace, selector, written.status.disruptions_allowed, granted)
        unseen = sum(budget.covers(info) and info.name not in granted for info in leaving.get(written.namespace, ()))
        if unseen:
            budget = Budget(budget.namespace, selector, budget.allowed - unseen, granted)
        budgets.append(budget)
    return Budgets(budgets, frozenset(info.uid for info in victims_in_flight))
