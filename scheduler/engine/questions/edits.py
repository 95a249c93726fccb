"""Changes of a cluster as values, and what each does to the fork of a trial.

On the wire each is an object whose ``edit`` names it: ``{"edit": "drain", "node": "n1"}``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import filterfalse
from typing import Any, Final

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.questions.admission import Priorities, admitted, is_claim_template, with_defaults
from scheduler.engine.questions.budgets import counted
from scheduler.engine.questions.claims import in_a_class
from scheduler.engine.questions.evictions import Evictions, LeftBehind, with_own_name
from scheduler.engine.questions.names import checked_name, shown
from scheduler.engine.questions.trial import Trial
from scheduler.errors import InvalidObject, SchedulerError
from scheduler.objects.budget import PodDisruptionBudget
from scheduler.objects.kinds import READ_KINDS, Kind, decode, decode_as
from scheduler.objects.meta import ApiObject
from scheduler.objects.node import Node, Taint
from scheduler.objects.pod import Pod
from scheduler.objects.priority_class import PriorityClass
from scheduler.objects.quantity import InvalidQuantity
from scheduler.objects.salvage import DECODER_ERRORS
from scheduler.objects.storage import CSINode, PersistentVolumeClaim
from scheduler.objects.taints import NO_EXECUTE, UNSCHEDULABLE_TAINT, tolerated

MAX_NEW_NODES: Final = 1_000
HOSTNAME: Final = "kubernetes.io/hostname"
_STATUS_TAINTS: Final = "node.kubernetes.io/"
"""Taints of this domain report a node's condition: a new node has none of them."""
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


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
    """NoExecute evicts the pods that do not tolerate it, whatever the budgets say."""

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
        self.evicted: list[tuple[PodInfo, str]] = []
        """The pods that are created again, with the node that they left, in the order of their evictions."""
        self.added: list[PodInfo] = []
        """Pods without a node among the objects that were put."""
        self.replaced: set[str] = set()
        """UIDs of waiting pods in whose place others were put."""
        self.left: list[LeftBehind] = []
        self.nodes_added: list[str] = []
        self.evictions: Evictions | None = None


def apply_edits(trial: Trial, edits: Sequence[Edit], consequences: Consequences) -> Generator[None, None, None]:
    """Change the fork, and yield after each edit. Budgets come first, since they hold for every eviction; then nodes
    are closed, so that no evicted pod goes to one that is about to be drained. Raises WrongQuestion.
    """
    for edit in filter(_is_of_a_budget, edits):
        _APPLY[type(edit)](trial, edit, consequences)
        yield
    edits = list(filterfalse(_is_of_a_budget, edits))
    consequences.evictions = Evictions(trial)
    for edit in edits:
        if isinstance(edit, Drain):
            _cordon(trial, Cordon(edit.node), consequences)
            yield
    for edit in edits:
        _APPLY[type(edit)](trial, edit, consequences)
        yield


def priority_classes(edits: Sequence[Edit]) -> list[PriorityClass]:
    """Those among the objects that are put. Raises WrongQuestion."""
    found = []
    for edit in edits:
        if isinstance(edit, PutObject) and _is_priority_class(edit):
            try:
                found.append(decode_as(PriorityClass, msgspec.json.encode(edit.object)))
            except InvalidObject as error:
                raise WrongQuestion(str(error)) from error
    return found


def _is_of_a_budget(edit: Edit) -> bool:
    kind = edit.object.get("kind") if isinstance(edit, PutObject) else getattr(edit, "kind", None)
    return kind == Kind.POD_DISRUPTION_BUDGET.entry.name


def _is_priority_class(edit: PutObject) -> bool:
    return edit.object.get("kind") == Kind.PRIORITY_CLASS.entry.name


def _node(trial: Trial, name: str) -> Node:
    row = trial.cache.table.existing_row(name)
    node = trial.cache.table.nodes[row] if row is not None else None
    if node is None:
        raise WrongQuestion(f"node {shown(name)} is not known")
    return node


def _with_spec(node: Node, **fields: Any) -> Node:
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, **fields))


def _drain(trial: Trial, edit: Drain, consequences: Consequences) -> None:
    assert consequences.evictions is not None
    consequences.evictions.drain(edit.node, consequences.evicted, consequences.left)


def _cordon(trial: Trial, edit: Cordon, _consequences: Consequences) -> None:
    node = _node(trial, edit.node)
    others = tuple([taint for taint in node.taints if taint.key != UNSCHEDULABLE_TAINT.key])
    trial.cache.observe_node(_with_spec(node, unschedulable=True, taints=(*others, UNSCHEDULABLE_TAINT)))


def _uncordon(trial: Trial, edit: Uncordon, _consequences: Consequences) -> None:
    node = _node(trial, edit.node)
    others = tuple([taint for taint in node.taints if taint.key != UNSCHEDULABLE_TAINT.key])
    trial.cache.observe_node(_with_spec(node, unschedulable=False, taints=others))


def _taint(trial: Trial, edit: AddTaint, consequences: Consequences) -> None:
    node = _node(trial, edit.node)
    if edit.effect not in EFFECTS:
        raise WrongQuestion(f"effect {shown(edit.effect)} must be one of {', '.join(EFFECTS)}")
    if not edit.key:
        raise WrongQuestion("a taint needs a key")
    taint = Taint(edit.key, edit.value, edit.effect)
    others = tuple([one for one in node.taints if (one.key, one.effect) != (edit.key, edit.effect)])
    trial.cache.observe_node(_with_spec(node, taints=(*others, taint)))
    if edit.effect == NO_EXECUTE:
        assert consequences.evictions is not None
        consequences.evictions.push_off(
            edit.node,
            consequences.evicted,
            consequences.left,
            lambda info: not tolerated(taint, info.pod.spec.tolerations),
            "does not tolerate the taint",
        )


def _label(trial: Trial, edit: SetLabel, _consequences: Consequences) -> None:
    node = _node(trial, edit.node)
    labels = {key: value for key, value in node.labels.items() if key != edit.key}
    if edit.value is not None:
        labels[edit.key] = edit.value
    trial.cache.observe_node(
        msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=labels))
    )


def _remove_node(trial: Trial, edit: RemoveNode, consequences: Consequences) -> None:
    _node(trial, edit.node)
    assert consequences.evictions is not None
    consequences.evictions.push_off(
        edit.node, consequences.evicted, consequences.left, lambda _: True, "ends with its node"
    )
    trial.cache.remove_node(edit.node)


def _add_nodes(trial: Trial, edit: AddNodes, consequences: Consequences) -> None:
    like = _node(trial, edit.like)
    if edit.count < 1 or len(consequences.nodes_added) + edit.count > MAX_NEW_NODES:
        raise WrongQuestion(f"{edit.count} new nodes: a question can add 1 to {MAX_NEW_NODES}")
    limits = trial.cache.objects.get(Kind.CSI_NODE, edit.like)
    number = 0
    for _ in range(edit.count):
        number += 1
        while trial.cache.table.row(f"{edit.like}-new-{number}") is not None:
            number += 1
        node = node_like(like, f"{edit.like}-new-{number}")
        trial.cache.observe_node(node)
        if isinstance(limits, CSINode):
            trial.cache.observe_object(Kind.CSI_NODE, with_own_name(limits, node.name))
        consequences.nodes_added.append(node.name)


def node_like(like: Node, name: str) -> Node:
    """An empty node as ``like`` was when it came: without images, and without the taints of a condition."""
    labels = {**like.labels, HOSTNAME: name} if HOSTNAME in like.labels else like.labels
    metadata = msgspec.structs.replace(like.metadata, labels=labels)
    node = with_own_name(msgspec.structs.replace(like, metadata=metadata), name)
    taints = tuple([taint for taint in like.taints if not taint.key.startswith(_STATUS_TAINTS)])
    status = msgspec.structs.replace(like.status, images=())
    return msgspec.structs.replace(_with_spec(node, unschedulable=False, taints=taints), status=status)


def _remove_pod(trial: Trial, edit: RemovePod, _consequences: Consequences) -> None:
    found = trial.placed(edit.pod)
    if found is None:
        raise WrongQuestion(f"pod {shown(edit.pod)} is on no node")
    trial.remove(found)


def _put(trial: Trial, edit: PutObject, consequences: Consequences) -> None:
    if _is_priority_class(edit) or is_claim_template(edit.object):
        return  # The question has it from the start.
    kind = _kind_of_object(edit.object)
    try:
        read = decode(kind, msgspec.json.encode(_filled(trial, kind, edit.object, consequences)))
    except InvalidObject as error:
        raise WrongQuestion(str(error)) from error
    except DECODER_ERRORS as error:
        raise WrongQuestion(f"a {kind.entry.name} can't be read: {type(error).__name__}") from error
    checked_name(read.name, f"name of a {kind.entry.name}")
    if kind.entry.namespaced:
        read = with_namespace(read)
    if not read.uid:
        read = msgspec.structs.replace(
            read, metadata=msgspec.structs.replace(read.metadata, uid=f"what-if-{kind.value}-{read.key}")
        )
    if isinstance(read, PodDisruptionBudget) and not edit.object.get("status"):
        read = counted(read, trial.known_pods)
    try:
        _observe(trial, kind, read, consequences)
    except InvalidQuantity as error:
        raise WrongQuestion(f"{kind.entry.name} {shown(read.name)}: {error}") from error


def _filled(trial: Trial, kind: Kind, document: dict[str, Any], consequences: Consequences) -> dict[str, Any]:
    """The object with what the API server fills in. Raises WrongManifest."""
    priorities = consequences.priorities.of(document)
    if kind is not Kind.POD:
        return with_defaults(kind, document, priorities)
    spec, metadata = document.get("spec") or {}, document.get("metadata") or {}
    ready = admitted(spec, metadata.get("labels") or {}, priorities, next(iter(trial.profiles)))
    return {**document, "spec": {**ready, "nodeName": spec.get("nodeName") or ""}}


def _observe(trial: Trial, kind: Kind, read: ApiObject, consequences: Consequences) -> None:
    """Raises InvalidQuantity: quantities are read only here."""
    if isinstance(read, Node):
        row = trial.cache.table.existing_row(read.name)
        known = trial.cache.table.nodes[row] if row is not None else None
        if known is not None:
            read = msgspec.structs.replace(read, metadata=msgspec.structs.replace(read.metadata, uid=known.uid))
        else:
            consequences.nodes_added.append(read.name)
        trial.cache.observe_node(read)
    elif isinstance(read, Pod):
        _put_pod(trial, read, consequences)
    else:
        if isinstance(read, PersistentVolumeClaim) and trial.cache.objects.get(kind, read.key) is None:
            read = in_a_class(trial.cache.objects, read)
        trial.cache.observe_object(kind, read)


def _put_pod(trial: Trial, pod: Pod, consequences: Consequences) -> None:
    info = PodInfo(pod)
    _ = info.requests, info.charged
    placed, known = trial.placed(pod.key), trial.known_pods.get(pod.key)
    if placed is not None:
        if placed.uid == pod.uid:
            trial.cache.remove_pod(placed.uid)
        else:
            trial.remove(placed)
    elif known is not None and not known.node_name:
        trial.cache.groups.pending_gone(known)
        trial.cache.nominator.delete(known.uid)
        consequences.replaced.add(known.uid)
    consequences.added = [one for one in consequences.added if one.key != info.key]
    if pod.is_finished:
        return
    if pod.node_name:
        trial.cache.observe_pod(info)
    else:
        consequences.added.append(info)


def _delete(trial: Trial, edit: DeleteObject, _consequences: Consequences) -> None:
    kinds = kinds_named(edit.kind)
    if Kind.POD in kinds or Kind.NODE in kinds:
        raise WrongQuestion("pods are removed by the edit removePod, nodes by removeNode")
    for kind in kinds:
        if trial.cache.remove_object(kind, _key_of(kind, edit)) is not None:
            return
    if not kinds:
        raise _unread(edit.kind)
    raise WrongQuestion(f"{edit.kind} {shown(_key_of(kinds[0], edit))} is not known")


def _key_of(kind: Kind, edit: DeleteObject) -> str:
    return f"{edit.namespace or 'default'}/{edit.name}" if kind.entry.namespaced else edit.name


def kinds_named(name: object) -> list[Kind]:
    """The kinds of this name that decisions read: two APIs may each have one."""
    return [kind for kind in READ_KINDS if kind.entry.name == name]


def _kind_of_object(document: dict[str, Any]) -> Kind:
    """Of kinds that share a name the one of the object's API. Raises WrongQuestion."""
    kinds = kinds_named(document.get("kind"))
    if not kinds:
        raise _unread(document.get("kind"))
    group = str(document.get("apiVersion", "")).rpartition("/")[0]
    return next((kind for kind in kinds if kind.entry.group == group), kinds[0])


def _unread(name: object) -> WrongQuestion:
    return WrongQuestion(f"kind {shown(str(name))}: decisions read no such objects")


def with_namespace(read: ApiObject) -> ApiObject:
    """The object in its namespace, ``default`` if it names none. Raises WrongQuestion for an invalid one."""
    namespace = read.namespace or "default"
    checked_name(namespace, "namespace")
    return msgspec.structs.replace(read, metadata=msgspec.structs.replace(read.metadata, namespace=namespace))


_APPLY: Final[dict[type, Callable[[Trial, Any, Consequences], None]]] = {
    Drain: _drain,
    Cordon: _cordon,
    Uncordon: _uncordon,
    AddTaint: _taint,
    SetLabel: _label,
    RemoveNode: _remove_node,
    AddNodes: _add_nodes,
    RemovePod: _remove_pod,
    PutObject: _put,
    DeleteObject: _delete,
}
