"""Matching of taints and tolerations (docs/kube-scheduler/plugins.md §2.7)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from scheduler.objects.node import Taint
from scheduler.objects.pod import Toleration
from scheduler.objects.quantity import MAX_INT64, MIN_INT64

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""The taint that a pod must tolerate to fit a cordoned node."""

_CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


def tolerates(toleration: Toleration, taint: Taint, *, comparison_operators: bool = False) -> bool:
    """Whether the toleration matches the taint.

    `comparison_operators`: the alpha gate TaintTolerationComparisonOperators, which adds the operators Gt and Lt.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Gt" | "Lt" if comparison_operators:
            limit, actual = _integer(toleration.value), _integer(taint.value)
            if limit is None or actual is None:
                return False
            return actual > limit if toleration.operator == "Gt" else actual < limit
        case _:
            return False


def tolerated(taint: Taint, tolerations: Iterable[Toleration], *, comparison_operators: bool = False) -> bool:
    """Whether any of the tolerations matches the taint."""
    return any(tolerates(toleration, taint, comparison_operators=comparison_operators) for toleration in tolerations)


class TolerationIndex:
    """Tolerations by key, so that a taint is compared only with those that may match it."""

    __slots__ = ("_by_key", "_comparison_operators", "_of_any_key", "tolerations")

    def __init__(self, tolerations: Iterable[Toleration], *, comparison_operators: bool = False) -> None:
        self.tolerations = tuple(tolerations)
        self._comparison_operators = comparison_operators
        self._by_key: dict[tuple[str, str], dict[Toleration, None]] = {}
        """By key, and by the value where that must be equal, "" where it need not."""
        self._of_any_key: dict[Toleration, None] = {}
        for toleration in self.tolerations:
            if not toleration.key:
                self._of_any_key[toleration] = None
            else:
                value = toleration.value if toleration.operator in ("", "Equal") else ""
                self._by_key.setdefault((toleration.key, value), {})[toleration] = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TolerationIndex) or self._comparison_operators is not other._comparison_operators:
            return NotImplemented
        return self.tolerations == other.tolerations

    def __hash__(self) -> int:
        return hash(self.tolerations)

    def tolerates(self, taint: Taint) -> bool:
        """Whether any of the tolerations matches the taint."""
        found: list[Toleration] = [*self._of_any_key, *self._by_key.get((taint.key, taint.value), ())]
        if taint.value:
            found += self._by_key.get((taint.key, ""), ())
        return tolerated(taint, found, comparison_operators=self._comparison_operators)


def repels(taint: Taint) -> bool:
    """Whether the taint has the effect NoSchedule or NoExecute, not PreferNoSchedule."""
    return taint.effect in (NO_SCHEDULE, NO_EXECUTE)


def first_untolerated_taint(
    taints: Iterable[Taint], tolerations: Iterable[Toleration] | TolerationIndex, *, comparison_operators: bool = False
) -> Taint | None:
    """The first of the node's NoSchedule and NoExecute taints that the pod doesn't tolerate, or None.

    For many nodes pass an index: a pod may have ten thousand tolerations.
    """
    if isinstance(tolerations, TolerationIndex):
        return next((taint for taint in taints if repels(taint) and not tolerations.tolerates(taint)), None)
    for taint in taints:
        if repels(taint) and not tolerated(taint, tolerations, comparison_operators=comparison_operators):
            return taint
    return None


def preference_tolerations(tolerations: Iterable[Toleration]) -> tuple[Toleration, ...]:
    """The tolerations that can matter for PreferNoSchedule taints."""
    return tuple([toleration for toleration in tolerations if toleration.effect in ("", PREFER_NO_SCHEDULE)])


def count_intolerable_preferences(taints: Iterable[Taint], tolerations: TolerationIndex) -> int:
    """The number of PreferNoSchedule taints that none of the tolerations matches."""
    return sum(taint.effect == PREFER_NO_SCHEDULE and not tolerations.tolerates(taint) for taint in taints)


def _integer(text: str) -> int | None:
    if not _CANONICAL_INTEGER.fullmatch(text) or len(text) > 20:
        return None
    number = int(text)
    return number if MIN_INT64 <= number <= MAX_INT64 else None
