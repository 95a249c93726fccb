"""The table of resources that the embedded API server knows, and the one place to add another.

Everything that depends on a resource's identity (routes, discovery, short names, verbs) is derived from `KINDS`.
"""

from __future__ import annotations

from typing import Final

import msgspec

WRITABLE: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY: Final = ("create",)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One served resource. `collection` names where its objects are kept: both event resources share one."""

    group: str
    version: str
    plural: str
    kind: str
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = WRITABLE
    categories: tuple[str, ...] = ()
    generations: bool = False
    """Whether a change of the specification raises metadata.generation."""
    collection: str = ""
    returns_deleted: bool = False
    """Whether a DELETE that removed the object answers with the object, not with a Status."""
    upserts: bool = False
    """Whether PUT creates an absent object."""

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_version_path(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def resource(self) -> str:
        """The name in messages of the API server, such as `pods` or `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def where(self) -> str:
        return self.collection or self.resource

    @property
    def stored(self) -> bool:
        return "get" in self.verbs

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of a collection, an object or a subresource."""
        parts = [self.group_version_path]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)


def _core(plural: str, kind: str, *short_names: str, **more: object) -> Kind:
    return _kind("", "v1", plural, kind, *short_names, **more)


def _kind(group: str, version: str, plural: str, kind: str, *short_names: str, **more: object) -> Kind:
    fields = {"group": group, "version": version, "plural": plural, "kind": kind, "short_names": short_names, **more}
    return msgspec.convert(fields, Kind)


_STATUS: Final = ("status",)
_SCALED: Final = ("scale", "status")
_ALL: Final = ("all",)

PODS: Final = _core(
    "pods", "Pod", "po", subresources=("binding", "eviction", "status"), categories=_ALL, generations=True,
    returns_deleted=True,
)  # fmt: skip
NODES: Final = _core("nodes", "Node", "no", namespaced=False, subresources=_STATUS)
NAMESPACES: Final = _core(
    "namespaces", "Namespace", "ns", namespaced=False, subresources=("finalize", "status"),
    verbs=tuple(verb for verb in WRITABLE if verb != "deletecollection"),
)  # fmt: skip
SERVICES: Final = _core("services", "Service", "svc", subresources=_STATUS, categories=_ALL, returns_deleted=True)
REPLICATION_CONTROLLERS: Final = _core(
    "replicationcontrollers", "ReplicationController", "rc", subresources=_SCALED, categories=_ALL, generations=True
)
PERSISTENT_VOLUMES: Final = _core(
    "persistentvolumes", "PersistentVolume", "pv", namespaced=False, subresources=_STATUS, returns_deleted=True
)
PERSISTENT_VOLUME_CLAIMS: Final = _core(
    "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", subresources=_STATUS, returns_deleted=True
)
CONFIG_MAPS: Final = _core("configmaps", "ConfigMap", "cm")
SECRETS: Final = _core("secrets", "Secret")
SERVICE_ACCOUNTS: Final = _core("serviceaccounts", "ServiceAccount", "sa", returns_deleted=True)
CORE_EVENTS: Final = _core("events", "Event", "ev", collection="events", upserts=True)
BINDINGS: Final = _core("bindings", "Binding", verbs=CREATE_ONLY)

DEPLOYMENTS: Final = _kind(
    "apps", "v1", "deployments", "Deployment", "deploy", subresources=_SCALED, categories=_ALL, generations=True
)
REPLICA_SETS: Final = _kind(
    "apps", "v1", "replicasets", "ReplicaSet", "rs", subresources=_SCALED, categories=_ALL, generations=True
)
STATEFUL_SETS: Final = _kind(
    "apps", "v1", "statefulsets", "StatefulSet", "sts", subresources=_SCALED, categories=_ALL, generations=True
)
DAEMON_SETS: Final = _kind(
    "apps", "v1", "daemonsets", "DaemonSet", "ds", subresources=_STATUS, categories=_ALL, generations=True
)
JOBS: Final = _kind("batch", "v1", "jobs", "Job", subresources=_STATUS, categories=_ALL, generations=True)
BUDGETS: Final = _kind(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", subresources=_STATUS, generations=True
)
STORAGE_CLASSES: Final = _kind(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", "sc", namespaced=False, returns_deleted=True
)
CSI_NODES: Final = _kind("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False, returns_deleted=True)
CSI_DRIVERS: Final = _kind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False, returns_deleted=True)
CSI_STORAGE_CAPACITIES: Final = _kind("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
VOLUME_ATTACHMENTS: Final = _kind(
    "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False, subresources=_STATUS,
    returns_deleted=True,
)  # fmt: skip
LEASES: Final = _kind("coordination.k8s.io", "v1", "leases", "Lease", upserts=True)
EVENTS: Final = _kind("events.k8s.io", "v1", "events", "Event", "ev", collection="events", upserts=True)
PRIORITY_CLASSES: Final = _kind(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", "pc", namespaced=False, generations=True
)
DEVICE_CLASSES: Final = _kind(
    "resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False, generations=True
)
RESOURCE_CLAIMS: Final = _kind(
    "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", subresources=_STATUS, returns_deleted=True
)
RESOURCE_CLAIM_TEMPLATES: Final = _kind(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", returns_deleted=True
)
RESOURCE_SLICES: Final = _kind(
    "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False, returns_deleted=True,
    generations=True,
)  # fmt: skip
TOKEN_REVIEWS: Final = _kind(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False, verbs=CREATE_ONLY
)
SELF_ACCESS_REVIEWS: Final = _kind(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False,
    verbs=CREATE_ONLY,
)  # fmt: skip
ACCESS_REVIEWS: Final = _kind(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False, verbs=CREATE_ONLY
)
CUSTOM_RESOURCE_DEFINITIONS: Final = _kind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", "crd", "crds",
    namespaced=False, subresources=_STATUS, verbs=("get", "list", "watch"),
)  # fmt: skip

KINDS: Final[tuple[Kind, ...]] = (
    BINDINGS, CONFIG_MAPS, CORE_EVENTS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS,
    REPLICATION_CONTROLLERS, SECRETS, SERVICE_ACCOUNTS, SERVICES,
    DAEMON_SETS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, EVENTS, TOKEN_REVIEWS, SELF_ACCESS_REVIEWS, ACCESS_REVIEWS,
    JOBS, BUDGETS, CSI_DRIVERS, CSI_NODES, CSI_STORAGE_CAPACITIES, STORAGE_CLASSES, VOLUME_ATTACHMENTS,
    CUSTOM_RESOURCE_DEFINITIONS, PRIORITY_CLASSES, LEASES, DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
)  # fmt: skip

BY_GROUP_VERSION: Final[dict[tuple[str, str], dict[str, Kind]]] = {}
for _entry in KINDS:
    BY_GROUP_VERSION.setdefault((_entry.group, _entry.version), {})[_entry.plural] = _entry
