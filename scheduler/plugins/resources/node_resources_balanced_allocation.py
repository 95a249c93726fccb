"""NodeResourcesBalancedAllocation: prefers nodes on which the pod makes the use of resources more even.

A node whose cpu is fully requested can't use its free memory. The score measures the change that the pod makes: 75 is
no change, up to 100 more even, down to 50 less even. Pods that request none of the resources are not scored.

Arguments: ``resources``, default cpu and memory, each once; their weights must be 1.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from scheduler.cluster.node_columns import Block
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.config.field_faults import invalid
from scheduler.config.validators import distinct
from scheduler.framework.events import EventRegistration
from scheduler.framework.plugin import (
    MAX_NODE_SCORE,
    FragmentReads,
    PreScorePlugin,
    Reads,
    Rows,
    ScorePlugin,
    Scores,
    State,
)
from scheduler.messages.status import SKIP, Refusal, Skip
from scheduler.objects.resource_names import is_scalar_resource
from scheduler.plugins.resources.device_class_resources import tallies_stamp
from scheduler.plugins.resources.fit_args import DEFAULT_RESOURCES, ResourceSpec, completed_resources
from scheduler.plugins.resources.scoring import (
    Column,
    ResourceBlock,
    ResourceTerm,
    ResourceTerms,
    block_of,
    bounded,
    requested_columns,
    with_devices,
)

_Floats = npt.NDArray[np.float64]
_NO_CHANGE = 50 + 50 // 2


class NodeResourcesBalancedAllocationArgs(msgspec.Struct, frozen=True, rename="camel"):
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin):
    """See docs/kube-scheduler/plugins.md §3.9. Arithmetic is in float64, in kube-scheduler's order of operations."""

    name = "NodeResourcesBalancedAllocation"
    Args = NodeResourcesBalancedAllocationArgs
    reads = Reads.NODE | Reads.USAGE
    fragment_reads = FragmentReads.TEMPLATE
    counts_pods = False
    stays_in_range = True

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None = None) -> None:
        super().__init__(args or NodeResourcesBalancedAllocationArgs())
        self._names = tuple(spec.name for spec in completed_resources(self.args.resources))

    @classmethod
    def validate_args(cls, args: NodeResourcesBalancedAllocationArgs, path: str) -> tuple[tuple[str, str], ...]:
        resources = completed_resources(args.resources)
        faults = [
            invalid(f"{path}.resources[{index}].weight", spec.weight, "must be 1")
            for index, spec in enumerate(resources)
            if spec.weight != 1
        ]
        faults += distinct(f"{path}.resources", [spec.name for spec in resources], "name")
        return tuple((fault.path, fault.message) for fault in faults)

    def fragment(self, pod: PodInfo, view: View) -> Hashable:
        charged = pod.charged
        return tuple([charged.amount(name) for name in self._names])

    def stamp(self, fragment: Hashable, view: View) -> Hashable:
        return tallies_stamp(view, self._names)

    def pre_score(self, pod: PodInfo, view: View, rows: Rows) -> State | Skip | Refusal:
        charged = pod.charged
        terms = [ResourceTerm(name, charged.amount(name)) for name in self._names]
        if not any(term.own for term in terms):
            return SKIP
        return ResourceTerms.of([term for term in terms if term.own or not is_scalar_resource(term.name)])

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        assert isinstance(state, ResourceTerms)
        block = block_of(state, view, rows, with_defaults=False)
        return _score_of_two(block, state.own) if len(state.terms) == 2 else _score_of_many(block, state.own)

    def score_row(self, state: State, pod: PodInfo, view: View, row: int) -> int:
        return self.score_few(state, pod, view, (row,))[0]

    def score_few(self, state: State, pod: PodInfo, view: View, rows: Sequence[int]) -> list[int]:
        assert isinstance(state, ResourceTerms)
        if len(state.terms) == 2:
            return _few_of_two(*state.terms, view, rows)
        return [_row_of_many(state.terms, view, row) for row in rows]

    def events(self) -> tuple[EventRegistration, ...]:
        return ()


def _columns(view: View, name: str) -> tuple[Column, Column]:
    own = requested_columns(view.table, name)
    return with_devices(view, name, own) if view.devices.classes.by_resource else own


def _balance(fractions: list[float]) -> int:
    """The evenness of a node's resource use, 0..100."""
    count = len(fractions)
    if count < 2:
        deviation = 0.0
    elif count == 2:
        deviation = abs(fractions[0] - fractions[1]) / 2
    else:
        total = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / count
        squares = 0.0
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / count)
    return int((1 - deviation) * 100.0)


def _row_of_many(terms: tuple[ResourceTerm, ...], view: View, row: int) -> int:
    before: list[float] = []
    after: list[float] = []
    for term in terms:
        columns = _columns(view, term.name)
        allocatable = float(columns[0].item(row))
        if allocatable:
            requested = columns[1].item(row)
            before.append(min(float(requested) / allocatable, 1.0))
            after.append(min(float(requested + term.own) / allocatable, 1.0))
    return _bounded(50 + (50 + _balance(after) - _balance(before)) // 2)


def _bounded(score: int) -> int:
    """A score from 0 to 100 also where the sum of what pods request begins again below zero, which fails the pod in
    kube-scheduler 1.36: "invalid score"."""
    return min(max(score, 0), MAX_NODE_SCORE)


def _few_of_two(one: ResourceTerm, other: ResourceTerm, view: View, rows: Sequence[int]) -> list[int]:
    """The common case of two resources without lists or calls: it dominates the cost of a changed row."""
    allocatable_one, requested_one = _columns(view, one.name)
    allocatable_other, requested_other = _columns(view, other.name)
    own_one, own_other = one.own, other.own
    scores = []
    for row in rows:
        whole_one, whole_other = float(allocatable_one.item(row)), float(allocatable_other.item(row))
        if not whole_one or not whole_other:
            scores.append(_NO_CHANGE)
            continue
        taken_one, taken_other = requested_one.item(row), requested_other.item(row)
        before_one, before_other = taken_one / whole_one, taken_other / whole_other
        after_one, after_other = (taken_one + own_one) / whole_one, (taken_other + own_other) / whole_other
        if after_one > 1.0:
            before_one, after_one = min(before_one, 1.0), 1.0
        if after_other > 1.0:
            before_other, after_other = min(before_other, 1.0), 1.0
        before = int((1 - abs(before_one - before_other) / 2) * 100.0)
        after = int((1 - abs(after_one - after_other) / 2) * 100.0)
        score = 50 + (50 + after - before) // 2
        scores.append(score if 0 <= score <= MAX_NODE_SCORE else _bounded(score))
    return scores


def _score_of_two(block: ResourceBlock, own: Block) -> Scores:
    fractions = _fractions(block, own)
    balances = fractions[:, 0] - fractions[:, 1]
    np.abs(balances, out=balances)
    balances *= 0.5
    np.subtract(1, balances, out=balances)
    balances *= 100.0
    after, before = balances.astype(np.int64)
    scores = _scores_of(after - before)
    if not block.is_everywhere:
        scores[(block.allocatable == 0).any(axis=0)] = _NO_CHANGE
    return scores


def _scores_of(gain: Scores) -> Scores:
    """50 + (50 + gain) // 2, ``_bounded``."""
    return bounded((gain + 150) >> 1)


def _fractions(block: ResourceBlock, own: Block) -> _Floats:
    """The requested shares, by resource and row: with the pod, and without it."""
    fractions = np.empty((2, *block.used.shape))
    np.divide(block.used + own, block.divisor, out=fractions[0])
    np.divide(block.used, block.divisor, out=fractions[1])
    return np.minimum(fractions, 1.0, out=fractions)


def _score_of_many(block: ResourceBlock, own: Block) -> Scores:
    after, before = _fractions(block, own)
    counted = block.allocatable != 0
    return _scores_of(_balance_of_many(after, counted) - _balance_of_many(before, counted))


def _balance_of_many(fractions: _Floats, counted: npt.NDArray[np.bool_]) -> Scores:
    """``_balance`` of each row; ``counted`` selects the resources of each row. Sums are taken in order of resources."""
    count = np.zeros(len(counted[0]), np.int64)
    total = np.zeros(len(count))
    largest = np.zeros(len(count))
    smallest = np.ones(len(count))
    for column, counts in zip(fractions, counted, strict=True):
        count += counts
        total += np.where(counts, column, 0.0)
        largest = np.maximum(largest, np.where(counts, column, 0.0))
        smallest = np.minimum(smallest, np.where(counts, column, 1.0))
    divisor = np.maximum(count, 1)
    mean = total / divisor
    squares = np.zeros(len(count))
    for column, counts in zip(fractions, counted, strict=True):
        squares += np.where(counts, (column - mean) * (column - mean), 0.0)
    deviation = np.where(count > 2, np.sqrt(squares / divisor), np.where(count == 2, (largest - smallest) / 2, 0.0))
    return ((1 - deviation) * 100.0).astype(np.int64)
