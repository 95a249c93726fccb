"""From a manifest to the pods that the API server and the controllers would make of it; what the API server fills in is
in ``admission.py``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.questions.admission import Object, PriorityOfClass, WrongManifest, admitted
from scheduler.engine.questions.names import WrongName, checked_name, shown
from scheduler.errors import InvalidObject
from scheduler.objects.kinds import READ_KINDS, Kind, decode, decode_as
from scheduler.objects.meta import ApiObject, OwnerReference
from scheduler.objects.pod import ClaimVolume, Pod, Volume
from scheduler.objects.quantity import InvalidQuantity
from scheduler.objects.salvage import DECODER_ERRORS
from scheduler.objects.storage import PersistentVolumeClaim

MAX_REPLICAS: Final = 5_000
_HASH: Final = "what-if"
"""The value of the label pod-template-hash of a Deployment's pods, which no other pods have; of a StatefulSet's pods a
part of that of controller-revision-hash."""
_REVISION: Final = "controller-revision-hash"


class ClaimTemplate(msgspec.Struct, frozen=True):
    """What the claim behind a volume of each pod is made from. ``is_own``: the volume is a generic ephemeral one, whose
    claim belongs to the pod; else it is one of a StatefulSet's, which outlives its pods."""

    volume: str
    claim: PersistentVolumeClaim
    is_own: bool

    def claim_of(self, info: PodInfo) -> PersistentVolumeClaim:
        """The claim for this pod."""
        name = f"{info.name}-{self.volume}" if self.is_own else f"{self.volume}-{info.name}"
        owner = OwnerReference(api_version="v1", kind="Pod", name=info.name, uid=info.uid, controller=True)
        metadata = msgspec.structs.replace(
            self.claim.metadata, name=name, uid=f"{info.uid}-{self.volume}", owner_references=(owner,) * self.is_own
        )
        return msgspec.structs.replace(self.claim, metadata=metadata)


class Workload(msgspec.Struct, frozen=True):
    """The pods of a manifest, and what counts beside them: the ReplicaSet or StatefulSet that owns them."""

    template: Pod
    name: str
    count: int
    serial: int
    kind: str
    owner: tuple[Kind, ApiObject] | None = None
    claims: tuple[ClaimTemplate, ...] = ()
    first: int = 0
    """The ordinal of a StatefulSet's first pod."""

    def pod(self, number: int) -> PodInfo:
        """The pod of this number, from 0 on; it may be beyond ``count``."""
        if self.kind == "Pod" and self.count == 1 and not number:
            own = self.name
        else:
            own = f"{self.name}-{number + (self.first if self.kind == 'StatefulSet' else 1)}"
        metadata, spec = self.template.metadata, self.template.spec
        labels = metadata.labels
        if self.kind == "StatefulSet":
            index = str(self.first + number)
            labels = {**labels, "apps.kubernetes.io/pod-index": index, "statefulset.kubernetes.io/pod-name": own}
            claims = [
                Volume(name=one.volume, persistent_volume_claim=ClaimVolume(f"{one.volume}-{own}"))
                for one in self.claims
                if not one.is_own
            ]
            spec = msgspec.structs.replace(spec, volumes=(*claims, *spec.volumes)) if claims else spec
        metadata = msgspec.structs.replace(metadata, name=own, uid=f"what-if-{self.serial}-{number}", labels=labels)
        return PodInfo(msgspec.structs.replace(self.template, metadata=metadata, spec=spec), "")


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
        fault = _fault_of_pods(manifest) or type(error).__name__
        raise WrongManifest(f"{manifest.get('kind')}: its pods can't be read: {fault}") from error


def _read(
    manifest: Object, replicas: int | None, priorities: Mapping[str, PriorityOfClass], scheduler_name: str, serial: int
) -> Workload:
    kind = manifest.get("kind")
    if kind not in _WORKLOADS:
        raise WrongManifest(_not_pods(kind))
    metadata = _mapping(manifest, "metadata")
    name = str(metadata.get("name") or str(metadata.get("generateName", "")).rstrip("-"))
    if not name:
        raise WrongManifest(f"the {kind} has no name: state metadata.name")
    checked_name(name, "name")
    namespace = checked_name(str(metadata.get("namespace") or "default"), "namespace")
    spec = _mapping(manifest, "spec")
    count = _count(kind, spec, replicas)
    if kind == "Pod":
        template: Object = {"metadata": metadata, "spec": spec}
        owner: tuple[Kind, ApiObject] | None = None
        labels: dict[str, str] = {}
    else:
        template = _mapping(spec, "template")
        owner, labels = _owner(str(kind), name, namespace, spec, serial)
    described = template.get("metadata") or {}
    labels = {**(described.get("labels") or {}), **labels}
    ready = admitted(_mapping(template, "spec"), labels, priorities, scheduler_name)
    claims = tuple(_of_a_set(spec, namespace)) if kind == "StatefulSet" else ()
    # A template of the set takes the place of a volume of its name.
    ready["volumes"] = [one for one in ready.get("volumes") or () if one.get("name") not in {c.volume for c in claims}]
    claims += tuple(_of_volumes(ready["volumes"], namespace))
    base = {
        "namespace": namespace,
        "labels": labels,
        "annotations": described.get("annotations") or {},
        "ownerReferences": [_OWNERS[str(kind)] | {"name": name, "uid": _uid(kind, serial), "controller": True}]
        if kind in _OWNERS
        else [],
    }
    read = decode_as(Pod, msgspec.json.encode({"metadata": {**base, "name": name}, "spec": ready}))
    first = _mapping(spec, "ordinals").get("start") or 0 if kind == "StatefulSet" else 0
    if not isinstance(first, int) or first < 0:
        raise WrongManifest("ordinals.start must be a number from 0 on")
    found = Workload(read, name, count, serial, str(kind), owner, claims, first)
    # Quantities are read late; a wrong one is this manifest's fault.
    example = found.pod(0)
    _ = example.requests, example.charged, [one.claim.requested_storage for one in claims]
    return found


def _of_a_set(spec: Object, namespace: str) -> Iterator[ClaimTemplate]:
    """The claims of each pod of a StatefulSet, which carry the labels that the set selects."""
    selected = _mapping(spec, "selector").get("matchLabels") or {}
    templates = spec.get("volumeClaimTemplates") or ()
    if not isinstance(templates, Sequence) or not all(isinstance(one, dict) for one in templates):
        raise WrongManifest("volumeClaimTemplates must be a list of mappings")
    for one in templates:
        metadata = _mapping(one, "metadata")
        name = checked_name(str(metadata.get("name", "")), "name of a volume claim template")
        claim = _claim({**metadata, "labels": {**(metadata.get("labels") or {}), **selected}}, one, namespace)
        yield ClaimTemplate(name, claim, is_own=False)


def _of_volumes(volumes: Iterable[Object], namespace: str) -> Iterator[ClaimTemplate]:
    """The claims of generic ephemeral volumes."""
    for one in volumes:
        if template := _mapping(_mapping(one, "ephemeral"), "volumeClaimTemplate"):
            claim = _claim(_mapping(template, "metadata"), template, namespace)
            yield ClaimTemplate(str(one.get("name", "")), claim, is_own=True)


def _claim(metadata: Object, document: Object, namespace: str) -> PersistentVolumeClaim:
    kept = {field: metadata.get(field) or {} for field in ("labels", "annotations")}
    written = {"metadata": {**kept, "namespace": namespace}, "spec": _mapping(document, "spec")}
    return decode_as(PersistentVolumeClaim, msgspec.json.encode({**written, "status": {"phase": "Pending"}}))


_OWNERS: Final[dict[str, Object]] = {
    "Deployment": {"apiVersion": "apps/v1", "kind": "ReplicaSet"},
    "ReplicaSet": {"apiVersion": "apps/v1", "kind": "ReplicaSet"},
    "StatefulSet": {"apiVersion": "apps/v1", "kind": "StatefulSet"},
    "Job": {"apiVersion": "batch/v1", "kind": "Job"},
}


_WORKLOADS: Final = ("Pod", *_OWNERS)
_INSTEAD: Final = {
    "DaemonSet": "ask about a Pod of its template",
    "CronJob": "ask about the Job of its jobTemplate",
}
"""What to do with a kind of which pods are made otherwise."""


def _not_pods(kind: object) -> str:
    """Why no pods are made of this kind, and what to do with it."""
    of = "pods are made of a Pod, a Deployment, a ReplicaSet, a StatefulSet or a Job"
    if not kind:
        return f"the manifest has no kind: {of}"
    name = str(kind)
    instead = _INSTEAD.get(name)
    if instead is None:
        is_read = any(name == one.entry.name for one in (*READ_KINDS, Kind.PRIORITY_CLASS))
        instead = "put it by an edit (--edit FILE)" if is_read else "leave it out, since decisions read no such objects"
    return f"kind {shown(name)}: {of}; {instead}"


def _fault_of_pods(manifest: Object) -> str:
    """The field of the pods that is amiss; "" if it is none that is read as it stands."""
    try:
        template = manifest if manifest["kind"] == "Pod" else manifest["spec"]["template"]
        decode_as(Pod, msgspec.json.encode({"spec": template["spec"]}))
    except InvalidObject as error:
        return error.reason
    except DECODER_ERRORS:
        return ""
    return ""


def _uid(kind: object, serial: int) -> str:
    return f"what-if-{kind}-{serial}"


def _owner(
    kind: str, name: str, namespace: str, spec: Object, serial: int
) -> tuple[tuple[Kind, ApiObject] | None, dict[str, str]]:
    """The object whose selector the default spread constraints read, and the labels that its pods get with it."""
    if kind == "Job":
        uid = _uid(kind, serial)
        labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
        labels |= {"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid}
        return None, labels
    selector = dict(_mapping(spec, "selector"))
    labels = {}
    if kind == "Deployment":
        labels = {"pod-template-hash": _HASH}
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), **labels}
    elif kind == "StatefulSet":
        labels = {_REVISION: f"{name}-{_HASH}"}
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
