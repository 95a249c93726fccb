"""The choice among candidates (docs/kube-scheduler/preemption.md §6): criteria in order, each keeps the best nodes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from operator import attrgetter

from msgspec import Struct

from scheduler.objects.meta import controller_of
from scheduler.preemption.dry_run import NOT_STARTED, Candidate, Cost


class Criterion(Enum):
    """What decided between the candidates; the value is the text shown."""

    ONLY_CANDIDATE = "the only candidate"
    FEWEST_VIOLATIONS = "fewest violations of disruption budgets"
    LOWEST_TOP_PRIORITY = "lowest priority of the most important victim"
    LOWEST_PRIORITY_SUM = "lowest sum of the victims' priorities"
    FEWEST_VICTIMS = "fewest victims"
    LATEST_START = "most important victims that started last"
    FEWEST_DAEMON_SET_PODS = "fewest victims of DaemonSets"
    FIRST_TRIED = "the first one tried of several that are equal"


class Choice(Struct, frozen=True):
    """``best``: all candidates that no criterion tells apart, the chosen one first."""

    candidate: Candidate
    criterion: Criterion
    best: tuple[Candidate, ...]


_BY_COST = (
    Criterion.FEWEST_VIOLATIONS,
    Criterion.LOWEST_TOP_PRIORITY,
    Criterion.LOWEST_PRIORITY_SUM,
    Criterion.FEWEST_VICTIMS,
    Criterion.LATEST_START,
)
"""What each number of a candidate's ``cost`` stands for."""
_cost = attrgetter("cost")


def choose(candidates: Sequence[Candidate], now: int, prefer_other_than_daemon_sets: bool = False) -> Choice:
    """The best candidate and the criterion that left no other.

    ``candidates``: at least one, each with at least one victim, in the order in which they were tried, which settles
    what the criteria leave open. ``now``: nanoseconds since 1970, the start time of victims that have none.
    """
    if len(candidates) == 1:
        return Choice(candidates[0], Criterion.ONLY_CANDIDATE, tuple(candidates))
    costs: list[Cost] = list(map(_cost, candidates))
    least = min(costs)
    equal = costs.count(least)
    if least[-1] == NOT_STARTED and equal < len(costs):
        # Victims that have not started count as started now. If none of them is among the best here, none is then.
        costs = [(*cost[:-1], -now) if cost[-1] == NOT_STARTED else cost for cost in costs]
        least = min(costs)
        equal = costs.count(least)
    if equal == 1:
        candidate = candidates[costs.index(least)]
        return Choice(candidate, _first_difference(least, min([cost for cost in costs if cost != least])), (candidate,))
    left: Sequence[Candidate] = candidates
    if equal < len(costs):
        left = [candidate for candidate, cost in zip(candidates, costs, strict=True) if cost == least]
    if prefer_other_than_daemon_sets:
        numbers = list(map(_daemon_set_pods, left))
        fewest = min(numbers)
        left = [candidate for candidate, number in zip(left, numbers, strict=True) if number == fewest]
        if len(left) == 1:
            return Choice(left[0], Criterion.FEWEST_DAEMON_SET_PODS, tuple(left))
    return Choice(left[0], Criterion.FIRST_TRIED, tuple(left))


def _first_difference(least: Cost, next_one: Cost) -> Criterion:
    """What decided between the best candidate and the others. ``next_one``: of the costs of those the least, which has
    as much in common with the best one's as any."""
    different = zip(_BY_COST, least, next_one, strict=True)
    return next(criterion for criterion, mine, other in different if mine != other)


def _daemon_set_pods(candidate: Candidate) -> int:
    owners = (controller_of(info.pod.metadata) for info in candidate.victims)
    return sum(owner is not None and owner.kind == "DaemonSet" for owner in owners)
