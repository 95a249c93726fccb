"""A pod's spread constraints: its own, or defaults with a deduced selector (docs/kube-scheduler/plugins.md §3.12)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from scheduler.cluster.interning import ABSENT
from scheduler.cluster.node_matching import Mask, matches_required, tolerated_taint_sets
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.row_counts import RowCounts
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View
from scheduler.objects.node_selectors import RequiredNodeAffinity
from scheduler.objects.pod import Toleration, TopologySpreadConstraint
from scheduler.objects.selectors import EVERYTHING, Selector, combined, equality_selector, parse_selector
from scheduler.plugins.spread.args import HOSTNAME_KEY
from scheduler.plugins.spread.owners import workload_selector

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


def eligibility_of(pod: PodInfo, comparison_operators: bool, node_scope: Selector) -> Eligibility:
    return Eligibility(pod.required_node_affinity, pod.pod.spec.tolerations, comparison_operators, node_scope)


def own_constraints(pod: PodInfo, action: str) -> tuple[Constraint, ...]:
    """The pod's own constraints with this ``whenUnsatisfiable``. Raises SelectorError."""
    written = pod.pod.spec.topology_spread_constraints
    return tuple([_parsed(one, _selector(one, pod)) for one in written if one.when_unsatisfiable == action])


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
    for key in dict.fromkeys(constraint.topology_key for constraint in constraints):
        has_key: Mask = table.label(key) != ABSENT
        mask = has_key if mask is None else mask & has_key
    return None if mask is None or bool(mask.all()) else mask


def both(one: Mask | None, other: Mask | None) -> Mask | None:
    """The intersection of two masks, where None is all rows."""
    if one is None or other is None:
        return other if one is None else one
    return np.logical_and(one, other)


def _selector(written: TopologySpreadConstraint, pod: PodInfo) -> Selector:
    selector = parse_selector(written.label_selector)
    if not written.match_label_keys:
        return selector
    labels = pod.labels
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
