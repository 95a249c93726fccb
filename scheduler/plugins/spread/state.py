"""PodTopologySpread's states, computed once per pod (docs/kube-scheduler/plugins.md §3.12)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.domains import count_domains
from scheduler.cluster.interning import ABSENT
from scheduler.cluster.node_matching import Mask
from scheduler.cluster.pod_counts import Counts
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.row_counts import RowCounts
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View
from scheduler.framework.plugin import MAX_NODE_SCORE, Rows, Scores, State
from scheduler.framework.row_facts import FactColumn, FactualState, RowFacts
from scheduler.objects.memo import has_many_parts
from scheduler.objects.steps import Pace, Steps, run_to_end
from scheduler.plugins.go_math import go_log, go_round
from scheduler.plugins.spread.constraints import Constraint, Countable, Eligibility, both, rows_with_all_keys
from scheduler.plugins.spread.hard import MISSING_KEY, TOO_UNEVEN, HardConstraint
from scheduler.plugins.spread.recount import Basis, CountedQuery, Nodes, changes_by_value

# --- filter -----------------------------------------------------------------------------------------------------------


_NO_DOMAINS = np.zeros(1, np.int64), np.zeros(1, np.bool_)
"""Counts and presence where no node has the key."""
for _column in _NO_DOMAINS:
    _column.flags.writeable = False

_STEPS_A_SLICE = 10_000
_STEPS_A_CONSTRAINT = 20
"""A step matches a group of pods, in 1 to 3 µs, so a slice takes 10 to 30 ms."""


def filter_state(
    constraints: tuple[Constraint, ...], eligibility: Eligibility, pod: PodInfo, view: View
) -> SpreadFilterState:
    """The constraints with their counts."""
    with_keys = rows_with_all_keys(constraints, view.table)
    countable = Countable(eligibility, view.table)
    masks = [both(with_keys, countable.rows(one)) for one in constraints]
    hard = tuple(
        [
            _hard_constraint(one, mask, one.live_tally(pod.namespace, view), pod, view)
            for one, mask in zip(constraints, masks, strict=True)
        ]
    )
    queries = [one.query(pod.namespace, mask, view) for one, mask in zip(constraints, masks, strict=True)]
    nodes = Nodes.of(view.table, honors_taints=any(one.honors_taints for one in constraints))
    basis = Basis(nodes, tuple(queries))
    return SpreadFilterState(pod.namespace, eligibility, hard, basis)


def hard_constraints_in_steps(
    constraints: tuple[Constraint, ...], eligibility: Eligibility, pod: PodInfo, view: View
) -> Steps[tuple[HardConstraint, ...]]:
    """The constraints of ``filter_state`` for very many, with pauses. Most of their keys no node can have."""
    pace = Pace(_STEPS_A_SLICE)
    with_keys = rows_with_all_keys(constraints, view.table)
    countable = Countable(eligibility, view.table)
    found: list[HardConstraint] = []
    for one in constraints:
        if one.is_nowhere(view.table):
            pace.left -= 1
            found.append(HardConstraint(one, one.selector.matches(pod.labels), *_NO_DOMAINS, 0, 0))
        else:
            pace.left -= _STEPS_A_CONSTRAINT
            live = yield from one.live_tally_in_steps(pod.namespace, view, pace)
            found.append(_hard_constraint(one, both(with_keys, countable.rows(one)), live, pod, view))
        if pace.is_over:
            yield from pace.pause()
    return tuple(found)


def _hard_constraint(
    constraint: Constraint, mask: Mask | None, live: RowCounts | None, pod: PodInfo, view: View
) -> HardConstraint:
    """``mask``: of the rows that count for the constraint and have the keys of all hard ones, None = all. ``live``: the
    matching pods, None = none."""
    table = view.table
    key = constraint.topology_key
    ids = table.label(key)
    width = len(table.label_values(key))
    present = np.bincount(ids if mask is None else ids[mask], minlength=width) > 0
    present[ABSENT] = False
    counts = np.zeros(width, np.int64) if live is None else count_domains(table, key, live, mask)
    domains = int(np.count_nonzero(present))
    lowest = 0 if domains < constraint.min_domains or not domains else int(counts[present].min())
    return HardConstraint(constraint, constraint.selector.matches(pod.labels), counts, present, domains, lowest)


class SpreadFilterState(FactualState):
    """The hard constraints of one pod with the matching pods of each domain. Rows that lack a key refuse the pod."""

    __slots__ = ("_basis", "_by_value", "_eligibility", "_namespace", "hard")

    def __init__(
        self,
        namespace: str,
        eligibility: Eligibility,
        hard: tuple[HardConstraint, ...],
        basis: Basis | None = None,
    ) -> None:
        self._namespace = namespace
        self._eligibility = eligibility
        self.hard = hard
        self._basis = basis
        """None where pods were added or removed that are not there."""
        self._by_value: npt.NDArray[np.int16] | None = None
        """The codes that ``codes_by_value`` says; None: not worked out."""

    @property
    def nbytes(self) -> int:
        return sum(one.counts.nbytes + one.present.nbytes for one in self.hard)

    def recounted(self, view: View) -> SpreadFilterState | None:
        """The state as of now; None unless pods are all that changed."""
        basis = self._basis
        if basis is None or not basis.nodes.hold_in(view.table):
            return None
        hard: list[HardConstraint] = []
        queries: list[CountedQuery | None] = []
        by_value = self._by_value
        for one, query in zip(self.hard, basis.queries, strict=True):
            changed, now = one, None
            if query is not None:
                found = changes_by_value(query, one.constraint.topology_key, view)
                if found is None:
                    return None
                now, changes = found
                for value_id, sign in changes:
                    changed = changed.changed(value_id, sign, view.table)
                if by_value is not None and changes:
                    is_alike = changed.lowest == one.lowest
                    by_value = changed.codes_again(by_value, [each for each, _ in changes]) if is_alike else None
            hard.append(changed)
            queries.append(now)
        other = SpreadFilterState(
            self._namespace,
            self._eligibility,
            tuple(hard),
            Basis(basis.nodes, tuple(queries)),
        )
        other._by_value = by_value
        return other

    def with_pod(self, view: View, row: int, other: PodInfo, sign: int) -> SpreadFilterState:
        """The state with a pod added or removed. As in kube-scheduler 1.36, terminating pods change the counts like
        others, though they were never counted, and so do the pods of the empty selector."""
        if self.ignores(other):
            return self
        table = view.table
        value_ids: list[int] = []
        for one in self.hard:
            value_id = int(table.label(one.constraint.topology_key)[row])
            if value_id == ABSENT:
                return self
            value_ids.append(value_id)
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

    def row_facts(self, view: View) -> RowFacts:
        """The counts in each row's domains, and beside them in the others."""
        columns: dict[Hashable, FactColumn] = {}
        for place, one in enumerate(self.hard):
            columns |= {(place, name): column for name, column in one.facts(view.table).items()}
        of_all = [(one.constraint, one.matches_itself, one.has_domains_enough) for one in self.hard]
        return RowFacts((self._namespace, self._eligibility, *of_all), columns)

    def codes(self, table: NodeTable, rows: Rows) -> npt.NDArray[np.int16]:
        """The refusal code of each of ``rows``, by the first constraint that refuses it, 0 = fits."""
        codes: npt.NDArray[np.int16] | None = None
        # One whose key no node has refuses all rows that those before it have not refused.
        nowhere = next((place for place, one in enumerate(self.hard) if one.constraint.is_nowhere(table)), None)
        relevant = self.hard if nowhere is None else self.hard[: nowhere + 1]
        for one in reversed(relevant):
            own = one.codes_by_value(table).take(table.label(one.constraint.topology_key)[rows])
            codes = own if codes is None else np.where(own != 0, own, codes)
        return np.zeros(len(table.exists[rows]), np.int16) if codes is None else codes

    def codes_by_value(self, table: NodeTable) -> tuple[str, npt.NDArray[np.int16]] | None:
        """A topology key and the refusal code of each of its values by id; None if more than one constraint decides."""
        if len(self.hard) != 1:
            return None
        (one,) = self.hard
        if self._by_value is None:
            self._by_value = one.codes_by_value(table)
        return one.constraint.topology_key, self._by_value

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
    """The soft constraints of one pod with the matching pods of each domain."""

    __slots__ = ("ignored", "soft")

    def __init__(self, soft: tuple[SoftConstraint, ...], ignored: Mask | None) -> None:
        self.soft = soft
        self.ignored = ignored
        """Mask of the rows that lack a key and are not scored; None = no row."""

    @property
    def nbytes(self) -> int:
        return sum(one.by_row.nbytes for one in self.soft if one.by_row is not None)

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
    # Where no node has the key there is no domain whose pods would have to be counted.
    counted = [one for one in constraints if one.is_per_node or not one.is_nowhere(table)]
    scoring = _Scoring(
        Countable(eligibility, table), with_keys, placing, requires_all_keys, has_many_parts(constraints)
    )
    soft = tuple([_soft_constraint(one, scoring, pod, view) for one in counted])
    return SpreadScoreState(soft, None if with_keys is None else ~with_keys)


class _Scoring(NamedTuple):
    """What soft constraints count on."""

    countable: Countable
    with_keys: Mask | None
    placing: Mask | None
    """The feasible rows that are scored, None = all rows."""
    requires_all_keys: bool
    are_many: bool


def _soft_constraint(constraint: Constraint, scoring: _Scoring, pod: PodInfo, view: View) -> SoftConstraint:
    countable, with_keys, placing, requires_all_keys, are_many = scoring
    table = view.table
    key = constraint.topology_key
    ids = table.label(key)
    live = (
        run_to_end(constraint.live_tally_in_steps(pod.namespace, view, Pace(_STEPS_A_SLICE)))
        if are_many
        else constraint.live_tally(pod.namespace, view)
    )
    if constraint.is_per_node:
        size = table.size if placing is None else int(np.count_nonzero(placing))
        by_row = contributions(
            np.zeros(table.size, np.int64) if live is None else live.array(table.size), constraint, size
        )
        by_row[ids == ABSENT] = 0.0
        return SoftConstraint(key, None, by_row)
    values = table.label_values(key)
    empty = values.find("")
    width = len(values)
    present = np.bincount(ids if placing is None else ids[placing], minlength=width) > 0
    if live is None:
        counts = np.zeros(width, np.int64)
    else:
        counts = count_domains(table, key, live, both(with_keys, countable.rows(constraint)))
    if not requires_all_keys and empty != ABSENT:
        # A node without the label and one with an empty value are in one domain, named "".
        present[ABSENT], present[empty] = bool(present[ABSENT] or present[empty]), False
        counts[empty] += _unlabelled(countable.rows(constraint), ids, live, table)
    by_value = contributions(counts, constraint, int(np.count_nonzero(present)))
    by_value[ABSENT] = 0.0
    return SoftConstraint(key, by_value, None)


def _unlabelled(countable: Mask | None, ids: npt.NDArray[np.int32], live: RowCounts | None, table: NodeTable) -> int:
    """The number of matching pods on nodes without the label. ``countable``: mask of the rows that count."""
    if live is None:
        return 0
    mask: Mask = (ids == ABSENT) & table.exists
    eligible = both(mask, countable)
    return int(live.array(table.size)[eligible].sum())


def normalized(raw: Scores, counted: Scores) -> Scores:
    """Raw scores as shares of 100, the lowest of ``counted`` as the best."""
    highest = int(np.maximum.reduce(counted, initial=0))
    if highest == 0:
        return np.full(len(raw), MAX_NODE_SCORE, np.int64)
    shares: Scores = MAX_NODE_SCORE * (highest + int(np.minimum.reduce(counted)) - raw) // highest
    return shares


def contributions(counts: Counts, constraint: Constraint, size: int) -> npt.NDArray[np.float64]:
    """The contribution of each count to the score; it grows with the number of domains."""
    found: npt.NDArray[np.float64] = np.multiply(counts, go_log(size + 2), dtype=np.float64)
    if constraint.max_skew != 1:
        found += float(constraint.max_skew - 1)
    return found
