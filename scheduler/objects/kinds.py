"""The declarations of all kinds that are read: type, path, reader, writes, events, and how they are served."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, StrEnum
from typing import Any, Final, Self, TypeVar, cast

import msgspec

from scheduler.errors import InvalidObject
from scheduler.objects.budget import PodDisruptionBudget
from scheduler.objects.coscheduling import PodGroup as CoschedulingPodGroup
from scheduler.objects.devices import DeviceClass, ResourceSlice
from scheduler.objects.lease import Lease
from scheduler.objects.meta import ApiObject
from scheduler.objects.namespace import Namespace
from scheduler.objects.node import Node
from scheduler.objects.owners import ReplicaSet, ReplicationController, Service, StatefulSet
from scheduler.objects.pod import Pod
from scheduler.objects.pod_group import PodGroup
from scheduler.objects.priority_class import PriorityClass
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.objects.salvage import DECODER_ERRORS, identity_in, reason_of
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
Made = TypeVar("Made")


class Reader(Enum):
    """The part of Tandem that reads the objects of a kind."""

    DECISIONS = "decisions"
    """The scheduler itself: a reflector lists and watches them, and scheduling waits for the first list."""
    ADMISSION = "admission"
    """Only the admission of pods, which is the API server's, or the embedded one's: nothing here watches them."""
    ELECTION = "election"
    """Leader election, which reads and writes a single object."""


class Write(msgspec.Struct, frozen=True):
    """A permission, in RBAC's terms, that carrying out decisions requires."""

    verb: str
    subresource: str = ""
    is_optional: bool = False
    """Whether scheduling works without the permission."""


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """How an API server serves the kind, as far as clients can observe it; used by the embedded one."""

    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    categories: tuple[str, ...] = ()
    generations: bool = False
    """Whether a change of the specification raises metadata.generation."""
    returns_deleted: bool = False
    """Whether a DELETE that removed the object returns the object, not a Status."""
    upserts: bool = False
    """Whether PUT creates an absent object."""


class KindEntry(msgspec.Struct, frozen=True):
    """One kind. ``group`` is "" for the core API; ``plural`` is lower-case, as in URLs."""

    type: type[ApiObject]
    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    reader: Reader = Reader.DECISIONS
    has_events: bool = False
    """Whether its changes are cluster events, of the resource ``event_resource``, that may wake waiting pods; pods and
    nodes have rules of their own (``queue/cluster_events.py``)."""
    is_optional: bool = False
    """Whether an API server may lack the kind; then there are no such objects."""
    writes: tuple[Write, ...] = ()
    served: Served = Served()
    gate: str = ""
    """The feature gate without which nothing reads the kind, or COSCHEDULING for the setting; "" for none."""
    value: str = ""
    """What tells the kind from another one with the same plural; "": the plural does."""

    @property
    def name(self) -> str:
        """The kind's name, such as ``Pod``."""
        return self.type.__name__

    @property
    def api_version(self) -> str:
        """The API version, such as ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def event_resource(self) -> str:
        """The resource's name in kube-scheduler's events, such as ``storage.k8s.io/CSINode``."""
        return f"{self.group}/{self.name}" if self.group else self.name

    @property
    def root(self) -> str:
        """The path of the API version, such as ``/api/v1`` or ``/apis/apps/v1``."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def collection_path(self, namespace: str = "") -> str:
        """The path of all objects, or of those in one namespace."""
        return f"{self.root}/namespaces/{namespace}/{self.plural}" if namespace else f"{self.root}/{self.plural}"

    def object_path(self, name: str, namespace: str = "") -> str:
        return f"{self.collection_path(namespace)}/{name}"


COSCHEDULING: Final = "groups.coscheduling.enabled"
"""The setting of TandemConfiguration that stands in the place of a feature gate."""
_STATUS: Final = ("status",)
_SCALED: Final = ("scale", "status")
_ALL: Final = ("all",)


class Kind(StrEnum):
    """The kinds that are read; ``Kind.POD.entry`` is the declaration. The value is the plural, but for a
    kind that shares it with another one.

    Reflectors, rights, roles, events and the embedded API server are derived from these entries. Their order is that
    of the first lists: pods come last, when everything that their placement depends on is known.
    """

    entry: KindEntry

    def __new__(cls, entry: KindEntry) -> Self:
        value = entry.value or entry.plural
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.entry = entry
        return kind

    NODE = KindEntry(
        Node, "nodes", namespaced=False,
        served=Served(short_names=("no",), subresources=_STATUS),
    )  # fmt: skip
    NAMESPACE = KindEntry(
        Namespace, "namespaces", namespaced=False,
        served=Served(
            short_names=("ns",), subresources=("finalize", "status"),
            verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        ),
    )  # fmt: skip
    SERVICE = KindEntry(
        Service, "services",
        served=Served(short_names=("svc",), subresources=_STATUS, categories=_ALL, returns_deleted=True),
    )  # fmt: skip
    REPLICATION_CONTROLLER = KindEntry(
        ReplicationController, "replicationcontrollers",
        served=Served(short_names=("rc",), subresources=_SCALED, categories=_ALL, generations=True),
    )  # fmt: skip
    REPLICA_SET = KindEntry(
        ReplicaSet, "replicasets", "apps",
        served=Served(short_names=("rs",), subresources=_SCALED, categories=_ALL, generations=True),
    )  # fmt: skip
    STATEFUL_SET = KindEntry(
        StatefulSet, "statefulsets", "apps",
        served=Served(short_names=("sts",), subresources=_SCALED, categories=_ALL, generations=True),
    )  # fmt: skip
    POD_DISRUPTION_BUDGET = KindEntry(
        PodDisruptionBudget, "poddisruptionbudgets", "policy",
        served=Served(short_names=("pdb",), subresources=_STATUS, generations=True),
    )  # fmt: skip
    STORAGE_CLASS = KindEntry(
        StorageClass, "storageclasses", "storage.k8s.io", namespaced=False, has_events=True,
        served=Served(short_names=("sc",), returns_deleted=True),
    )  # fmt: skip
    PERSISTENT_VOLUME = KindEntry(
        PersistentVolume, "persistentvolumes", namespaced=False, has_events=True,
        writes=(Write("patch", is_optional=True),),
        served=Served(short_names=("pv",), subresources=_STATUS, returns_deleted=True),
    )  # fmt: skip
    PERSISTENT_VOLUME_CLAIM = KindEntry(
        PersistentVolumeClaim, "persistentvolumeclaims", has_events=True,
        writes=(Write("patch", is_optional=True),),
        served=Served(short_names=("pvc",), subresources=_STATUS, returns_deleted=True),
    )  # fmt: skip
    CSI_NODE = KindEntry(
        CSINode, "csinodes", "storage.k8s.io", namespaced=False, has_events=True,
        served=Served(returns_deleted=True),
    )  # fmt: skip
    CSI_DRIVER = KindEntry(
        CSIDriver, "csidrivers", "storage.k8s.io", namespaced=False, has_events=True,
        served=Served(returns_deleted=True),
    )  # fmt: skip
    CSI_STORAGE_CAPACITY = KindEntry(CSIStorageCapacity, "csistoragecapacities", "storage.k8s.io", has_events=True)
    VOLUME_ATTACHMENT = KindEntry(
        VolumeAttachment, "volumeattachments", "storage.k8s.io", namespaced=False, has_events=True,
        served=Served(subresources=_STATUS, returns_deleted=True),
    )  # fmt: skip
    DEVICE_CLASS = KindEntry(
        DeviceClass, "deviceclasses", "resource.k8s.io", namespaced=False, has_events=True, is_optional=True,
        served=Served(generations=True),
    )  # fmt: skip
    RESOURCE_SLICE = KindEntry(
        ResourceSlice, "resourceslices", "resource.k8s.io", namespaced=False, has_events=True, is_optional=True,
        served=Served(generations=True, returns_deleted=True),
    )  # fmt: skip
    RESOURCE_CLAIM = KindEntry(
        ResourceClaim, "resourceclaims", "resource.k8s.io", has_events=True, is_optional=True,
        writes=(
            Write("get", is_optional=True), Write("create", is_optional=True), Write("delete", is_optional=True),
            Write("patch", is_optional=True), Write("patch", "status", is_optional=True),
            Write("patch", "binding", is_optional=True), Write("update", is_optional=True),
            Write("update", "status", is_optional=True), Write("update", "binding", is_optional=True),
        ),
        served=Served(subresources=_STATUS, returns_deleted=True),
    )  # fmt: skip
    POD_GROUP = KindEntry(
        PodGroup, "podgroups", "scheduling.k8s.io", "v1alpha2", has_events=True, is_optional=True,
        gate="GenericWorkload", writes=(Write("patch", "status", is_optional=True),),
        served=Served(subresources=_STATUS, returns_deleted=True),
    )  # fmt: skip
    COSCHEDULING_POD_GROUP = KindEntry(
        CoschedulingPodGroup, "podgroups", "scheduling.x-k8s.io", "v1alpha1", has_events=True, is_optional=True,
        gate=COSCHEDULING, value="podgroups.scheduling.x-k8s.io",
        writes=(Write("patch", "status", is_optional=True),),
        served=Served(short_names=("pg", "pgs"), subresources=_STATUS, generations=True, returns_deleted=True),
    )  # fmt: skip
    POD = KindEntry(
        Pod, "pods",
        writes=(
            Write("get"), Write("delete"), Write("create", "binding"), Write("patch", "status"),
            Write("create", "eviction", is_optional=True), Write("update", "finalizers", is_optional=True),
        ),
        served=Served(
            short_names=("po",), subresources=("binding", "eviction", "status"), categories=_ALL, generations=True,
            returns_deleted=True,
        ),
    )  # fmt: skip
    PRIORITY_CLASS = KindEntry(
        PriorityClass, "priorityclasses", "scheduling.k8s.io", namespaced=False, reader=Reader.ADMISSION,
        served=Served(short_names=("pc",), generations=True),
    )  # fmt: skip
    LEASE = KindEntry(
        Lease, "leases", "coordination.k8s.io", reader=Reader.ELECTION,
        served=Served(upserts=True),
    )  # fmt: skip


READ_KINDS: Final = tuple(kind for kind in Kind if kind.entry.reader is Reader.DECISIONS)
"""The kinds that decisions depend on, with all feature gates on."""

UNGATED_KINDS: Final = tuple(kind for kind in READ_KINDS if not kind.entry.gate)
"""Those that decisions depend on whatever the feature gates."""


class PerKind(dict[Kind, Made]):
    """What is made of a kind once it is asked for: a decoder takes longer to make than a short command needs it for."""

    def __init__(self, make: Callable[[Kind], Made]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, kind: Kind) -> Made:
        made = self[kind] = self._make(kind)
        return made


_DECODERS: Final = PerKind[msgspec.json.Decoder[Any]](lambda kind: msgspec.json.Decoder(kind.entry.type))
_KIND_OF: dict[type[ApiObject], Kind] = {kind.entry.type: kind for kind in Kind}


def decode(kind: Kind, data: bytes | str | msgspec.Raw) -> ApiObject:
    """Decodes one object from JSON. A field that may be absent may also be `null`. Raises `InvalidObject`."""
    try:
        return cast(ApiObject, _DECODERS[kind].decode(data))
    except DECODER_ERRORS:
        return _decode_without_nulls(kind, data)


def decode_as(type_: type[AnyObject], data: bytes | str | msgspec.Raw) -> AnyObject:
    """As `decode`, but takes the type: `decode_as(Pod, data)`."""
    return cast(AnyObject, decode(_KIND_OF[type_], data))


def kind_of_type(type_: type[ApiObject]) -> Kind:
    return _KIND_OF[type_]


def kind_of(obj: ApiObject) -> Kind:
    return _KIND_OF[type(obj)]


def encode(obj: ApiObject) -> bytes:
    """The object as JSON with `apiVersion` and `kind`; fields that Tandem does not read are missing."""
    entry = kind_of(obj).entry
    body = msgspec.json.encode(obj)
    head = msgspec.json.encode({"apiVersion": entry.api_version, "kind": entry.name})
    return head if body == b"{}" else head[:-1] + b"," + body[1:]


def _decode_without_nulls(kind: Kind, data: bytes | str | msgspec.Raw) -> ApiObject:
    """The slow path, for the rare writer that encodes absence as `null`."""
    try:
        document = msgspec.json.decode(data)
        return msgspec.convert(_without_nulls(document), kind.entry.type)
    except DECODER_ERRORS as error:
        # Any error of the decoder, RecursionError and UnicodeDecodeError included, is this object's fault.
        found = identity_in(data)
        raise InvalidObject(kind.entry.name, found.key, reason_of(error), uid=found.uid) from error


def _without_nulls(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: _without_nulls(item) for key, item in document.items() if item is not None}
    if isinstance(document, list):
        return [_without_nulls(item) for item in document]
    return document
