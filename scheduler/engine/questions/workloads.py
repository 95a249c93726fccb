"""From a manifest to the pods that the API server and the controllers would make of it.

What admission adds and decisions read is added here, too: requests from limits, the priority of a class, the two
tolerations of nodes that are not ready, the scheduler's name. Admission webhooks are beyond it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.questions.names import WrongName, checked_name, shown
from scheduler.errors import InvalidObject, SchedulerError
from scheduler.objects.kinds import Kind, decode, decode_as
from scheduler.objects.meta import ApiObject
from scheduler.objects.pod import Pod
from scheduler.objects.quantity import InvalidQuantity
from scheduler.objects.salvage import DECODER_ERRORS

MAX_REPLICAS: Final = 5_000
SYSTEM_PRIORITIES: Final[Mapping[str, int]] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_UNREADY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_UNREADY_SECONDS: Final = 300
_HASH: Final = "what-if"
"""The value of the label pod-template-hash of a Deployment's pods, which no other pods have."""

Object = dict[str, Any]


class WrongManifest(SchedulerError):
    """A manifest that no pods can be made of; the text says why."""


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


class Priorities:
    """The values of priority classes, from the pods that are known."""

    def __init__(self, known: Iterable[PodInfo]) -> None:
        self._known = known
        self._found: dict[str, int] | None = None

    def of(self, manifest: Mapping[str, Any]) -> dict[str, int]:
        """The value of each class, if the manifest needs one: else nothing is searched. Searched once."""
        if b"priorityClassName" not in msgspec.json.encode(manifest):
            return {}
        if self._found is None:
            self._found = {
                info.pod.spec.priority_class_name: info.priority
                for info in self._known
                if info.pod.spec.priority_class_name
            }
        return self._found


def workload_of(
    manifest: Object, replicas: int | None, priorities: Mapping[str, int], scheduler_name: str, serial: int = 0
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
    manifest: Object, replicas: int | None, priorities: Mapping[str, int], scheduler_name: str, serial: int
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
    ready = _admitted(_mapping(template, "spec"), priorities, scheduler_name)
    described = template.get("metadata") or {}
    base = {
        "namespace": namespace,
        "labels": {**(described.get("labels") or {}), **labels},
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
    if count is None:
        count = spec.get("parallelism" if kind == "Job" else "replicas", 1) if kind != "Pod" else 1
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


def _admitted(spec: Object, priorities: Mapping[str, int], scheduler_name: str) -> Object:
    """The specification as it comes out of admission. A node's name is dropped: the question is where it would go."""
    filled = {**spec, "schedulerName": spec.get("schedulerName") or scheduler_name}
    filled.pop("nodeName", None)
    host_network = bool(spec.get("hostNetwork"))
    for field in ("containers", "initContainers"):
        if spec.get(field):
            filled[field] = [_container(one, host_network) for one in spec[field]]
    name = spec.get("priorityClassName")
    if name and spec.get("priority") is None:
        value = priorities.get(name, SYSTEM_PRIORITIES.get(name))
        if value is None:
            raise WrongManifest(
                f"the value of priorityClassName {shown(str(name))} is not known here: no pod of it runs; "
                "state spec.priority"
            )
        filled["priority"] = value
    tolerations = spec.get("tolerations") or []
    missing = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _UNREADY_SECONDS}
        for key in _UNREADY
        if not any(one.get("key", key) == key and one.get("effect") in (None, "", "NoExecute") for one in tolerations)
    ]
    filled["tolerations"] = [*tolerations, *missing]
    return filled


def _container(container: Object, host_network: bool) -> Object:
    filled = dict(container)
    resources = container.get("resources") or {}
    if resources.get("limits"):
        requests = {**resources["limits"], **(resources.get("requests") or {})}
        filled["resources"] = {**resources, "requests": requests}
    if host_network and container.get("ports"):
        filled["ports"] = [{"hostPort": port.get("containerPort"), **port} for port in container["ports"]]
    return filled
