"""One attempt to schedule a group of pods, as a value: the source of its condition, logs, metrics and ``why``."""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

UNSCHEDULABLE_GROUP: Final = "pod group is unschedulable"
WAITING_GROUP: Final = f"{UNSCHEDULABLE_GROUP}, pod group is waiting for preemption to complete"
NO_PLACEMENTS: Final = "no feasible placements found"


class GroupResult(Enum):
    """The value is the label of metrics."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING_ON_PREEMPTION = "waiting_on_preemption"
    ERROR = "error"

    __hash__ = object.__hash__


class GroupAttempt(msgspec.Struct, eq=False):
    """The record of one attempt at a group. Durations are seconds from the injected stopwatch; they feed no
    decision."""

    group: str
    """namespace/name"""
    scheduler_name: str
    started_wall: int
    """Nanoseconds since 1970."""
    result: GroupResult = GroupResult.UNSCHEDULABLE
    message: str = ""
    """The message of the group's condition; "" if it is scheduled."""
    tried: int = 0
    """The number of pods that were tried."""
    placed: tuple[tuple[str, str], ...] = ()
    """namespace/name of each pod that found a node, with it: bound only if ``result`` is SCHEDULED."""
    failed: tuple[tuple[str, str], ...] = ()
    """namespace/name of each other pod that was tried, with the reason for which it found no node."""
    victims: tuple[str, ...] = ()
    """namespace/name of the pods that are removed for the group, most important first."""
    placements: int = 0
    """The number of sets of nodes that the group was tried on; 0 if it was not restricted."""
    placement: str = ""
    """The name of the set of nodes that was taken."""
    algorithm_seconds: float = 0.0
    duration_seconds: float = 0.0
    placement_seconds: dict[str, float] = msgspec.field(default_factory=dict)
    """What the extension points of placements took, by their names, if the group was tried on placements."""
    repeats: int = 0
    """The number of attempts before this one that were given up because the cluster had changed."""
    has_members: bool = True
    """Whether a pod of it still waited when it failed; if not, its failure says nothing about the group."""
