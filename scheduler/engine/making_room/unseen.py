"""Nominations that the watch has not shown yet: no event of it says that their room is free."""

from __future__ import annotations

from scheduler.engine.internal import RoomTakenBack, Step
from scheduler.engine.machine import ReadsNominations, ReadsPods


def room_of(uid: str, nominator: ReadsNominations, known_pods: ReadsPods) -> list[Step]:
    """The step that frees the room of a nominated pod that is gone or has ended, if its status does not name the node.

    kube-scheduler 1.36 looks at the status alone. There the victims are removed all the same, and wake other pods; here
    those that are left stay.
    """
    node, known = nominator.nominated_node(uid), known_pods.by_uid(uid)
    if not node or known is None or known.pod.status.nominated_node_name == node:
        return []
    return [RoomTakenBack(known.on_node(node))]
