"""NodeResourcesFit: a pod goes only where there is room for its requests, and rather where there is much of it.

Filter: the pods already on a node, the pod's cpu, memory and ephemeral-storage and each other resource it requests are
compared with what the node has allocatable. What is requested counts, not what is used; a resource that the pod does
not request never keeps it away. Refuses with ``Too many pods`` and ``Insufficient <resource>``, all that apply;
preemption can't help where a request is larger than the whole node.

Score: how much of the node would be free (LeastAllocated, the default), taken (MostAllocated), or what a shape says
about how much is taken (RequestedToCapacityRatio). Pods that request no cpu or memory count with 100m and 200Mi.

Arguments:

- ``ignoredResources``, ``ignoredResourceGroups``: extended resources that the filter leaves out, by name or by what
  comes before the "/".
- ``scoringStrategy``: ``type``; ``resources`` with weights (cpu and memory, 1 each); for RequestedToCapacityRatio
  ``requestedToCapacityRatio.shape``, points of utilization (0-100) and score (0-10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Resource
from scheduler.framework.plugin import (
    FilterPlugin,
    FragmentReads,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Rows,
    ScorePlugin,
    Scores,
    State,
    Verdicts,
)
from scheduler.messages.status import Code, Refusal, Skip
from scheduler.objects.kinds import Kind
from scheduler.objects.resources import is_extended_resource, is_scalar_resource
from scheduler.plugins.normalization import shape_scores
from scheduler.plugins.resources.device_class_resources import mapped_by_classes
from scheduler.plugins.resources.fit_args import NodeResourcesFitArgs, args_faults, completed_resources
from scheduler.plugins.resources.fit_hints import (
    class_maps_a_request,
    node_has_more_room,
    pod_left_or_shrank,
)
from scheduler.plugins.resources.scoring import (
    ResourceScoring,
    ResourceTerm,
    ResourceTerms,
    Strategy,
    requested_columns,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scheduler.cluster.pod_info import PodInfo
    from scheduler.cluster.table import NodeTable
    from scheduler.cluster.view import View

TOO_MANY_PODS = "Too many pods"

_MOST_COMBINED = 12
"""Up to so many resources that run short, a table of all combinations is small."""


class _Need(NamedTuple):
    """A request above 0. Where ``is_delegated``, nodes that have none of it themselves are DynamicResources' affair."""

    resource: str
    reason: str
    amount: int
    is_delegated: bool = False


@dataclass(frozen=True, slots=True)
class Needs(State):
    """What the pod must find on a node besides a place."""

    needs: tuple[_Need, ...]


class NodeResourcesFit(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Reference plugins.md §3.8."""

    name = "NodeResourcesFit"
    Args = NodeResourcesFitArgs
    reads = Reads.NODE | Reads.USAGE
    fragment_reads = FragmentReads.TEMPLATE

    def __init__(self, args: NodeResourcesFitArgs | None = None) -> None:
        super().__init__(args or NodeResourcesFitArgs())
        stated: NodeResourcesFitArgs = self.args
        self._ignored = frozenset(stated.ignored_resources)
        self._ignored_groups = frozenset(stated.ignored_resource_groups)
        self._resources = completed_resources(stated.scoring_strategy.resources)
        ratio = stated.scoring_strategy.requested_to_capacity_ratio
        self._scoring = ResourceScoring(
            Strategy(stated.scoring_strategy.type), shape_scores(ratio.shape) if ratio is not None else None
        )

    @classmethod
    def validate_args(cls, args: Any, path: str) -> tuple[tuple[str, str], ...]:
        return tuple((fault.path, fault.message) for fault in args_faults(args, path))

    def fragment(self, pod: PodInfo, view: View) -> Hashable:
        scored = pod.score_requests
        return pod.requests.key, tuple([scored.amount(spec.name) for spec in self._resources])

    def stamp(self, fragment: Hashable, view: View) -> Hashable:
        return view.version(Kind.DEVICE_CLASS)

    # --- filter -------------------------------------------------------------------------------------------------------

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip | Refusal:
        requests = pod.requests
        needs: list[_Need] = []
        if requests.milli_cpu > 0:
            needs.append(_Need("cpu", "Insufficient cpu", requests.milli_cpu))
        if requests.memory > 0:
            needs.append(_Need("memory", "Insufficient memory", requests.memory))
        if requests.ephemeral_storage > 0:
            needs.append(_Need("ephemeral-storage", "Insufficient ephemeral-storage", requests.ephemeral_storage))
        if requests.scalars:
            delegated = mapped_by_classes(view, requests.scalars)
            needs += [
                _Need(name, f"Insufficient {name}", amount, name in delegated)
                for name, amount in sorted(requests.scalars.items())
                if amount and not self._is_ignored(name)
            ]
        return Needs(tuple(needs))

    def _is_ignored(self, name: str) -> bool:
        if not self._ignored and not self._ignored_groups:
            return False
        return is_extended_resource(name) and (name in self._ignored or name.partition("/")[0] in self._ignored_groups)

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        assert isinstance(state, Needs)
        table = view.table
        is_full = table.pod_count[rows] >= table.allocatable_pods[rows]
        shortages = [(TOO_MANY_PODS, is_full)] if is_full.any() else []
        hopeless: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        for need in state.needs:
            allocatable, requested = requested_columns(table, need.resource)
            offered = allocatable[rows]
            is_short = (offered - requested[rows]) < need.amount
            if need.is_delegated:
                is_short &= offered > 0
            if is_short.any():
                shortages.append((need.reason, is_short))
                too_small = is_short & (offered < need.amount)
                hopeless = hopeless | too_small if len(hopeless) else too_small
        if not shortages:
            return None
        if len(shortages) > _MOST_COMBINED:
            return self._one_by_one(state, pod, view, rows)
        return _combined(shortages, hopeless)

    def _one_by_one(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts:
        listed = range(*rows.indices(view.table.size)) if isinstance(rows, slice) else rows.tolist()
        numbers: dict[Refusal, int] = {}
        codes = np.zeros(len(listed), np.int16)
        for place, row in enumerate(listed):
            refusal = self.filter_row(state, pod, view, row)
            if refusal is not None:
                codes[place] = numbers.setdefault(refusal, len(numbers) + 1)
        return Verdicts(codes, tuple(numbers))

    def filter_row(self, state: State, pod: PodInfo, view: View, row: int) -> Refusal | None:
        assert isinstance(state, Needs)
        table = view.table
        reasons: tuple[str, ...] = ()
        is_hopeless = False
        if table.pod_count.item(row) >= table.allocatable_pods.item(row):
            reasons = (TOO_MANY_PODS,)
        for need in state.needs:
            allocatable, requested = requested_columns(table, need.resource)
            offered = allocatable.item(row)
            if need.amount > offered - requested.item(row) and (offered or not need.is_delegated):
                reasons = (*reasons, need.reason)
                is_hopeless = is_hopeless or need.amount > offered
        return _refusal(reasons, is_hopeless) if reasons else None

    def filter_few(self, state: State, pod: PodInfo, view: View, rows: Sequence[int]) -> list[Refusal | None]:
        assert isinstance(state, Needs)
        if _fit_all(state.needs, view.table, rows):
            return [None] * len(rows)
        return super().filter_few(state, pod, view, rows)

    # --- score --------------------------------------------------------------------------------------------------------

    def pre_score(self, pod: PodInfo, view: View, rows: Rows) -> State | Skip | Refusal:
        own = pod.score_requests
        return ResourceTerms(
            tuple(
                ResourceTerm(spec.name, amount, spec.weight)
                for spec in self._resources
                if (amount := own.amount(spec.name)) or not is_scalar_resource(spec.name)
            )
        )

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        assert isinstance(state, ResourceTerms)
        return self._scoring.score(state.terms, view.table, rows)

    def score_row(self, state: State, pod: PodInfo, view: View, row: int) -> int:
        assert isinstance(state, ResourceTerms)
        return self._scoring.score_few(state.terms, view.table, (row,))[0]

    def score_few(self, state: State, pod: PodInfo, view: View, rows: Sequence[int]) -> list[int]:
        assert isinstance(state, ResourceTerms)
        return self._scoring.score_few(state.terms, view.table, rows)

    # --- events -------------------------------------------------------------------------------------------------------

    def events(self) -> tuple[EventRegistration, ...]:
        return _EVENTS


_EVENTS = (
    EventRegistration(ClusterEvent(Resource.POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN), pod_left_or_shrank),
    EventRegistration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE), node_has_more_room),
    EventRegistration(ClusterEvent(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE), class_maps_a_request),
)


def _fit_all(needs: tuple[_Need, ...], table: NodeTable, rows: Sequence[int]) -> bool:
    """Whether no row runs short of anything, as is usual."""
    pod_count, allocatable_pods = table.pod_count, table.allocatable_pods
    for row in rows:
        if pod_count.item(row) >= allocatable_pods.item(row):
            return False
    for need in needs:
        allocatable, requested = requested_columns(table, need.resource)
        amount = need.amount
        for row in rows:
            if amount > allocatable.item(row) - requested.item(row):
                return False
    return True


@lru_cache(maxsize=1024)
def _refusal(reasons: tuple[str, ...], is_hopeless: bool) -> Refusal:
    return Refusal(Code.UNRESOLVABLE if is_hopeless else Code.UNSCHEDULABLE, reasons)


def _combined(shortages: list[tuple[str, npt.NDArray[np.bool_]]], hopeless: npt.NDArray[np.bool_]) -> Verdicts:
    """Group rows by which resources run short there, one bit each, and by whether eviction can't help (bit 0)."""
    if len(shortages) == 1:
        reason, is_short = shortages[0]
        single = is_short.astype(np.int16)
        if len(hopeless):
            single += hopeless
        return Verdicts(single, (_refusal((reason,), False), _refusal((reason,), True)))
    marks = np.zeros(len(shortages[0][1]), np.int16)
    if len(hopeless):
        marks += hopeless
    for bit, (_, is_short) in enumerate(shortages, start=1):
        marks += is_short * np.int16(1 << bit)
    present = np.flatnonzero(np.bincount(marks)).tolist()
    codes = np.zeros(present[-1] + 1, np.int16)
    refusals: list[Refusal] = []
    for mark in present:
        if mark:
            reasons = tuple([reason for bit, (reason, _) in enumerate(shortages, start=1) if mark >> bit & 1])
            refusals.append(_refusal(reasons, bool(mark & 1)))
            codes[mark] = len(refusals)
    return Verdicts(codes[marks], tuple(refusals))
