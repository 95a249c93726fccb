"""PlannedMaintenance: keeps pods off nodes that will be taken down soon, unless they may be interrupted.

A node is marked by the label ``example.com/maintenance`` with any value but ``done``; a pod may go there all the same
if its label ``example.com/interruptible`` is ``true``. Refuses with ``node(s) had planned maintenance``. No arguments.
"""

from __future__ import annotations

from scheduler.plugin import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Node,
    NodeView,
    PerNodeFilter,
    PodInfo,
    Reads,
    Refusal,
    Resource,
    State,
    View,
    unresolvable,
)

MARK = "example.com/maintenance"
INTERRUPTIBLE = "example.com/interruptible"
# Taking pods away does not end a maintenance, so preemption need not try.
MAINTENANCE = unresolvable("node(s) had planned maintenance")


class PlannedMaintenance(PerNodeFilter):
    """Written for one node at a time; declared, so that pods which are alike share the answers all the same."""

    name = "PlannedMaintenance"
    reads = Reads.NODE

    def fragment(self, pod: PodInfo, view: View) -> bool:
        return _may_be_interrupted(pod)

    def filter_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> Refusal | None:
        return MAINTENANCE if _is_marked(node) and not _may_be_interrupted(pod) else None

    def events(self) -> tuple[EventRegistration, ...]:
        return (
            EventRegistration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL), _maintenance_is_over),
            EventRegistration(ClusterEvent(Resource.POD, Action.UPDATE_POD_LABEL), _own_pod_gave_in),
        )


def _is_marked(node: Node) -> bool:
    return node.metadata.labels.get(MARK, "done") != "done"


def _may_be_interrupted(pod: PodInfo) -> bool:
    return pod.labels.get(INTERRUPTIBLE) == "true"


def _maintenance_is_over(pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
    if new is None or _is_marked(new):
        return Hint.SKIP
    return Hint.QUEUE if old is None or _is_marked(old) else Hint.SKIP


def _own_pod_gave_in(pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
    # The one thing for which a hint may look at a pod's UID: is the event about this very pod?
    return Hint.QUEUE if new is not None and new.uid == pod.uid and _may_be_interrupted(new) else Hint.SKIP
