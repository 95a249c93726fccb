"""From a manifest to the pods that the API server and the controllers would make of it; what the API server fills in is
in ``admission.py``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.questions.admission import Object, PriorityOfClass, WrongManifest, admitted
from scheduler.engine.questions.names import WrongName, checked_name, shown
from scheduler.errors import InvalidObject
from scheduler.objects.kinds import Kind, decode, decode_as
from scheduler.objects.meta import ApiObject
from scheduler.objects.pod import Pod
from scheduler.objects.quantity import InvalidQuantity
from scheduler.objects.salvage import DECODER_ERRORS

MAX_REPLICAS: Final = 5_000
_HASH: Final = "what-if"
"""The value of the label pod-template-hash of a Deployment's pods, which no other pods have."""


class Workload(msgspec.Struct, frozen=True):
    """The pods of a manifest, and what counts beside them: the ReplicaSet or StatefulSet that owns them."""

    template: Pod
    name: str
    count: int
    serial: int
    kind: str
    owner: tuple[Kind, ApiObject] | None = None

    def pod(self, number: int) -> PodInfo:
        """The pod of this number, from 0 on; it may be beyond ``count``."""
        if self.kind == "Pod" and self.count == 1 and not number:
            own = self.name
        else:
            own = f"{self.name}-{number if self.kind == 'StatefulSet' else number + 1}"
        metadata = self.template.metadata
        labels = metadata.labels
        if self.kind == "StatefulSet":
            index = {"apps.kubernetes.io/pod-index": str(number), "statefulset.kubernetes.io/pod-name": own}
            labels = {**labels, **index}
        metadata = msgspec.structs.replace(metadata, name=own, uid=f"what-if-{self.serial}-{number}", labels=labels)
        return PodInfo(msgspec.structs.replace(self.template, metadata=metadata), "")


def workload_of(
    manifest: Object,
    replicas: int | None,
    priorities: Mapping[str, PriorityOfClass],
    scheduler_name: str,
    serial: int = 0,
) -> Workload:
    """The workload of a Pod, Deployment, ReplicaSet, StatefulSet or Job. Raises WrongManifest.

    ``replicas`` None: as many as the manifest says. ``priorities``: priority classes by name. ``scheduler_name``: for
    pods that name none. ``serial`` tells the manifests of one question apart.
    """
    try:
        return _read(manifest, replicas, priorities, scheduler_name, serial)
    except (InvalidObject, InvalidQuantity, WrongName) as error:
        raise WrongManifest(str(error)) from error
    except DECODER_ERRORS as error:
        raise WrongManifest(f"the manifest can't be read: {type(error).__name__}") from error


def _read(
    manifest: Object, replicas: int | None, priorities: Mapping[str, PriorityOfClass], scheduler_name: str, serial: int
) -> Workload:
    kind = manifest.get("kind")
    metadata = _mapping(manifest, "metadata")
    name = str(metadata.get("name") or str(metadata.get("generateName", "")).rstrip("-"))
    checked_name(name, "name")
    namespace = checked_name(str(metadata.get("namespace") or "default"), "namespace")
    spec = _mapping(manifest, "spec")
    count = _count(kind, spec, replicas)
    if kind == "Pod":
        template: Object = {"metadata": metadata, "spec": spec}
        owner: tuple[Kind, ApiObject] | None = None
        labels: dict[str, str] = {}
    elif kind in _OWNERS:
        template = _mapping(spec, "template")
        owner, labels = _owner(str(kind), name, namespace, spec, serial)
    else:
        raise WrongManifest(
            f"kind {shown(str(kind))}: pods are made of a Pod, a Deployment, a ReplicaSet, a StatefulSet or a Job"
        )
    described = template.get("metadata") or {}
    labels = {**(described.get("labels") or {}), **labels}
    ready = admitted(_mapping(template, "spec"), labels, priorities, scheduler_name)
    base = {
        "namespace": namespace,
        "labels": labels,
        "annotations": described.get("annotations") or {},
        "ownerReferences": [_OWNERS[str(kind)] | {"name": name, "uid": _uid(kind, serial), "controller": True}]
        if kind in _OWNERS
        else [],
    }
    read = decode_as(Pod, msgspec.json.encode({"metadata": {**base, "name": name}, "spec": ready}))
    found = Workload(read, name, count, serial, str(kind), owner)
    # Quantities are read late; a wrong one is this manifest's fault.
    first = found.pod(0)
    _ = first.requests, first.charged
    return found


_OWNERS: Final[dict[str, Object]] = {
    "Deployment": {"apiVersion": "apps/v1", "kind": "ReplicaSet"},
    "ReplicaSet": {"apiVersion": "apps/v1", "kind": "ReplicaSet"},
    "StatefulSet": {"apiVersion": "apps/v1", "kind": "StatefulSet"},
    "Job": {"apiVersion": "batch/v1", "kind": "Job"},
}


def _uid(kind: object, serial: int) -> str:
    return f"what-if-{kind}-{serial}"


def _owner(
    kind: str, name: str, namespace: str, spec: Object, serial: int
) -> tuple[tuple[Kind, ApiObject] | None, dict[str, str]]:
    """The object whose selector the default spread constraints read, and the labels that its pods get with it."""
    if kind == "Job":
        labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
        return None, labels
    selector = dict(_mapping(spec, "selector"))
    labels = {}
    if kind == "Deployment":
        labels = {"pod-template-hash": _HASH}
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), **labels}
    metadata = {"name": name, "namespace": namespace, "uid": _uid(kind, serial)}
    document = msgspec.json.encode({"metadata": metadata, "spec": {"selector": selector}})
    if kind == "StatefulSet":
        return (Kind.STATEFUL_SET, decode(Kind.STATEFUL_SET, document)), labels
    return (Kind.REPLICA_SET, decode(Kind.REPLICA_SET, document)), labels


def _count(kind: object, spec: Object, replicas: int | None) -> int:
    count: object = replicas
    if count is None and kind != "Pod":
        count = spec.get("parallelism" if kind == "Job" else "replicas")
    if count is None:
        count = 1
    completions = spec.get("completions") if kind == "Job" and replicas is None else None
    if isinstance(count, int) and isinstance(completions, int):
        # No more run at once than are still to be completed.
        count = min(count, completions)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MAX_REPLICAS:
        raise WrongManifest(f"replicas must be a number from 0 to {MAX_REPLICAS}")
    return count


def _mapping(document: Object, field: str) -> Object:
    found = document.get(field)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise WrongManifest(f"{field} must be a mapping")
    return found
