"""The status of a budget that a question puts: what the disruption controller would write for the present pods."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.questions.admission import WrongManifest
from scheduler.engine.questions.evictions import is_healthy
from scheduler.engine.questions.names import shown
from scheduler.objects.budget import BudgetStatus, PodDisruptionBudget
from scheduler.objects.selectors import SelectorError, parse_selector

_PERCENTAGE: Final = re.compile(r"([0-9]{1,9})%")


def counted(budget: PodDisruptionBudget, pods: Iterable[PodInfo]) -> PodDisruptionBudget:
    """The budget with a status. As many pods are expected as there are, which is what their controllers want, too,
    unless some are still to be made. Raises WrongManifest."""
    try:
        selector = parse_selector(budget.spec.selector)
    except SelectorError as error:
        raise WrongManifest(f"PodDisruptionBudget {shown(budget.name)}: {error}") from error
    covered = [
        info
        for info in pods
        if info.namespace == budget.namespace and not selector.selects_nothing and selector.matches(info.labels)
    ]
    healthy, expected, desired = sum(map(is_healthy, covered)), len(covered), 1
    if budget.spec.max_unavailable is not None:
        desired = max(expected - _share(budget, budget.spec.max_unavailable, expected), 0)
    elif budget.spec.min_available is not None:
        desired = _share(budget, budget.spec.min_available, expected)
    status = BudgetStatus(max(healthy - desired, 0), current_healthy=healthy, desired_healthy=desired)
    return msgspec.structs.replace(budget, status=status)


def _share(budget: PodDisruptionBudget, value: int | str, whole: int) -> int:
    """A number of pods as it is, a percentage of ``whole`` rounded up."""
    if isinstance(value, int):
        return value
    found = _PERCENTAGE.fullmatch(value)
    if found is None:
        text = f"{shown(value)} is neither a number nor a percentage"
        raise WrongManifest(f"PodDisruptionBudget {shown(budget.name)}: {text}")
    return math.ceil(int(found[1]) * whole / 100)
