"""The choice among candidates (docs/kube-scheduler/preemption.md §6): criteria in order, each keeps the best nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from operator import attrgetter

from msgspec import Struct

from scheduler.objects.meta import controller_of
from scheduler.preemption.dry_run import Candidate
from scheduler.preemption.importance import LATER_THAN_ANY


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


def choose(candidates: Sequence[Candidate], now: int, prefer_other_than_daemon_sets: bool = False) -> Choice:
    """The best candidate and the criterion that left no other.

    ``candidates``: at least one, each with at least one victim, in the order in which they were tried, which settles
    what the criteria leave open. ``now``: nanoseconds since 1970, the start time of victims that have none.
    """
    left = list(candidates)
    if len(left) == 1:
        return Choice(left[0], Criterion.ONLY_CANDIDATE, tuple(left))
    for criterion, cost in _costs(now, prefer_other_than_daemon_sets):
        costs = list(map(cost, left))
        least = min(costs)
        if costs.count(least) == len(costs):
            continue
        left = [candidate for candidate, value in zip(left, costs, strict=True) if value == least]
        if len(left) == 1:
            return Choice(left[0], criterion, tuple(left))
    return Choice(left[0], Criterion.FIRST_TRIED, tuple(left))


def _costs(now: int, prefer_other_than_daemon_sets: bool) -> list[tuple[Criterion, Callable[[Candidate], int]]]:
    """The criteria in order, each with a number of which less is better."""
    costs: list[tuple[Criterion, Callable[[Candidate], int]]] = [
        (Criterion.FEWEST_VIOLATIONS, attrgetter("pdb_violations")),
        (Criterion.LOWEST_TOP_PRIORITY, attrgetter("top_priority")),
        (Criterion.LOWEST_PRIORITY_SUM, attrgetter("priorities_sum")),
        (Criterion.FEWEST_VICTIMS, lambda candidate: len(candidate.victims)),
        (
            Criterion.LATEST_START,
            lambda candidate: -(now if candidate.top_start == LATER_THAN_ANY else candidate.top_start),
        ),
    ]
    if prefer_other_than_daemon_sets:
        costs.append((Criterion.FEWEST_DAEMON_SET_PODS, _daemon_set_pods))
    return costs


def _daemon_set_pods(candidate: Candidate) -> int:
    owners = (controller_of(info.pod.metadata) for info in candidate.victims)
    return sum(owner is not None and owner.kind == "DaemonSet" for owner in owners)
