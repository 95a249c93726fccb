"""The scoring strategies of NodeResourcesFit (docs/kube-scheduler/plugins.md §3.8).

Each resource scores 0..100; the node's score is their weighted mean, without resources that the node does not have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.node_columns import USUAL_RESOURCES, Block
from scheduler.cluster.offer import Offer
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View
from scheduler.framework.plugin import MAX_NODE_SCORE, Rows, Scores, State
from scheduler.objects.quantity import MAX_INT64, in_int64
from scheduler.objects.resources import CPU, MEMORY, PODS
from scheduler.plugins.resources.device_class_resources import device_columns

Column = npt.NDArray[np.int64]

_EXACT_IN_FLOATS = 2**46
"""Below this, a percentage computed in float64 and truncated equals integer division."""
_EXACT_IN_INT64 = 2**56
"""Below this, a hundred times the value fits an int64."""


class Strategy(Enum):
    """A scoring strategy; the value is its name in the configuration."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"
    REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


class ResourceTerm(Struct, frozen=True):
    """One resource in a score: the pod's request and the weight."""

    name: str
    own: int
    weight: int = 1


class ResourceTerms(Struct, State, frozen=True, eq=False):
    """``own`` and ``weights``: those of the terms, int64, one line each and one column."""

    terms: tuple[ResourceTerm, ...]
    own: Block
    weights: Block
    total_weight: int
    are_usual: bool
    """Whether they are of USUAL_RESOURCES, in that order."""

    @classmethod
    def of(cls, terms: Sequence[ResourceTerm]) -> ResourceTerms:
        own = np.array([(term.own,) for term in terms], np.int64)
        weights = [term.weight for term in terms]
        are_usual = tuple([term.name for term in terms]) == USUAL_RESOURCES
        return cls(tuple(terms), own, np.array(weights, np.int64).reshape(-1, 1), sum(weights), are_usual)


class ResourceBlock(NamedTuple):
    """Amounts of resources on some rows: one line a term, one entry a row. Don't mutate them."""

    allocatable: Block
    used: Block
    divisor: npt.NDArray[np.float64]
    """The allocatable amounts, 1 where there is nothing."""
    is_everywhere: bool
    """Whether every node has some of each."""
    largest: int
    """The largest allocatable amount."""


class ResourceScoring(Struct, frozen=True):
    """A strategy. ``shape``: RequestedToCapacityRatio's scores by percent of utilization, 101 int64."""

    strategy: Strategy
    shape: Scores | None = None

    def score(self, terms: ResourceTerms, view: View, rows: Rows) -> Scores:
        """The scores of ``rows``, int64; 0 where no resource counts."""
        if not terms.terms:
            return np.zeros(len(view.table.pod_count[rows]), np.int64)
        block = block_of(terms, view, rows, with_defaults=True)
        requested = block.used + terms.own
        is_beyond = np.minimum.reduce(requested, axis=None, initial=0) < 0
        percents = self._percents_beyond(block, requested) if is_beyond else self._percents(block, requested)
        if self.shape is not None:
            return _shaped(percents, self.shape, terms, block)
        if terms.total_weight != len(terms.terms):
            percents *= terms.weights
        total: Scores = np.add.reduce(percents)
        if block.is_everywhere:
            mean = total // terms.total_weight
        else:
            # Where a node has nothing of a resource it scores 0 here; only its weight must not count.
            weights = np.add.reduce(terms.weights * (block.allocatable > 0))
            mean = total // np.maximum(weights, 1)
        return bounded(mean) if is_beyond or block.largest >= _EXACT_IN_FLOATS else mean

    def score_few(self, terms: tuple[ResourceTerm, ...], view: View, rows: Sequence[int]) -> list[int]:
        """As ``score`` with plain integers, which is quicker for few rows."""
        columns = []
        has_devices = bool(view.devices.classes.by_resource)
        for term in terms:
            allocatable_of, used_of = scored_columns(view.table, term.name)
            if has_devices:
                allocatable_of, used_of = with_devices(view, term.name, (allocatable_of, used_of))
            columns.append((allocatable_of, used_of, term.own, term.weight))
        is_least = self.strategy is Strategy.LEAST_ALLOCATED
        shape = self.shape
        scores = []
        for row in rows:
            total = weights = 0
            for allocatable_of, used_of, own, weight in columns:
                allocatable = allocatable_of.item(row)
                if not allocatable:
                    continue
                requested = used_of.item(row) + own
                if not 0 <= requested <= MAX_INT64 or allocatable >= _EXACT_IN_INT64:
                    percent = self._beyond_int64(allocatable, requested)
                elif is_least:
                    percent = (
                        (allocatable - requested) * MAX_NODE_SCORE // allocatable if requested < allocatable else 0
                    )
                else:
                    percent = min(requested, allocatable) * MAX_NODE_SCORE // allocatable
                if shape is not None:
                    percent = shape.item(percent)
                    if percent <= 0:
                        continue
                total += percent * weight
                weights += weight
            if not weights:
                scores.append(0)
            else:
                mean = total // weights if shape is None else _rounded(total / weights)
                scores.append(mean if 0 <= mean <= MAX_NODE_SCORE else min(max(mean, 0), MAX_NODE_SCORE))
        return scores

    def _percents_beyond(self, block: ResourceBlock, requested: Block) -> Scores:
        """``_percents``, where some sums begin again below 0."""
        beyond = np.nonzero(requested < 0)
        amounts = zip(block.allocatable[beyond].tolist(), requested[beyond].tolist(), strict=True)
        found = [self._beyond_int64(whole, amount) if whole else 0 for whole, amount in amounts]
        percents = self._percents(block, np.maximum(requested, 0))
        percents[beyond] = found
        return percents

    def _beyond_int64(self, allocatable: int, requested: int) -> int:
        """What a resource scores where the sum of what pods request, or a hundred times an amount, begins again at the
        other end of int64, as in kube-scheduler 1.36: maybe no percentage. Only the shape needs one."""
        requested = min(in_int64(requested), allocatable)
        part = allocatable - requested if self.strategy is Strategy.LEAST_ALLOCATED else requested
        product = in_int64(part * MAX_NODE_SCORE)
        score = product // allocatable if product >= 0 else -(-product // allocatable)
        return score if self.shape is None else min(max(score, 0), MAX_NODE_SCORE)

    def _percents(self, block: ResourceBlock, requested: Block) -> Scores:
        """By resource and row. ``requested``: with the pod, none below 0; used up."""
        if self.strategy is Strategy.LEAST_ALLOCATED:
            counted = np.maximum(np.subtract(block.allocatable, requested, out=requested), 0, out=requested)
        else:
            counted = np.minimum(requested, block.allocatable, out=requested)
        return _percents_of(counted, block)


def _shaped(percents: Scores, shape: Scores, terms: ResourceTerms, block: ResourceBlock) -> Scores:
    scores = shape[percents if block.largest < _EXACT_IN_INT64 else np.maximum(percents, 0)]
    scores[block.allocatable == 0] = 0
    # A resource with score 0 does not lower the mean either.
    weights = np.add.reduce((scores > 0) * terms.weights)
    mean = np.add.reduce(scores * terms.weights) / np.maximum(weights, 1)
    whole = np.floor(mean)
    # Rounds half away from zero, as Go does.
    rounded: Scores = (whole + (mean - whole >= 0.5)).astype(np.int64)
    return rounded


def bounded(scores: Scores) -> Scores:
    """Scores from 0 to 100, the same int64 array, also where amounts begin again at the other end of int64."""
    # As unsigned integers negative scores are above all others: one pass finds both.
    if int(np.maximum.reduce(scores.view(np.uint64), initial=0)) > MAX_NODE_SCORE:
        np.clip(scores, 0, MAX_NODE_SCORE, out=scores)
    return scores


def _percents_of(part: Block, block: ResourceBlock) -> Scores:
    """100 * part // whole for 0 <= part <= whole; 0 where whole is 0. The product begins again beyond int64."""
    if block.largest < _EXACT_IN_FLOATS:
        part *= MAX_NODE_SCORE
        quotient: Scores = (part / block.divisor).astype(np.int64)
        return quotient
    divisor = np.maximum(block.allocatable, 1)
    if block.largest < _EXACT_IN_INT64:
        return part * MAX_NODE_SCORE // divisor
    with np.errstate(over="ignore"):
        product = part * MAX_NODE_SCORE
    quotients: Scores = np.sign(product) * (np.abs(product) // divisor)
    return quotients


def block_of(terms: ResourceTerms, view: View, rows: Rows, *, with_defaults: bool) -> ResourceBlock:
    """What the terms' resources come to on these rows; ``with_defaults``: as in ``scored_columns``."""
    table = view.table
    if terms.are_usual and not view.devices.classes.by_resource:
        offer = table.usual_offer()
        allocatable, used = table.usual_at(rows, with_defaults=with_defaults)
        divisor = offer.divisor[:, rows] if isinstance(rows, slice) else offer.divisor.take(rows, axis=1)
        return ResourceBlock(allocatable, used, divisor, offer.is_everywhere, offer.largest)
    columns_of = scored_columns if with_defaults else requested_columns
    found = [_offered(view, term.name, columns_of(table, term.name)) for term in terms.terms]
    return ResourceBlock(
        np.array([allocatable[rows] for allocatable, _, _ in found]),
        np.array([used[rows] for _, used, _ in found]),
        np.array([offer.divisor[rows] for _, _, offer in found]),
        all(offer.is_everywhere for _, _, offer in found),
        max(offer.largest for _, _, offer in found),
    )


def _offered(view: View, name: str, own: tuple[Column, Column]) -> tuple[Column, Column, Offer]:
    """As ``with_devices``, with what is worked out of the allocatable amounts."""
    allocatable, used = with_devices(view, name, own)
    offer = view.table.offer(name, allocatable) if allocatable is own[0] else Offer(allocatable, 0)
    return allocatable, used, offer


def with_devices(view: View, name: str, own: tuple[Column, Column]) -> tuple[Column, Column]:
    """(allocatable, requested) of a resource: devices where a class stands for it and the node has none of it itself
    (docs/kube-scheduler/dra.md §13). ``own``: without devices."""
    if not view.devices.classes.by_resource:
        return own
    devices = device_columns(view, name)
    if devices is None:
        return own
    totals, held = devices
    is_by_devices = (own[0] == 0) & (totals > 0)
    return np.where(is_by_devices, totals, own[0]), np.where(is_by_devices, held, own[1])


def scored_columns(table: NodeTable, name: str) -> tuple[Column, Column]:
    """(allocatable, requested) of a resource, with defaults for pods that request no cpu or memory."""
    if name == CPU:
        return table.allocatable_cpu, table.non_zero_cpu
    if name == MEMORY:
        return table.allocatable_memory, table.non_zero_memory
    return requested_columns(table, name)


def requested_columns(table: NodeTable, name: str) -> tuple[Column, Column]:
    """(allocatable, requested) of a resource. Pods are no resource that is scored: 0, as in kube-scheduler 1.36."""
    if name == PODS:
        nothing = np.zeros(table.size, np.int64)
        return nothing, nothing
    return table.amounts(name)


def _rounded(mean: float) -> int:
    whole = math.floor(mean)
    return whole + (mean - whole >= 0.5)
