"""Classifies updates by the changes that may make a waiting pod fit (docs/kube-scheduler/queue.md §6.6)."""

from __future__ import annotations

from enum import Enum

from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.objects.quantity import InvalidQuantity, Quantities, milli_value, parse
from scheduler.objects.resources import pod_requests, requests_alike

LABELS, SPEC, ALLOCATABLE, IMAGES, FEATURES, CONDITIONS, ANNOTATIONS = (1 << place for place in range(7))
"""Parts of a node in which two versions of it differ, as flags: see ``node_difference``."""
DECISIVE = LABELS | SPEC | ALLOCATABLE | IMAGES | FEATURES
"""The parts that filters, scores or orders look at: most updates are heartbeats, which differ in none of them."""


class Change(Enum):
    """A kind of change. The value is the action's name in event labels such as `NodeUpdateNodeTaint`."""

    NODE_ALLOCATABLE = "UpdateNodeAllocatable"
    NODE_LABEL = "UpdateNodeLabel"
    NODE_TAINT = "UpdateNodeTaint"
    NODE_CONDITION = "UpdateNodeCondition"
    NODE_ANNOTATION = "UpdateNodeAnnotation"
    NODE_DECLARED_FEATURE = "UpdateNodeDeclaredFeature"
    POD_LABEL = "UpdatePodLabel"
    POD_SCALE_DOWN = "UpdatePodScaleDown"
    POD_TOLERATION = "UpdatePodToleration"
    POD_SCHEDULING_GATES_ELIMINATED = "UpdatePodSchedulingGatesEliminated"
    POD_GENERATED_RESOURCE_CLAIM = "UpdatePodGeneratedResourceClaim"


def node_difference(old: Node, new: Node) -> int:
    """The parts that are not the same as written, as flags: one comparison of two versions serves all who ask."""
    metadata, before, status, was = new.metadata, old.metadata, new.status, old.status
    difference = 0
    if metadata.labels != before.labels:
        difference |= LABELS
    if new.spec != old.spec:
        difference |= SPEC
    if status.allocatable != was.allocatable:
        difference |= ALLOCATABLE
    if status.images != was.images:
        difference |= IMAGES
    if status.declared_features != was.declared_features:
        difference |= FEATURES
    if status.conditions != was.conditions:
        difference |= CONDITIONS
    if metadata.annotations != before.annotations:
        difference |= ANNOTATIONS
    return difference


def node_changes(old: Node, new: Node, difference: int | None = None) -> tuple[Change, ...]:
    """The changes in kube-scheduler 1.36's order, NODE_TAINT twice if both of its reasons hold. Empty: no event.
    ``difference``: of the two, if it is known."""
    if difference is None:
        difference = node_difference(old, new)
    if not difference:
        return ()
    changes: list[Change] = []
    if difference & SPEC and old.spec.unschedulable and not new.spec.unschedulable:
        changes.append(Change.NODE_TAINT)
    if difference & ALLOCATABLE and not quantities_equal(old.status.allocatable, new.status.allocatable):
        changes.append(Change.NODE_ALLOCATABLE)
    if difference & LABELS:
        changes.append(Change.NODE_LABEL)
    if difference & SPEC and old.spec.taints != new.spec.taints:
        changes.append(Change.NODE_TAINT)
    if difference & CONDITIONS and _statuses(old) != _statuses(new):
        changes.append(Change.NODE_CONDITION)
    if difference & ANNOTATIONS:
        changes.append(Change.NODE_ANNOTATION)
    if difference & FEATURES:
        changes.append(Change.NODE_DECLARED_FEATURE)
    return tuple(changes)


def pod_changes(old: Pod, new: Pod) -> tuple[Change, ...]:
    """The changes in kube-scheduler 1.36's order. Empty: the event is the general update."""
    changes: list[Change] = []
    if old.metadata.labels != new.metadata.labels:
        changes.append(Change.POD_LABEL)
    if _needs_less(old, new):
        changes.append(Change.POD_SCALE_DOWN)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        changes.append(Change.POD_SCHEDULING_GATES_ELIMINATED)
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        changes.append(Change.POD_TOLERATION)
    if (
        old.status.resource_claim_statuses != new.status.resource_claim_statuses
        or old.status.extended_resource_claim_status != new.status.extended_resource_claim_status
    ):
        changes.append(Change.POD_GENERATED_RESOURCE_CLAIM)
    return tuple(changes)


def quantities_equal(one: Quantities, other: Quantities) -> bool:
    """Whether the amounts are equal, in any notation: `1000m` is `1`."""
    if one == other:
        return True
    if one.keys() != other.keys():
        return False
    try:
        return all(parse(written) == parse(other[name]) for name, written in one.items())
    except InvalidQuantity:
        return False


def _statuses(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def _needs_less(old: Pod, new: Pod) -> bool:
    """Whether the request of some resource has shrunk or gone; a resize in place counts with what it still holds."""
    if requests_alike(old, new):
        return False
    before = pod_requests(old, use_status=True)
    after = pod_requests(new, use_status=True)
    if before is after:
        return False
    return any(name not in after or milli_value(after[name]) < milli_value(amount) for name, amount in before.items())
