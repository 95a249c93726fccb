"""A pod's spread constraints: its own, or defaults with a deduced selector (docs/kube-scheduler/plugins.md §3.12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, cast

import msgspec
import numpy as np

from scheduler.cluster.interning import ABSENT
from scheduler.cluster.node_matching import Mask, matches_required, tolerated_taint_sets
from scheduler.cluster.pod_info import NOT_WORKED_OUT, PodInfo
from scheduler.cluster.row_counts import RowCounts
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View
from scheduler.objects.memo import has_many_parts
from scheduler.objects.node_selectors import RequiredNodeAffinity
from scheduler.objects.pod import Toleration, TopologySpreadConstraint
from scheduler.objects.selectors import (
    EVERYTHING,
    Selector,
    SelectorError,
    combined,
    equality_selector,
    is_very_long,
    parse_selector,
    parse_selector_in_steps,
)
from scheduler.objects.steps import Pace, Steps, run_to_end
from scheduler.plugins.spread.args import DO_NOT_SCHEDULE, HOSTNAME_KEY, SCHEDULE_ANYWAY
from scheduler.plugins.spread.owners import workload_selector
from scheduler.plugins.spread.recount import CountedQuery

CONSTRAINTS_A_SLICE = 1_000
"""Constraints that are parsed between two pauses, in some 10 ms."""
_HONOR = "Honor"
_IGNORE = "Ignore"


class Constraint(msgspec.Struct, frozen=True, gc=False):
    """One constraint, parsed."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honors_affinity: bool
    """Whether only nodes count that the pod's node selector and required node affinity accept."""
    honors_taints: bool
    """Whether only nodes count whose taints the pod tolerates."""

    @property
    def is_per_node(self) -> bool:
        return self.topology_key == HOSTNAME_KEY

    def live_tally(self, namespace: str, view: View) -> RowCounts | None:
        """The number of matching pods on each row, without those being deleted; None if there are none at all.

        The empty selector counts none, though it matches every pod, as in kube-scheduler 1.36.
        """
        if self.selector.is_everything or self.selector.selects_nothing:
            return None
        return view.pod_counts.live_tally(view.pod_counts.intern(frozenset((namespace,)), self.selector))

    def query(self, namespace: str, mask: Mask | None, view: View) -> CountedQuery | None:
        """What ``live_tally`` counts, with the rows that count here; None if there is nothing to count."""
        if self.selector.is_everything or self.selector.selects_nothing:
            return None
        query_id = view.pod_counts.intern(frozenset((namespace,)), self.selector)
        return CountedQuery(query_id, view.pod_counts.version(query_id), mask)

    def live_tally_in_steps(self, namespace: str, view: View, pace: Pace) -> Steps[RowCounts | None]:
        """The same for one of very many constraints: with pauses, and without a kept counter for each. The thousands of
        one pod would evict those of all others."""
        if self.selector.is_everything or self.selector.selects_nothing:
            return None
        counts = view.pod_counts
        return (yield from counts.count_in_steps(frozenset((namespace,)), self.selector, pace, live_only=True))

    def is_nowhere(self, table: NodeTable) -> bool:
        """Whether no node has the topology key."""
        return table.narrow_rows(self.topology_key) == ()


_Parsed: TypeAlias = dict[str, tuple[Constraint, ...] | SelectorError]
"""``whenUnsatisfiable`` → the constraints, or what is wrong with one of them."""


class Eligibility(msgspec.Struct, frozen=True, gc=False):
    """A pod's node affinity and tolerations, which constraints may honour. Each constraint may count other nodes."""

    required: RequiredNodeAffinity
    tolerations: tuple[Toleration, ...]
    comparison_operators: bool
    """Whether the operators Gt and Lt of tolerations count."""
    node_scope: Selector = EVERYTHING
    """What the profile requires of nodes, beside the pod; honoured where the pod's node affinity is."""

    def mask(self, constraint: Constraint, table: NodeTable) -> Mask | None:
        """Mask of the rows that count for the constraint; None = all."""
        mask: Mask | None = None
        if constraint.honors_affinity and not self.required.is_everything:
            mask = matches_required(table, self.required, slice(0, table.size))
        if constraint.honors_affinity and not self.node_scope.is_everything:
            mask = both(mask, table.selected(self.node_scope))
        if constraint.honors_taints:
            accepts = self._tolerated_sets(table)
            if not accepts.all():
                tolerable = accepts.take(table.taint_set)
                mask = tolerable if mask is None else mask & tolerable
        return mask

    def accepts(self, constraint: Constraint, table: NodeTable, row: int) -> bool:
        """Whether one row, with a node, counts for the constraint."""
        node = table.nodes[row]
        if node is None:
            return False
        labels = node.metadata.labels
        if constraint.honors_affinity and not (
            self.required.matches(labels, node.metadata.name) and self.node_scope.matches(labels)
        ):
            return False
        return not constraint.honors_taints or bool(self._tolerated_sets(table)[table.taint_set[row]])

    def _tolerated_sets(self, table: NodeTable) -> Mask:
        return tolerated_taint_sets(table, self.tolerations, comparison_operators=self.comparison_operators)


class Countable:
    """The rows that count for a constraint, worked out once for all constraints that honour the same."""

    __slots__ = ("_eligibility", "_known", "_table")

    def __init__(self, eligibility: Eligibility, table: NodeTable) -> None:
        self._eligibility = eligibility
        self._table = table
        self._known: dict[tuple[bool, bool], Mask | None] = {}

    def rows(self, constraint: Constraint) -> Mask | None:
        """A mask; None = all rows. Do not change it."""
        honoured = constraint.honors_affinity, constraint.honors_taints
        if honoured not in self._known:
            self._known[honoured] = self._eligibility.mask(constraint, self._table)
        return self._known[honoured]


def eligibility_of(pod: PodInfo, comparison_operators: bool, node_scope: Selector) -> Eligibility:
    return Eligibility(pod.required_node_affinity, pod.pod.spec.tolerations, comparison_operators, node_scope)


def own_constraints(pod: PodInfo, action: str, *, reads_label_keys: bool) -> tuple[Constraint, ...]:
    """The pod's own constraints with this ``whenUnsatisfiable``. Raises SelectorError.

    ``reads_label_keys``: whether ``matchLabelKeys`` count (the gate MatchLabelKeysInPodTopologySpread).
    """
    written = pod.pod.spec.topology_spread_constraints
    if not are_long(pod):
        labels = pod.labels if reads_label_keys else {}
        return tuple([_parsed(one, _selector(one, labels)) for one in written if one.when_unsatisfiable == action])
    if pod.spread_constraints is NOT_WORKED_OUT:
        run_to_end(parse_in_steps(pod, reads_label_keys=reads_label_keys))
    parsed = cast(_Parsed, pod.spread_constraints)[action]
    if isinstance(parsed, SelectorError):
        raise parsed
    return parsed


def are_long(pod: PodInfo) -> bool:
    """Whether the pod's own constraints are parsed once and remembered, with pauses if ``parse_in_steps`` is asked."""
    written = pod.pod.spec.topology_spread_constraints
    return has_many_parts(written) or any(is_very_long(one.label_selector) for one in written)


def parse_in_steps(pod: PodInfo, *, reads_label_keys: bool) -> Steps[None]:
    """Parse many constraints, with pauses, and remember them: 8,000 of 1.5 MB take some 100 ms."""
    written = pod.pod.spec.topology_spread_constraints
    labels = pod.labels if reads_label_keys else {}
    found: _Parsed = {}
    for action in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY):
        parsed: list[Constraint] = []
        try:
            for number, one in enumerate([one for one in written if one.when_unsatisfiable == action], start=1):
                selector = yield from parse_selector_in_steps(one.label_selector)
                parsed.append(_parsed(one, _with_own_labels(one, labels, selector)))
                if number % CONSTRAINTS_A_SLICE == 0:
                    yield
            found[action] = tuple(parsed)
        except SelectorError as error:
            found[action] = error
    pod.spread_constraints = found


def default_constraints(
    defaults: Iterable[TopologySpreadConstraint], action: str, pod: PodInfo, view: View
) -> tuple[Constraint, ...]:
    """The default constraints with this action, for a pod without its own; empty without a workload's selector."""
    wanted = [one for one in defaults if one.when_unsatisfiable == action]
    if not wanted:
        return ()
    selector = workload_selector(pod, view)
    if selector.is_everything:
        return ()
    return tuple([_parsed(one, selector) for one in wanted])


def rows_with_all_keys(constraints: Iterable[Constraint], table: NodeTable) -> Mask | None:
    """Mask of the rows whose nodes have every topology key; None = all rows."""
    mask: Mask | None = None
    keys = dict.fromkeys(constraint.topology_key for constraint in constraints)
    if any(table.narrow_rows(key) == () for key in keys):
        return np.zeros(table.size, np.bool_)
    for key in keys:
        has_key: Mask = table.label(key) != ABSENT
        mask = has_key if mask is None else mask & has_key
    return None if mask is None or bool(mask.all()) else mask


def both(one: Mask | None, other: Mask | None) -> Mask | None:
    """The intersection of two masks, where None is all rows."""
    if one is None or other is None:
        return other if one is None else one
    return np.logical_and(one, other)


def _selector(written: TopologySpreadConstraint, labels: Mapping[str, str]) -> Selector:
    return _with_own_labels(written, labels, parse_selector(written.label_selector))


def _with_own_labels(written: TopologySpreadConstraint, labels: Mapping[str, str], selector: Selector) -> Selector:
    """The selector, and the values that ``labels`` has for the constraint's ``matchLabelKeys``."""
    if not written.match_label_keys:
        return selector
    fixed = {key: labels[key] for key in written.match_label_keys if key in labels}
    return combined(equality_selector(fixed), selector) if fixed else selector


def _parsed(written: TopologySpreadConstraint, selector: Selector) -> Constraint:
    return Constraint(
        written.max_skew,
        written.topology_key,
        selector,
        1 if written.min_domains is None else written.min_domains,
        (written.node_affinity_policy or _HONOR) == _HONOR,
        (written.node_taints_policy or _IGNORE) == _HONOR,
    )
