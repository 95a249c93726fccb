"""The choice among candidates (reference preemption.md §6): criteria in order, each keeps the best nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING

from scheduler.objects.meta import controller_of
from scheduler.preemption.importance import start_time

if TYPE_CHECKING:
    from scheduler.cluster.pod_info import PodInfo
    from scheduler.preemption.dry_run import Candidate

_PRIORITY_SHIFT = 1 << 31
"""Lifts every priority to at least 0, so that one more victim always costs more."""


_priority_of: Callable[[PodInfo], int] = attrgetter("priority")


class Criterion(Enum):
    """What decided between the candidates; the value is how it is told."""

    ONLY_CANDIDATE = "the only candidate"
    FEWEST_VIOLATIONS = "fewest violations of disruption budgets"
    LOWEST_TOP_PRIORITY = "lowest priority of the most important victim"
    LOWEST_PRIORITY_SUM = "lowest sum of the victims' priorities"
    FEWEST_VICTIMS = "fewest victims"
    LATEST_START = "most important victims that started last"
    FEWEST_DAEMON_SET_PODS = "fewest victims of DaemonSets"
    FIRST_TRIED = "the first one tried of several that are equal"


@dataclass(frozen=True, slots=True)
class Choice:
    """``best``: all candidates that no criterion tells apart, the chosen one first."""

    candidate: Candidate
    criterion: Criterion
    best: tuple[Candidate, ...]


def choose(candidates: Sequence[Candidate], now: int, prefer_other_than_daemon_sets: bool = False) -> Choice:
    """The best candidate and the criterion that left no other.

    ``candidates``: at least one, each with at least one victim, in the order in which they were tried, which settles
    what the criteria leave open. ``now``: nanoseconds since 1970, the start time of victims that have none.
    """
    left = list(candidates)
    if len(left) == 1:
        return Choice(left[0], Criterion.ONLY_CANDIDATE, tuple(left))
    for criterion, cost in _costs(now, prefer_other_than_daemon_sets):
        costs = [cost(candidate) for candidate in left]
        least = min(costs)
        left = [candidate for candidate, value in zip(left, costs, strict=True) if value == least]
        if len(left) == 1:
            return Choice(left[0], criterion, tuple(left))
    return Choice(left[0], Criterion.FIRST_TRIED, tuple(left))


def _costs(now: int, prefer_other_than_daemon_sets: bool) -> list[tuple[Criterion, Callable[[Candidate], int]]]:
    """The criteria in order, each with a number of which less is better."""
    costs: list[tuple[Criterion, Callable[[Candidate], int]]] = [
        (Criterion.FEWEST_VIOLATIONS, lambda candidate: candidate.pdb_violations),
        (Criterion.LOWEST_TOP_PRIORITY, _top_priority),
        (Criterion.LOWEST_PRIORITY_SUM, _priority_sum),
        (Criterion.FEWEST_VICTIMS, lambda candidate: len(candidate.victims)),
        (Criterion.LATEST_START, lambda candidate: -_earliest_start_of_top(candidate, now)),
    ]
    if prefer_other_than_daemon_sets:
        costs.append((Criterion.FEWEST_DAEMON_SET_PODS, _daemon_set_pods))
    return costs


def _top_priority(candidate: Candidate) -> int:
    return candidate.victims[0].priority


def _priority_sum(candidate: Candidate) -> int:
    return sum(map(_priority_of, candidate.victims)) + len(candidate.victims) * _PRIORITY_SHIFT


def _earliest_start_of_top(candidate: Candidate, now: int) -> int:
    top = _top_priority(candidate)
    return min([start_time(info, now) for info in candidate.victims if info.priority == top])


def _daemon_set_pods(candidate: Candidate) -> int:
    owners = (controller_of(info.pod.metadata) for info in candidate.victims)
    return sum(owner is not None and owner.kind == "DaemonSet" for owner in owners)
