"""Ends of attempts that found no node, which hold for the next pods of their class while the cluster does not change.

A thousand pods of one template that wait for the same thing are tried one after the other, often with nothing in
between. Each attempt then ends as the first one did: with the same refusals, message and rejectors. So no plugin is
asked again. All the same it is an attempt like any other: counted, reported, and followed by the pod's own back-off.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.engine.attempt import Attempt
from scheduler.engine.fails_alike import OF_THE_CLUSTER
from scheduler.engine.outcome import NotPlaced
from scheduler.framework.class_run import PluginPoint
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.profile import Profile

MAX_KNOWN: Final = 64
"""Classes whose end is known in one state of the cluster. Each holds a number for each node."""

_BY_THE_CLOCK: Final = frozenset({"DynamicResources"})
"""Plugins whose refusals depend on the time, too."""


class KnownEnd(Struct, frozen=True):
    """What an attempt came to, and what the next one like it shares with it."""

    outcome: NotPlaced
    total_nodes: int
    diagnosis: Diagnosis | None
    preemption: object
    evaluated: frozenset[PluginPoint]
    only_nodes: frozenset[str] | None
    points: tuple[str, ...]
    """Extension points that the attempt came by."""
    statuses: dict[str, str]

    def fill_in(self, attempt: Attempt) -> None:
        """Complete the attempt of another pod. No plugin was asked, so its extension points took no time."""
        attempt.total_nodes = attempt.evaluated_nodes = self.total_nodes
        attempt.was_class_known = True
        attempt.diagnosis, attempt.preemption = self.diagnosis, self.preemption
        attempt.evaluated, attempt.only_nodes = self.evaluated, self.only_nodes
        attempt.durations, attempt.statuses = dict.fromkeys(self.points, 0.0), self.statuses


class KnownFailures:
    """Ends by class, in one state of the cluster (``ClusterCache.state``)."""

    __slots__ = ("_state", "ends")

    def __init__(self) -> None:
        self.ends: dict[Hashable, KnownEnd] = {}
        """Those of the last state in which there was one; read only."""
        self._state: Hashable = None

    def has_any(self, state: Hashable) -> bool:
        """Whether any end is known in this state: where none is, no pod's class need be worked out."""
        return state == self._state

    def get(self, key: Hashable, state: Hashable) -> KnownEnd | None:
        """The end that holds for pods of this class in this state of the cluster; None if none is known."""
        return self.ends.get(key) if state == self._state else None

    def put(self, key: Hashable, state: Hashable, outcome: NotPlaced, attempt: Attempt) -> None:
        """Keep how this attempt ended, for the next pods of the class in this state of the cluster."""
        if state != self._state or len(self.ends) >= MAX_KNOWN:
            self.ends.clear()
            self._state = state
        self.ends[key] = KnownEnd(
            outcome,
            attempt.total_nodes,
            attempt.diagnosis,
            attempt.preemption,
            attempt.evaluated,
            attempt.only_nodes,
            tuple(attempt.durations),
            attempt.statuses,
        )


def is_repeatable(profile: Profile, pod: PodInfo, outcome: NotPlaced, attempt: Attempt, table: NodeTable) -> bool:
    """Whether a pod of the class would get this very end: of an attempt that ``fails_alike``.

    It has changed nothing: no chance was taken for dry runs of preemption, and the next sample of nodes begins where
    this one began, since all nodes were looked at. And no plugin of a user has been asked, which may answer each pod
    otherwise even if it refuses none.
    """
    lowest = table.priorities.lowest if table.priorities is not None else None
    if table.priorities is None or (lowest is not None and lowest < pod.priority):
        return False
    if attempt.evaluated_nodes != attempt.total_nodes or outcome.unschedulable_plugins & _BY_THE_CLOCK:
        return False
    asked = (*profile.pre_filter_plugins, *profile.filter_plugins)
    return all(plugin.name in OF_THE_CLUSTER for plugin in asked)
