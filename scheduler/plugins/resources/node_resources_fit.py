"""NodeResourcesFit: filters nodes without room for the pod's requests, and scores nodes by their use of resources.

Filter: compares the number of pods on the node and the pod's requests of cpu, memory, ephemeral-storage and other
resources with the node's allocatable. Requests count, not usage; a resource that the pod does not request is not
checked. Refuses with ``Too many pods`` and ``Insufficient <resource>``, all that apply; preemption can't help where a
request exceeds the whole node.

Score: the share of the node that would be free (LeastAllocated, the default) or requested (MostAllocated), or a
function of the requested share (RequestedToCapacityRatio). Pods that request no cpu or memory count with 100m and
200Mi.

A set of nodes for a whole group of pods (TopologyAwareWorkloadScheduling) scores by the share of its resources that
would be requested, whatever the strategy.

Arguments:

- ``ignoredResources``, ``ignoredResourceGroups``: extended resources that the filter ignores, by name or by the prefix
  before the "/".
- ``scoringStrategy``: ``type``; ``resources`` with weights (cpu and memory, 1 each); for RequestedToCapacityRatio
  ``requestedToCapacityRatio.shape``, points of utilization (0-100) and score (0-10).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.node_columns import COUNTABLE_RESOURCES, Block
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Resource
from scheduler.framework.findings import RowArray, grouped
from scheduler.framework.placements import Placed, PlacementScorePlugin
from scheduler.framework.plugin import (
    MAX_NODE_SCORE,
    FilterPlugin,
    Finding,
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
from scheduler.objects.memo import has_many_parts
from scheduler.objects.quantity import MAX_INT64, MIN_INT64
from scheduler.objects.resource_names import is_extended_resource, is_scalar_resource
from scheduler.plugins.normalization import shape_scores
from scheduler.plugins.resources.device_class_resources import mapped_by_classes, tallies_stamp
from scheduler.plugins.resources.evidence import Wanted, shortfalls
from scheduler.plugins.resources.fit_args import NodeResourcesFitArgs, args_faults, completed_resources
from scheduler.plugins.resources.fit_hints import (
    class_maps_a_request,
    facet_of_node,
    facet_of_pod,
    node_has_more_room,
    pod_left_or_shrank,
)
from scheduler.plugins.resources.scoring import (
    ResourceScoring,
    ResourceTerm,
    ResourceTerms,
    Strategy,
    scored_columns,
)

TOO_MANY_PODS = "Too many pods"

_NO_SCALARS = frozenset(("cpu", "memory", "ephemeral-storage"))
_MAX_BITS = 13
"""Resources that some rows are short of, and one: up to here a table of all combinations is small."""
_MAX_KNOWN_REASONS = 16
"""Refusals with more reasons are not cached: their size depends on the pod."""


class _Need(NamedTuple):
    """A request above 0. With ``is_delegated``, nodes that have none of it themselves are left to DynamicResources."""

    resource: str
    reason: str
    amount: int
    is_delegated: bool = False


class Needs(Struct, State, frozen=True, eq=False):
    """The pod's requests, besides the place for one more pod."""

    needs: tuple[_Need, ...]
    countable: Block
    """Those of COUNTABLE_RESOURCES with that place, as one column; what is not requested can't be short."""
    are_countable: bool
    """Whether there are no others."""

    @classmethod
    def of(cls, needs: Sequence[_Need]) -> Needs:
        amounts = {"pods": 1} | {need.resource: need.amount for need in needs}
        countable = [(amounts.pop(name, MIN_INT64),) for name in COUNTABLE_RESOURCES]
        return cls(tuple(needs), np.array(countable, np.int64), not amounts)


class NodeResourcesFit(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, PlacementScorePlugin):
    """See docs/kube-scheduler/plugins.md §3.8."""

    name = "NodeResourcesFit"
    needs_pre_filter = True
    Args = NodeResourcesFitArgs
    reads = Reads.NODE | Reads.USAGE
    fragment_reads = FragmentReads.TEMPLATE
    counts_pods = False
    stays_in_range = True

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
    def validate_args(cls, args: NodeResourcesFitArgs, path: str) -> tuple[tuple[str, str], ...]:
        return tuple((fault.path, fault.message) for fault in args_faults(args, path))

    def fragment(self, pod: PodInfo, view: View) -> Hashable:
        scored = pod.score_requests
        return pod.requests.key, tuple([scored.amount(spec.name) for spec in self._resources])

    def stamp(self, fragment: Hashable, view: View) -> Hashable:
        return tallies_stamp(view, [spec.name for spec in self._resources])

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
        return Needs.of(needs)

    def _is_ignored(self, name: str) -> bool:
        if not self._ignored and not self._ignored_groups:
            return False
        return is_extended_resource(name) and (name in self._ignored or name.partition("/")[0] in self._ignored_groups)

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        assert isinstance(state, Needs)
        table = view.table
        if state.are_countable:
            offers, taken = table.countable_at(rows)
            if not np.count_nonzero(offers - taken < state.countable):
                return None
        is_full = table.pod_count[rows] >= table.allocatable_pods[rows]
        shortages: list[_Shortage] = [(TOO_MANY_PODS, is_full)] if is_full.any() else []
        hopeless: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        somewhere = table.scalars_somewhere() | _NO_SCALARS if has_many_parts(state.needs) else None
        for need in state.needs:
            if need.resource not in somewhere if somewhere is not None else table.is_nowhere(need.resource):
                # No node has the resource, so all rows are refused for it: no column is needed.
                if not need.is_delegated:
                    shortages.append((need.reason, None))
                continue
            allocatable, requested = table.allocatable(need.resource), table.requested(need.resource)
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
        return _combined(shortages, hopeless, len(is_full))

    def filter_row(self, state: State, pod: PodInfo, view: View, row: int) -> Refusal | None:
        assert isinstance(state, Needs)
        table = view.table
        reasons: tuple[str, ...] = ()
        is_hopeless = False
        if table.pod_count.item(row) >= table.allocatable_pods.item(row):
            reasons = (TOO_MANY_PODS,)
        for need in state.needs:
            allocatable, requested = table.allocatable(need.resource), table.requested(need.resource)
            offered = allocatable.item(row)
            # A difference beyond int64 overflows to a negative number in kube-scheduler 1.36, as in `filter`.
            is_enough = need.amount <= offered - requested.item(row) <= MAX_INT64
            if not is_enough and (offered or not need.is_delegated):
                reasons = (*reasons, need.reason)
                is_hopeless = is_hopeless or need.amount > offered
        return _refusal(reasons, is_hopeless) if reasons else None

    def filter_few(self, state: State, pod: PodInfo, view: View, rows: Sequence[int]) -> list[Refusal | None]:
        assert isinstance(state, Needs)
        if _fit_all(state.needs, view.table, rows):
            return [None] * len(rows)
        return super().filter_few(state, pod, view, rows)

    def why_not(self, state: State, pod: PodInfo, view: View, rows: RowArray) -> tuple[Finding, ...]:
        assert isinstance(state, Needs)
        wanted = [Wanted(need.resource, need.amount, need.is_delegated) for need in state.needs]
        return grouped(view, rows, shortfalls(wanted, view.table, rows))

    # --- score --------------------------------------------------------------------------------------------------------

    def pre_score(self, pod: PodInfo, view: View, rows: Rows) -> State | Skip | Refusal:
        own = pod.score_requests
        return ResourceTerms.of(
            [
                ResourceTerm(spec.name, amount, spec.weight)
                for spec in self._resources
                if (amount := own.amount(spec.name)) or not is_scalar_resource(spec.name)
            ]
        )

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        assert isinstance(state, ResourceTerms)
        return self._scoring.score(state, view, rows)

    def score_row(self, state: State, pod: PodInfo, view: View, row: int) -> int:
        assert isinstance(state, ResourceTerms)
        return self._scoring.score_few(state.terms, view, (row,))[0]

    def score_few(self, state: State, pod: PodInfo, view: View, rows: Sequence[int]) -> list[int]:
        assert isinstance(state, ResourceTerms)
        return self._scoring.score_few(state.terms, view, rows)

    def score_placement(self, placed: Placed) -> int:
        """The weighted mean of the requested shares, of all nodes of the placement taken as one node. Devices do not
        count, nor do extended resources that no pod of the group asks for, as in kube-scheduler 1.36."""
        table, rows = placed.view.table, placed.placement.rows
        total = weights = 0
        for spec in self._resources:
            if is_scalar_resource(spec.name) and not any(pod.score_requests.amount(spec.name) for pod in placed.pods):
                continue
            allocatable_of, requested_of = scored_columns(table, spec.name)
            allocatable = int(allocatable_of[rows].sum())
            if allocatable:
                requested = min(int(requested_of[rows].sum()), allocatable)
                total += requested * MAX_NODE_SCORE // allocatable * spec.weight
                weights += spec.weight
        return total // weights if weights else 0

    # --- events -------------------------------------------------------------------------------------------------------

    def events(self) -> tuple[EventRegistration, ...]:
        return _EVENTS


_EVENTS = (
    EventRegistration(
        ClusterEvent(Resource.POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN), pod_left_or_shrank, facet_of_pod
    ),
    EventRegistration(
        ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE),
        node_has_more_room,
        facet_of_node,
        class_hint=node_has_more_room,
    ),
    EventRegistration(ClusterEvent(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE), class_maps_a_request),
)


def _fit_all(needs: tuple[_Need, ...], table: NodeTable, rows: Sequence[int]) -> bool:
    """Whether all rows have enough of everything, which is the common case."""
    pod_count, allocatable_pods = table.pod_count, table.allocatable_pods
    for row in rows:
        if pod_count.item(row) >= allocatable_pods.item(row):
            return False
    for need in needs:
        allocatable, requested = table.amounts(need.resource)
        amount = need.amount
        for row in rows:
            if not amount <= allocatable.item(row) - requested.item(row) <= MAX_INT64:
                return False
    return True


def _refusal(reasons: tuple[str, ...], is_hopeless: bool) -> Refusal:
    return _known_refusal(reasons, is_hopeless) if len(reasons) <= _MAX_KNOWN_REASONS else _new(reasons, is_hopeless)


@lru_cache(maxsize=1024)
def _known_refusal(reasons: tuple[str, ...], is_hopeless: bool) -> Refusal:
    return _new(reasons, is_hopeless)


def _new(reasons: tuple[str, ...], is_hopeless: bool) -> Refusal:
    return Refusal(Code.UNRESOLVABLE if is_hopeless else Code.UNSCHEDULABLE, reasons)


_Shortage = tuple[str, npt.NDArray[np.bool_] | None]
"""A reason, and the rows that it holds on; None = all."""


def _combined(shortages: list[_Shortage], hopeless: npt.NDArray[np.bool_], length: int) -> Verdicts:
    """Groups rows by their insufficient resources, and by whether eviction can't help."""
    if any(is_short is None for _, is_short in shortages):
        hopeless = np.ones(length, np.bool_)
    if len(shortages) == 1:
        reason, only = shortages[0]
        single = np.ones(length, np.int16) if only is None else only.astype(np.int16)
        if len(hopeless):
            single += hopeless
        return Verdicts(single, (_refusal((reason,), False), _refusal((reason,), True)))
    bits = [hopeless if len(hopeless) else np.zeros(length, np.bool_)]
    bits += [is_short for _, is_short in shortages if is_short is not None]
    if len(bits) <= _MAX_BITS:
        marks = np.zeros(length, np.int16)
        for place, has in enumerate(bits):
            marks += has * np.int16(1 << place)
        found = np.flatnonzero(np.bincount(marks)).tolist()
        patterns = [[bool(mark >> place & 1) for place in range(len(bits))] for mark in found]
        place_of = np.zeros(found[-1] + 1, np.int64)
        place_of[found] = np.arange(len(found))
        places = place_of[marks]
    else:
        packed, places = np.unique(np.packbits(np.array(bits), axis=0), axis=1, return_inverse=True)
        patterns = np.unpackbits(packed, axis=0, count=len(bits)).astype(np.bool_).T.tolist()
    refusals: list[Refusal] = []
    code_of = np.zeros(len(patterns), np.int16)
    for number, (is_hopeless, *pattern) in enumerate(patterns):
        short_here = iter(pattern)
        reasons = tuple([reason for reason, is_short in shortages if is_short is None or next(short_here)])
        if reasons:
            refusals.append(_refusal(reasons, is_hopeless))
            code_of[number] = len(refusals)
    return Verdicts(code_of[places.reshape(-1)], tuple(refusals))
