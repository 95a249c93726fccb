"""Maps changes of objects to cluster events (docs/kube-scheduler/queue.md §6.6)."""

from __future__ import annotations

from scheduler.framework.events import Action, ClusterEvent, Resource
from scheduler.objects.changes import Change, node_changes, pod_changes
from scheduler.objects.kinds import Kind
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod

ASSIGNED_POD_ADD = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
PENDING_POD_ADD = ClusterEvent(Resource.UNSCHEDULED_POD, Action.ADD)
PENDING_POD_DELETE = ClusterEvent(Resource.UNSCHEDULED_POD, Action.DELETE)
PENDING_POD_UPDATE = ClusterEvent(Resource.UNSCHEDULED_POD, Action.UPDATE)
NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
NODE_DELETE = ClusterEvent(Resource.NODE, Action.DELETE)
CLAIM_UPDATE = ClusterEvent(Resource.RESOURCE_CLAIM, Action.UPDATE)

_ACTIONS = {
    Change.NODE_ALLOCATABLE: Action.UPDATE_NODE_ALLOCATABLE,
    Change.NODE_LABEL: Action.UPDATE_NODE_LABEL,
    Change.NODE_TAINT: Action.UPDATE_NODE_TAINT,
    Change.NODE_CONDITION: Action.UPDATE_NODE_CONDITION,
    Change.NODE_ANNOTATION: Action.UPDATE_NODE_ANNOTATION,
    Change.NODE_DECLARED_FEATURE: Action.UPDATE_NODE_DECLARED_FEATURE,
    Change.POD_LABEL: Action.UPDATE_POD_LABEL,
    Change.POD_SCALE_DOWN: Action.UPDATE_POD_SCALE_DOWN,
    Change.POD_TOLERATION: Action.UPDATE_POD_TOLERATION,
    Change.POD_SCHEDULING_GATES_ELIMINATED: Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
    Change.POD_GENERATED_RESOURCE_CLAIM: Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
}


def _events(resource: Resource) -> dict[Change, ClusterEvent]:
    prefix = "NODE_" if resource is Resource.NODE else "POD_"
    return {
        change: ClusterEvent(resource, action) for change, action in _ACTIONS.items() if change.name.startswith(prefix)
    }


_NODE_EVENTS = _events(Resource.NODE)
_ASSIGNED_EVENTS = _events(Resource.ASSIGNED_POD)
_PENDING_EVENTS = _events(Resource.UNSCHEDULED_POD)
_ASSIGNED_POD_UPDATE = (ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE),)
_PENDING_POD_UPDATE = (PENDING_POD_UPDATE,)

_OBJECT_EVENTS = {
    (kind, action): ClusterEvent(Resource(kind.entry.event_resource), action)
    for kind in Kind
    if kind.entry.has_events
    for action in (Action.ADD, Action.UPDATE, Action.DELETE)
}


def node_events(old: Node, new: Node, difference: int | None = None) -> tuple[ClusterEvent, ...]:
    """The events of a node's update, in order; none for a heartbeat or a change that can't help any pod.
    ``difference``: see ``node_changes``."""
    return tuple([_NODE_EVENTS[change] for change in node_changes(old, new, difference)])


def pod_events(old: Pod, new: Pod) -> tuple[ClusterEvent, ...]:
    """The events of a pod's update, in order; the general update if no specific one applies."""
    changes = pod_changes(old, new)
    if new.is_assigned:
        return tuple(_ASSIGNED_EVENTS[change] for change in changes) if changes else _ASSIGNED_POD_UPDATE
    return tuple(_PENDING_EVENTS[change] for change in changes) if changes else _PENDING_POD_UPDATE


def object_event(kind: Kind, action: Action) -> ClusterEvent | None:
    """The event of an ADD, UPDATE (all bits) or DELETE of another kind; None for kinds without events, as Services."""
    return _OBJECT_EVENTS.get((kind, action))
