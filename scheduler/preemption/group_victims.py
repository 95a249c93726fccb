"""Which pods may be removed for a group of pods, in which units, and in which order they are given back.

A unit is one pod, or all pods of a group that may only be disrupted as a whole. Other than in kube-scheduler 1.36, pods
of the preempting group itself are no candidates, and units that terminate already come last: their room will be free in
any case. Source: docs/kube-scheduler/podgroups.md §8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import itemgetter

import msgspec

from scheduler.cluster.groups.facts import Groups
from scheduler.cluster.groups.group import DisruptionMode, Group
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.framework.preemption_policy import PreemptionPolicy
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.importance import start_time


class Unit(msgspec.Struct, frozen=True, dict=True, eq=False):
    """Pods that stay or go together."""

    pods: tuple[PodInfo, ...]
    priority: int
    is_of_group: bool
    """Whether its pods belong to a group, whatever that group's disruption mode."""

    @cached_property
    def is_terminating(self) -> bool:
        return all(info.is_terminating for info in self.pods)


def candidate_units(
    pods: Mapping[str, PodInfo], groups: Groups, own: str, below: int, policy: PreemptionPolicy, table: NodeTable
) -> list[Unit]:
    """The units of a priority below ``below`` that ``policy`` lets the group ``own`` remove. ``pods``: by UID; those
    whose node ``table`` no longer has are none, nor do they count in a unit of others."""
    found: list[Unit] = []
    whole: dict[str, Group] = {}
    for info in pods.values():
        key = groups.key_of(info)
        if (key and key == own) or not _has_node(info, table):
            continue
        group = groups.get(key) if key else None
        if group is not None and group.disruption is DisruptionMode.GROUP:
            whole[key] = group
        elif info.priority < below and _is_within_reach(info, policy, table):
            found.append(Unit((info,), info.priority, bool(key)))
    for key, group in whole.items():
        members = tuple([info for info in groups.members(key).placed.values() if _has_node(info, table)])
        priority = min(info.priority for info in members) if group.priority is None else group.priority
        if priority < below and all(_is_within_reach(info, policy, table) for info in members):
            found.append(Unit(members, priority, True))
    return found


def _has_node(info: PodInfo, table: NodeTable) -> bool:
    return table.existing_row(info.node_name) is not None


Importance = tuple[int, bool, int, int, tuple[str, str]]
"""Smallest first: by priority, then groups before plain pods; of plain pods the earliest, of groups the largest and
then the earliest. Names decide what is left, so that any order of the cluster's pods gives the same."""


def importance(unit: Unit, now: int) -> Importance:
    """A sort key of the unit's importance. ``now``: nanoseconds since 1970, the same for the whole attempt."""
    started = min([start_time(info, now) for info in unit.pods])
    first = min([(info.key, info.uid) for info in unit.pods])
    return (-unit.priority, not unit.is_of_group, -len(unit.pods) if unit.is_of_group else 0, started, first)


def in_order(weighed: Iterable[tuple[Importance, Unit]], budgets: Budgets) -> list[Unit]:
    """The units in the order in which they are given back: those whose removal violates a budget before the others,
    each part with the most important first."""
    ordered = [unit for _, unit in sorted(weighed, key=itemgetter(0))]
    violating = _violating(ordered, budgets)
    return sorted(ordered, key=lambda unit: (unit.is_terminating, id(unit) not in violating))


def violates_budget(units: Sequence[Unit], budgets: Budgets) -> bool:
    """Whether the removal of all of these breaks a budget. Pods that terminate already are paid for."""
    alive = [info for unit in units for info in unit.pods if not info.is_terminating]
    return bool(budgets.split(alive)[0])


def _violating(units: Sequence[Unit], budgets: Budgets) -> set[int]:
    """``id`` of each unit with a pod that exceeds what a budget allows; the units before it take from it first."""
    if not budgets.all:
        return set()
    order = [(unit, info) for unit in units for info in unit.pods]
    exceeding = {info.uid for info in budgets.split([info for _, info in order])[0]}
    return {id(unit) for unit, info in order if info.uid in exceeding}


def _is_within_reach(info: PodInfo, policy: PreemptionPolicy, table: NodeTable) -> bool:
    if not policy.node_scope.is_everything:
        row = table.existing_row(info.node_name)
        if row is None or not table.selected(policy.node_scope)[row]:
            return False
    schedulers = policy.victim_schedulers
    return (schedulers is None or info.pod.spec.scheduler_name in schedulers) and (
        info.is_terminating or info.node_name not in policy.excluded_nodes
    )
