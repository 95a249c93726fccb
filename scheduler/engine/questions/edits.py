"""Changes of a cluster as values, and what comes of them.

On the wire each is an object whose ``edit`` names it: ``{"edit": "drain", "node": "n1"}``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.questions.admission import Priorities
from scheduler.engine.questions.evictions import Evicted, Evictions, LeftBehind
from scheduler.errors import InvalidObject, SchedulerError
from scheduler.objects.kinds import READ_KINDS, Kind, decode_as
from scheduler.objects.priority_class import PriorityClass

HOSTNAME: Final = "kubernetes.io/hostname"


class WrongQuestion(SchedulerError):
    """The question can't be asked; the text says why."""


class _Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="edit", rename="camel"):
    pass


class Drain(_Edit, frozen=True, tag="drain"):
    """Cordon the node and evict its pods, as ``kubectl drain --ignore-daemonsets --delete-emptydir-data``."""

    node: str


class Cordon(_Edit, frozen=True, tag="cordon"):
    node: str


class Uncordon(_Edit, frozen=True, tag="uncordon"):
    node: str


class AddTaint(_Edit, frozen=True, tag="taint"):
    """NoExecute evicts the pods that do not tolerate it, or tolerate it for a time, whatever the budgets say. With the
    key of a node that is lost NoSchedule comes with it."""

    node: str
    key: str
    effect: str
    value: str = ""


class SetLabel(_Edit, frozen=True, tag="label"):
    """``value`` None takes the label away."""

    node: str
    key: str
    value: str | None = None


class RemoveNode(_Edit, frozen=True, tag="removeNode"):
    """The node is gone, and its pods with it."""

    node: str


class AddNodes(_Edit, frozen=True, tag="addNodes"):
    """Empty nodes with the labels, taints and room of another one, and with names of their own."""

    like: str
    count: int = 1


class RemovePod(_Edit, frozen=True, tag="removePod"):
    """The pod is deleted for good: nothing creates it again. ``pod``: namespace/name."""

    pod: str


class PutObject(_Edit, frozen=True, tag="put"):
    """An object of the API is created or replaced."""

    object: dict[str, Any]


class DeleteObject(_Edit, frozen=True, tag="delete"):
    """An object other than a pod or a node is deleted."""

    kind: str
    name: str
    namespace: str = ""


Edit = Drain | Cordon | Uncordon | AddTaint | SetLabel | RemoveNode | AddNodes | RemovePod | PutObject | DeleteObject


class Consequences:
    """What edits lead to besides the changed cluster: pods to be placed again, and pods that stay or end for good."""

    def __init__(self, priorities: Priorities | None = None) -> None:
        """``priorities``: of pods among the objects that are put."""
        self.priorities = priorities or Priorities()
        self.evicted: list[Evicted] = []
        """The pods that are created again, in the order of their evictions."""
        self.added: list[PodInfo] = []
        """Pods without a node among the objects that were put."""
        self.replaced: set[str] = set()
        """UIDs of waiting pods in whose place others were put."""
        self.left: list[LeftBehind] = []
        self.nodes_added: list[str] = []
        self.evictions: Evictions | None = None


def priority_classes(edits: Sequence[Edit]) -> list[PriorityClass]:
    """The PriorityClasses among the objects that are put. Raises WrongQuestion."""
    found = []
    for edit in edits:
        if isinstance(edit, PutObject) and is_priority_class(edit):
            try:
                found.append(decode_as(PriorityClass, msgspec.json.encode(edit.object)))
            except InvalidObject as error:
                raise WrongQuestion(str(error)) from error
    return found


def is_priority_class(edit: PutObject) -> bool:
    return edit.object.get("kind") == Kind.PRIORITY_CLASS.entry.name


def kinds_named(name: object) -> list[Kind]:
    """The kinds of this name that decisions read: two APIs may each have one."""
    return [kind for kind in READ_KINDS if kind.entry.name == name]
