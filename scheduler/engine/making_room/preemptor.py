"""For what room is made: a pod, or a group of pods as one."""

from __future__ import annotations

import msgspec

from scheduler.cluster.groups.group import GroupReference
from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.failure import reference
from scheduler.engine.machine import ReadsNominations
from scheduler.framework.post_filter import Remove
from scheduler.messages.commands import Subject

EVERYWHERE = "cluster"
"""The place where a group preempts, as kube-scheduler's events name it."""


class Preemptor(msgspec.Struct, frozen=True):
    """Who preempts: a pod by itself, or a group that makes room as one."""

    uid: str
    """The UID of the pod, or of the group's object."""
    pods: tuple[PodInfo, ...]
    """The pods that wait; at least one."""
    nodes: tuple[str, ...]
    """The nodes to which they are nominated."""
    group: GroupReference | None = None

    @classmethod
    def of(cls, pod: PodInfo, room: Remove) -> Preemptor:
        """The preemptor for which ``room`` is made; ``pod``: the one whose attempt says so."""
        whole = room.group
        if whole is None:
            return cls(pod.uid, (pod,), (room.node,))
        return cls(whole.reference.uid, whole.pods, tuple(dict.fromkeys(whole.nodes.values())), whole.reference)

    def outranked(self, nominator: ReadsNominations) -> list[PodInfo]:
        """The less important pods that are nominated to these nodes; without those of other schedulers."""
        priority = min([pod.priority for pod in self.pods])
        return [
            other
            for node in self.nodes
            for other in nominator.pods_for_node(node)
            if other.priority < priority and not nominator.is_foreign(other.uid)
        ]

    @property
    def key(self) -> str:
        return self.pods[0].key if self.group is None else self.group.key

    @property
    def keys(self) -> tuple[str, ...]:
        """namespace/name of the pods."""
        return tuple([pod.key for pod in self.pods])

    @property
    def scheduler_name(self) -> str:
        return self.pods[0].pod.spec.scheduler_name

    @property
    def place(self) -> str:
        return self.nodes[0] if self.group is None else EVERYWHERE

    @property
    def reference(self) -> Subject:
        return reference(self.pods[0]) if self.group is None else self.group
