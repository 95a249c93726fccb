"""Every kind that is read: its type, its place in the API, and its decoder."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeVar, cast

import msgspec

from scheduler.errors import InvalidObject
from scheduler.objects.budget import PodDisruptionBudget
from scheduler.objects.devices import DeviceClass, ResourceSlice
from scheduler.objects.lease import Lease
from scheduler.objects.meta import ApiObject
from scheduler.objects.namespace import Namespace
from scheduler.objects.node import Node
from scheduler.objects.owners import ReplicaSet, ReplicationController, Service, StatefulSet
from scheduler.objects.pod import Pod
from scheduler.objects.priority_class import PriorityClass
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

AnyObject = TypeVar("AnyObject", bound=ApiObject)


class Kind(StrEnum):
    """The value is the lower-case plural, as in URLs."""

    POD = "pods"
    NODE = "nodes"
    NAMESPACE = "namespaces"
    POD_DISRUPTION_BUDGET = "poddisruptionbudgets"
    SERVICE = "services"
    REPLICATION_CONTROLLER = "replicationcontrollers"
    REPLICA_SET = "replicasets"
    STATEFUL_SET = "statefulsets"
    PERSISTENT_VOLUME = "persistentvolumes"
    PERSISTENT_VOLUME_CLAIM = "persistentvolumeclaims"
    STORAGE_CLASS = "storageclasses"
    CSI_NODE = "csinodes"
    CSI_DRIVER = "csidrivers"
    CSI_STORAGE_CAPACITY = "csistoragecapacities"
    VOLUME_ATTACHMENT = "volumeattachments"
    DEVICE_CLASS = "deviceclasses"
    RESOURCE_SLICE = "resourceslices"
    RESOURCE_CLAIM = "resourceclaims"
    PRIORITY_CLASS = "priorityclasses"
    LEASE = "leases"


class KindEntry(msgspec.Struct, frozen=True):
    """Where a kind is found. `name` is as in `Pod`; `group` is "" for the core API; `api_version` as in `apps/v1`."""

    kind: Kind
    type: type[ApiObject]
    name: str
    group: str
    version: str
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """The path that the kind's paths start with, such as `/api/v1` or `/apis/apps/v1`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def collection_path(self, namespace: str = "") -> str:
        """The path of all objects, or of one namespace's."""
        return f"{self.root}/namespaces/{namespace}/{self.plural}" if namespace else f"{self.root}/{self.plural}"

    def object_path(self, name: str, namespace: str = "") -> str:
        return f"{self.collection_path(namespace)}/{name}"


def _entry(kind: Kind, type_: type[ApiObject], group: str, *, namespaced: bool) -> tuple[Kind, KindEntry]:
    return kind, KindEntry(kind, type_, type_.__name__, group, "v1", kind.value, namespaced)


KINDS: dict[Kind, KindEntry] = dict(
    (
        _entry(Kind.POD, Pod, "", namespaced=True),
        _entry(Kind.NODE, Node, "", namespaced=False),
        _entry(Kind.NAMESPACE, Namespace, "", namespaced=False),
        _entry(Kind.POD_DISRUPTION_BUDGET, PodDisruptionBudget, "policy", namespaced=True),
        _entry(Kind.SERVICE, Service, "", namespaced=True),
        _entry(Kind.REPLICATION_CONTROLLER, ReplicationController, "", namespaced=True),
        _entry(Kind.REPLICA_SET, ReplicaSet, "apps", namespaced=True),
        _entry(Kind.STATEFUL_SET, StatefulSet, "apps", namespaced=True),
        _entry(Kind.PERSISTENT_VOLUME, PersistentVolume, "", namespaced=False),
        _entry(Kind.PERSISTENT_VOLUME_CLAIM, PersistentVolumeClaim, "", namespaced=True),
        _entry(Kind.STORAGE_CLASS, StorageClass, "storage.k8s.io", namespaced=False),
        _entry(Kind.CSI_NODE, CSINode, "storage.k8s.io", namespaced=False),
        _entry(Kind.CSI_DRIVER, CSIDriver, "storage.k8s.io", namespaced=False),
        _entry(Kind.CSI_STORAGE_CAPACITY, CSIStorageCapacity, "storage.k8s.io", namespaced=True),
        _entry(Kind.VOLUME_ATTACHMENT, VolumeAttachment, "storage.k8s.io", namespaced=False),
        _entry(Kind.DEVICE_CLASS, DeviceClass, "resource.k8s.io", namespaced=False),
        _entry(Kind.RESOURCE_SLICE, ResourceSlice, "resource.k8s.io", namespaced=False),
        _entry(Kind.RESOURCE_CLAIM, ResourceClaim, "resource.k8s.io", namespaced=True),
        _entry(Kind.PRIORITY_CLASS, PriorityClass, "scheduling.k8s.io", namespaced=False),
        _entry(Kind.LEASE, Lease, "coordination.k8s.io", namespaced=True),
    )
)

_DECODERS: dict[Kind, msgspec.json.Decoder[Any]] = {k: msgspec.json.Decoder(e.type) for k, e in KINDS.items()}
_KIND_OF: dict[type[ApiObject], Kind] = {entry.type: kind for kind, entry in KINDS.items()}
_NAME_ONLY = msgspec.json.Decoder(ApiObject)


def decode(kind: Kind, data: bytes | str | msgspec.Raw) -> ApiObject:
    """One object from its JSON. Where a field may be absent it may also be `null`. Raises `InvalidObject`."""
    try:
        return cast(ApiObject, _DECODERS[kind].decode(data))
    except msgspec.DecodeError:
        return _decode_without_nulls(kind, data)


def decode_as(type_: type[AnyObject], data: bytes | str | msgspec.Raw) -> AnyObject:
    """As `decode`, by the type wanted: `decode_as(Pod, data)`."""
    return cast(AnyObject, decode(_KIND_OF[type_], data))


def kind_of(obj: ApiObject) -> Kind:
    return _KIND_OF[type(obj)]


def encode(obj: ApiObject) -> bytes:
    """The object's JSON with `apiVersion` and `kind`, as far as it was read: fields that Tandem ignores are lost."""
    entry = KINDS[kind_of(obj)]
    body = msgspec.json.encode(obj)
    head = msgspec.json.encode({"apiVersion": entry.api_version, "kind": entry.name})
    return head if body == b"{}" else head[:-1] + b"," + body[1:]


def _decode_without_nulls(kind: Kind, data: bytes | str | msgspec.Raw) -> ApiObject:
    """The slow way, for the rare writer that spells absence as `null`."""
    try:
        document = msgspec.json.decode(data)
        return msgspec.convert(_without_nulls(document), KINDS[kind].type)
    except msgspec.DecodeError as error:
        raise InvalidObject(KINDS[kind].name, _name_in(data), str(error)) from error


def _without_nulls(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: _without_nulls(item) for key, item in document.items() if item is not None}
    if isinstance(document, list):
        return [_without_nulls(item) for item in document]
    return document


def _name_in(data: bytes | str | msgspec.Raw) -> str:
    try:
        return _NAME_ONLY.decode(data).key
    except msgspec.DecodeError:
        return ""
