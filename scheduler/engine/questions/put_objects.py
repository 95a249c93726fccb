"""Objects that a question puts or deletes, in the fork of a trial."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.questions.admission import admitted, is_claim_template, with_defaults
from scheduler.engine.questions.budgets import counted
from scheduler.engine.questions.claims import in_a_class
from scheduler.engine.questions.edits import (
    Consequences,
    DeleteObject,
    PutObject,
    WrongQuestion,
    is_priority_class,
    kinds_named,
)
from scheduler.engine.questions.names import checked_name, shown
from scheduler.engine.questions.trial import Trial
from scheduler.errors import InvalidObject
from scheduler.objects.budget import PodDisruptionBudget
from scheduler.objects.kinds import Kind, decode
from scheduler.objects.meta import ApiObject
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.objects.quantity import InvalidQuantity
from scheduler.objects.salvage import DECODER_ERRORS
from scheduler.objects.storage import PersistentVolumeClaim


def put_object(trial: Trial, edit: PutObject, consequences: Consequences) -> None:
    """Put the object into the fork, in place of one of its name. Raises WrongQuestion for one that can't be read."""
    if is_priority_class(edit) or is_claim_template(edit.object):
        return  # applied when the question began
    kind = _kind_of_object(edit.object)
    try:
        read = decode(kind, msgspec.json.encode(_filled(trial, kind, edit.object, consequences)))
    except InvalidObject as error:
        raise WrongQuestion(str(error)) from error
    except DECODER_ERRORS as error:
        fault = _fault_in(kind, edit.object) or type(error).__name__
        raise WrongQuestion(f"a {kind.entry.name} can't be read: {fault}") from error
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


def _fault_in(kind: Kind, document: dict[str, Any]) -> str:
    """The field that is amiss; "" if the object can be read as it stands."""
    try:
        decode(kind, msgspec.json.encode(document))
    except InvalidObject as error:
        return error.reason
    except DECODER_ERRORS:
        return ""
    return ""


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


def delete_object(trial: Trial, edit: DeleteObject, _consequences: Consequences) -> None:
    """Delete the object in the fork. Raises WrongQuestion for pods and nodes, and for an unknown object."""
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


def _kind_of_object(document: dict[str, Any]) -> Kind:
    """Of kinds that share a name the one of the object's API. Raises WrongQuestion."""
    kinds = kinds_named(document.get("kind"))
    if not kinds:
        raise _unread(document.get("kind"))
    group = str(document.get("apiVersion", "")).rpartition("/")[0]
    return next((kind for kind in kinds if kind.entry.group == group), kinds[0])


def with_namespace(read: ApiObject) -> ApiObject:
    """The object in its namespace, ``default`` if it names none. Raises WrongQuestion for an invalid one."""
    namespace = read.namespace or "default"
    checked_name(namespace, "namespace")
    return msgspec.structs.replace(read, metadata=msgspec.structs.replace(read.metadata, namespace=namespace))


def _unread(name: object) -> WrongQuestion:
    return WrongQuestion(f"kind {shown(str(name))}: decisions read no such objects")
