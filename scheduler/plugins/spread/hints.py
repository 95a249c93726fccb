"""PodTopologySpread's queueing hints (docs/kube-scheduler/plugins.md §3.12).

A hint sees no cluster, so it cannot deduce the selector of default constraints: for a pod without constraints of its
own, every pod of its namespace is assumed to match hard defaults. Nor can it tell whether any workload selects the pod:
if none does, as after the deletion of a Service, defaults do not apply, and the pod may fit on nodes without the keys.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import Hint, Wanted
from scheduler.objects.node import Node
from scheduler.objects.pod import TopologySpreadConstraint
from scheduler.objects.requirements import Operator
from scheduler.objects.selectors import EVERYTHING, Selector, SelectorError
from scheduler.plugins.spread.args import DO_NOT_SCHEDULE
from scheduler.plugins.spread.constraints import Constraint, own_constraints


class SpreadHints(Struct, frozen=True):
    """The hints. ``defaults``: the default constraints with DoNotSchedule; ``node_scope``: of the profile."""

    defaults: tuple[TopologySpreadConstraint, ...]
    node_scope: Selector = EVERYTHING
    reads_label_keys: bool = True

    def pod_changed(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
        """The hint for a pod that was added, deleted, or changed its labels or tolerations."""
        if any(other is not None and not _is_involved(other, pod) for other in (old, new)):
            return Hint.SKIP
        if not pod.pod.spec.topology_spread_constraints:
            return self._pod_changed_for_defaults(pod, old, new)
        try:
            constraints = own_constraints(pod, DO_NOT_SCHEDULE, reads_label_keys=self.reads_label_keys)
        except SelectorError:
            return Hint.QUEUE
        if old is None or new is None:
            other = new or old
            is_counted = other is not None and _some_match(constraints, other.labels)
            return Hint.QUEUE if is_counted else Hint.SKIP
        if _tolerations_changed(pod, old, new) and any(one.honors_taints for one in constraints):
            return Hint.QUEUE
        if old.labels == new.labels:
            return Hint.SKIP
        is_recounted = any(one.selector.matches(old.labels) != one.selector.matches(new.labels) for one in constraints)
        return Hint.QUEUE if is_recounted else Hint.SKIP

    def _pod_changed_for_defaults(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
        if not self.defaults:
            return Hint.SKIP
        if old is None or new is None or old.labels != new.labels:
            return Hint.QUEUE
        honors_taints = any(one.node_taints_policy == "Honor" for one in self.defaults)
        return Hint.QUEUE if honors_taints and _tolerations_changed(pod, old, new) else Hint.SKIP

    def keys_wanted(self, pod: PodInfo) -> Wanted | None:
        """What a pod must offer (``keys_offered``) for ``pod_changed`` to queue this one."""
        if not pod.pod.spec.topology_spread_constraints:
            return None if self.defaults else ()
        try:
            constraints = own_constraints(pod, DO_NOT_SCHEDULE, reads_label_keys=self.reads_label_keys)
        except SelectorError:
            return None
        conditions = tuple([_required_labels(pod.namespace, one.selector) for one in constraints])
        return conditions if all(conditions) else None

    def node_changed(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        """The hint for a node that was added, deleted, or changed its labels or taints."""
        own = pod.pod.spec.topology_spread_constraints
        keys = [one.topology_key for one in own or self.defaults if one.when_unsatisfiable == DO_NOT_SCHEDULE]
        may_be_free = not own and bool(keys)
        counted_before = old is not None and _has_all(keys, old)
        counts_now = new is not None and _has_all(keys, new)
        if old is None or new is None:
            return Hint.QUEUE if counted_before or counts_now or may_be_free else Hint.SKIP
        if counted_before != counts_now:
            return Hint.QUEUE
        before, after = old.metadata.labels, new.metadata.labels
        if self.node_scope.matches(before) != self.node_scope.matches(after):
            return Hint.QUEUE if keys else Hint.SKIP
        if old.spec.taints != new.spec.taints:
            return Hint.QUEUE if counts_now or may_be_free else Hint.SKIP
        is_moved = any(before.get(key) != after.get(key) for key in keys)
        return Hint.QUEUE if counts_now and is_moved else Hint.SKIP


def facet_of_pod(other: PodInfo) -> Hashable:
    """The part of a pod other than the waiting one that ``pod_changed`` reads."""
    return other.namespace, frozenset(other.labels.items()), _has_place(other)


def keys_offered(other: PodInfo) -> list[Hashable]:
    return [(other.namespace, *label) for label in other.labels.items()]


def _required_labels(namespace: str, selector: Selector) -> tuple[frozenset[Hashable], ...]:
    """Sets of keys, of each of which a pod that the selector matches offers one."""
    return tuple(
        [
            frozenset([(namespace, requirement.key, value) for value in requirement.values])
            for requirement in selector.requirements
            if requirement.operator is Operator.IN
        ]
    )


def _has_place(other: PodInfo) -> bool:
    return other.node_name != "" or other.pod.nominated_node_name != ""


def _is_involved(other: PodInfo, pod: PodInfo) -> bool:
    if other.uid == pod.uid:
        return True
    return other.namespace == pod.namespace and _has_place(other)


def _tolerations_changed(pod: PodInfo, old: PodInfo, new: PodInfo) -> bool:
    return new.uid == pod.uid and old.pod.spec.tolerations != new.pod.spec.tolerations


def _some_match(constraints: Sequence[Constraint], labels: Mapping[str, str]) -> bool:
    return any(one.selector.matches(labels) for one in constraints)


def _has_all(keys: Sequence[str], node: Node) -> bool:
    return all(key in node.metadata.labels for key in keys)
