"""PodTopologySpread's states, computed once per pod (docs/kube-scheduler/plugins.md §3.12)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.domains import DomainCounts, count_domains, widened
from scheduler.cluster.interning import ABSENT
from scheduler.cluster.node_matching import Mask
from scheduler.cluster.pod_counts import Counts
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.row_counts import RowCounts
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View
from scheduler.framework.plugin import Rows, Scores, State
from scheduler.plugins.go_math import go_log, go_round
from scheduler.plugins.spread.constraints import Constraint, Eligibility, both, rows_with_all_keys

MISSING_KEY, TOO_UNEVEN = 1, 2
"""Codes of refusals."""


# --- filter -----------------------------------------------------------------------------------------------------------


class HardConstraint(Struct, frozen=True):
    """A DoNotSchedule constraint with its counts."""

    constraint: Constraint
    matches_itself: bool
    counts: DomainCounts
    """The number of matching pods by domain; 0 if the domain has no node that counts."""
    present: npt.NDArray[np.bool_]
    """Whether a domain has a node that counts, by value id."""
    domains: int
    """The number of domains with a node that counts."""
    lowest: int
    """The smallest count among those domains; 0 if there are fewer than the constraint's ``minDomains``."""

    def max_before(self) -> int:
        """The largest number of matching pods with which a domain can take the pod."""
        return self.constraint.max_skew - int(self.matches_itself) + self.lowest

    def changed(self, value_id: int, sign: int, table: NodeTable) -> HardConstraint:
        counts = widened(self.counts, table, self.constraint.topology_key).copy()
        counts[value_id] += sign
        present = self.present
        lowest = self.lowest
        if self.domains >= self.constraint.min_domains:
            before, after = int(counts[value_id]) - sign, int(counts[value_id])
            if after < lowest:
                lowest = after
            elif before == lowest:
                lowest = int(counts[: len(present)][present].min())
        return HardConstraint(self.constraint, self.matches_itself, counts, present, self.domains, lowest)


def hard_constraint(
    constraint: Constraint, eligibility: Eligibility, with_keys: Mask | None, pod: PodInfo, view: View
) -> HardConstraint:
    """Counts a constraint. ``with_keys``: mask of the rows with the keys of all hard constraints, None = all."""
    table = view.table
    key = constraint.topology_key
    ids = table.label(key)
    width = len(table.label_values(key))
    mask = both(with_keys, eligibility.mask(constraint, table))
    present = np.bincount(ids if mask is None else ids[mask], minlength=width) > 0
    present[ABSENT] = False
    live = constraint.live_tally(pod.namespace, view)
    counts = np.zeros(width, np.int64) if live is None else count_domains(table, key, live, mask)
    domains = int(np.count_nonzero(present))
    lowest = 0 if domains < constraint.min_domains or not domains else int(counts[present].min())
    return HardConstraint(constraint, constraint.selector.matches(pod.labels), counts, present, domains, lowest)


class SpreadFilterState(State):
    __slots__ = ("_eligibility", "_namespace", "hard")

    def __init__(self, namespace: str, eligibility: Eligibility, hard: tuple[HardConstraint, ...]) -> None:
        self._namespace = namespace
        self._eligibility = eligibility
        self.hard = hard

    def with_pod(self, view: View, row: int, other: PodInfo, sign: int) -> SpreadFilterState:
        """The state with a pod added or removed. As in kube-scheduler 1.36, terminating pods change the counts like
        others, though they were never counted, and so do the pods of the empty selector."""
        if self.ignores(other):
            return self
        table = view.table
        value_ids = [int(table.label(one.constraint.topology_key)[row]) for one in self.hard]
        if ABSENT in value_ids:
            return self
        hard = tuple(
            [
                one.changed(value_id, sign, table)
                if one.constraint.selector.matches(other.labels)
                and self._eligibility.accepts(one.constraint, table, row)
                else one
                for one, value_id in zip(self.hard, value_ids, strict=True)
            ]
        )
        return SpreadFilterState(self._namespace, self._eligibility, hard)

    def ignores(self, other: PodInfo) -> bool:
        """Whether the pod counts for no constraint on any node, so that ``with_pod`` changes nothing."""
        return other.namespace != self._namespace or not any(
            one.constraint.selector.matches(other.labels) for one in self.hard
        )

    def codes(self, table: NodeTable, rows: Rows) -> npt.NDArray[np.int16]:
        """The refusal code of each of ``rows``, by the first constraint that refuses it, 0 = fits."""
        codes: npt.NDArray[np.int16] | None = None
        for one in reversed(self.hard):
            key = one.constraint.topology_key
            counts = widened(one.counts, table, key)
            by_value = np.zeros(len(counts), np.int16)
            by_value[counts > one.max_before()] = TOO_UNEVEN
            by_value[ABSENT] = MISSING_KEY
            own = by_value.take(table.label(key)[rows])
            codes = own if codes is None else np.where(own != 0, own, codes)
        return np.zeros(len(table.exists[rows]), np.int16) if codes is None else codes

    def code(self, table: NodeTable, row: int) -> int:
        """The refusal code of one row."""
        for one in self.hard:
            value_id = int(table.label(one.constraint.topology_key)[row])
            if value_id == ABSENT:
                return MISSING_KEY
            count = int(one.counts[value_id]) if value_id < len(one.counts) else 0
            if count > one.max_before():
                return TOO_UNEVEN
        return 0


# --- score ------------------------------------------------------------------------------------------------------------


class SoftConstraint(Struct, frozen=True):
    """A ScheduleAnyway constraint with its contributions to the score."""

    topology_key: str
    by_value: npt.NDArray[np.float64] | None
    """Its contribution to the score by value id, 0 for nodes without the key; None if it is counted per node."""
    by_row: npt.NDArray[np.float64] | None
    """Its contribution to the score by row, if it is counted per node."""


class SpreadScoreState(State):
    __slots__ = ("ignored", "soft")

    def __init__(self, soft: tuple[SoftConstraint, ...], ignored: Mask | None) -> None:
        self.soft = soft
        self.ignored = ignored
        """Mask of the rows that lack a key and are not scored; None = no row."""

    def scores(self, table: NodeTable, rows: Rows) -> Scores:
        """The raw scores; lower is better."""
        total = np.zeros(len(table.exists[rows]), np.float64)
        # One constraint after the other: the result depends on the order of floating-point additions.
        for one in self.soft:
            if one.by_row is not None:
                total += one.by_row[rows]
            elif one.by_value is not None:
                total += one.by_value.take(table.label(one.topology_key)[rows])
        if self.ignored is not None:
            total[self.ignored[rows]] = 0.0
        return go_round(total)


def score_state(
    constraints: tuple[Constraint, ...],
    eligibility: Eligibility,
    requires_all_keys: bool,
    pod: PodInfo,
    view: View,
    feasible: Rows,
) -> SpreadScoreState:
    """Counts the soft constraints. ``requires_all_keys``: nodes that lack a key are ignored."""
    table = view.table
    with_keys = rows_with_all_keys(constraints, table) if requires_all_keys else None
    placing: Mask | None = None
    if isinstance(feasible, slice) or len(feasible) < table.size:
        placing = np.zeros(table.size, np.bool_)
        placing[feasible] = True
    placing = both(placing, with_keys)
    soft = tuple(
        [_soft_constraint(one, eligibility, with_keys, placing, requires_all_keys, pod, view) for one in constraints]
    )
    return SpreadScoreState(soft, None if with_keys is None else ~with_keys)


def _soft_constraint(
    constraint: Constraint,
    eligibility: Eligibility,
    with_keys: Mask | None,
    placing: Mask | None,
    requires_all_keys: bool,
    pod: PodInfo,
    view: View,
) -> SoftConstraint:
    """``placing``: the feasible rows that are scored, None = all rows."""
    table = view.table
    key = constraint.topology_key
    ids = table.label(key)
    if not constraint.is_per_node and len(table.label_values(key)) == 1:
        # No node has the key, so there is no domain whose pods would have to be counted.
        return SoftConstraint(key, np.zeros(1, np.float64), None)
    live = constraint.live_tally(pod.namespace, view)
    if constraint.is_per_node:
        size = table.size if placing is None else int(np.count_nonzero(placing))
        by_row = _worth(np.zeros(table.size, np.int64) if live is None else live.array(table.size), constraint, size)
        by_row[ids == ABSENT] = 0.0
        return SoftConstraint(key, None, by_row)
    values = table.label_values(key)
    empty = values.find("")
    width = len(values)
    present = np.bincount(ids if placing is None else ids[placing], minlength=width) > 0
    if live is None:
        counts = np.zeros(width, np.int64)
    else:
        counts = count_domains(table, key, live, both(with_keys, eligibility.mask(constraint, table)))
    if not requires_all_keys and empty != ABSENT:
        # A node without the label and one with an empty value are in one domain, named "".
        present[ABSENT], present[empty] = bool(present[ABSENT] or present[empty]), False
        counts[empty] += _unlabelled(constraint, eligibility, ids, live, table)
    by_value = _worth(counts, constraint, int(np.count_nonzero(present)))
    by_value[ABSENT] = 0.0
    return SoftConstraint(key, by_value, None)


def _unlabelled(
    constraint: Constraint,
    eligibility: Eligibility,
    ids: npt.NDArray[np.int32],
    live: RowCounts | None,
    table: NodeTable,
) -> int:
    """The number of matching pods on nodes without the label."""
    if live is None:
        return 0
    mask: Mask = (ids == ABSENT) & table.exists
    eligible = both(mask, eligibility.mask(constraint, table))
    return int(live.array(table.size)[eligible].sum())


def _worth(counts: Counts, constraint: Constraint, size: int) -> npt.NDArray[np.float64]:
    """The contribution of each count to the score; it grows with the number of domains."""
    return counts.astype(np.float64) * go_log(size + 2) + float(constraint.max_skew - 1)
