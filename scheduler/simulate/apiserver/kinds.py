"""The resources of the embedded API server: those that the scheduler reads, and a few others.

Everything that depends on a resource's identity (routes, discovery, short names, verbs) is derived from `KINDS`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.objects import kinds as read
from scheduler.objects.kinds import Served

WRITABLE: Final = Served().verbs
CREATE_ONLY: Final = ("create",)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One served resource. `collection` names the collection of its objects: both event resources share one."""

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
    """Whether a DELETE that removed the object returns the object, not a Status."""
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
        """The name in the API server's messages, such as `pods` or `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def where(self) -> str:
        return self.collection or self.resource

    @property
    def stored(self) -> bool:
        return "get" in self.verbs

    def path(self, namespace: str = "", name: str = "") -> str:
        """The URL path of a collection or an object."""
        parts = [self.group_version_path]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name) if part]
        return "/".join(parts)


def _core(plural: str, kind: str, *short_names: str, **more: object) -> Kind:
    return _kind("", "v1", plural, kind, *short_names, **more)


def _kind(group: str, version: str, plural: str, kind: str, *short_names: str, **more: object) -> Kind:
    fields = {"group": group, "version": version, "plural": plural, "kind": kind, "short_names": short_names, **more}
    return msgspec.convert(fields, Kind)


def _served(kind: read.Kind) -> Kind:
    """A kind that the scheduler reads, by its declaration in ``objects/kinds.py``."""
    entry = kind.entry
    served = msgspec.structs.asdict(entry.served)
    fields = {"group": entry.group, "version": entry.version, "plural": entry.plural, "kind": entry.name}
    return msgspec.convert({**fields, "namespaced": entry.namespaced, **served}, Kind)


_READ: Final = {kind: _served(kind) for kind in read.Kind}

_STATUS: Final = ("status",)
_SCALED: Final = ("scale", "status")
_ALL: Final = ("all",)

PODS: Final = _READ[read.Kind.POD]
NODES: Final = _READ[read.Kind.NODE]
NAMESPACES: Final = _READ[read.Kind.NAMESPACE]
SERVICES: Final = _READ[read.Kind.SERVICE]
REPLICATION_CONTROLLERS: Final = _READ[read.Kind.REPLICATION_CONTROLLER]
PERSISTENT_VOLUMES: Final = _READ[read.Kind.PERSISTENT_VOLUME]
PERSISTENT_VOLUME_CLAIMS: Final = _READ[read.Kind.PERSISTENT_VOLUME_CLAIM]
CONFIG_MAPS: Final = _core("configmaps", "ConfigMap", "cm")
SECRETS: Final = _core("secrets", "Secret")
SERVICE_ACCOUNTS: Final = _core("serviceaccounts", "ServiceAccount", "sa", returns_deleted=True)
CORE_EVENTS: Final = _core("events", "Event", "ev", collection="events", upserts=True)
BINDINGS: Final = _core("bindings", "Binding", verbs=CREATE_ONLY)

DEPLOYMENTS: Final = _kind(
    "apps", "v1", "deployments", "Deployment", "deploy", subresources=_SCALED, categories=_ALL, generations=True
)
REPLICA_SETS: Final = _READ[read.Kind.REPLICA_SET]
STATEFUL_SETS: Final = _READ[read.Kind.STATEFUL_SET]
DAEMON_SETS: Final = _kind(
    "apps", "v1", "daemonsets", "DaemonSet", "ds", subresources=_STATUS, categories=_ALL, generations=True
)
JOBS: Final = _kind("batch", "v1", "jobs", "Job", subresources=_STATUS, categories=_ALL, generations=True)
BUDGETS: Final = _READ[read.Kind.POD_DISRUPTION_BUDGET]
STORAGE_CLASSES: Final = _READ[read.Kind.STORAGE_CLASS]
CSI_NODES: Final = _READ[read.Kind.CSI_NODE]
CSI_DRIVERS: Final = _READ[read.Kind.CSI_DRIVER]
CSI_STORAGE_CAPACITIES: Final = _READ[read.Kind.CSI_STORAGE_CAPACITY]
VOLUME_ATTACHMENTS: Final = _READ[read.Kind.VOLUME_ATTACHMENT]
LEASES: Final = _READ[read.Kind.LEASE]
EVENTS: Final = _kind("events.k8s.io", "v1", "events", "Event", "ev", collection="events", upserts=True)
PRIORITY_CLASSES: Final = _READ[read.Kind.PRIORITY_CLASS]
POD_GROUPS: Final = _READ[read.Kind.POD_GROUP]
COSCHEDULING_POD_GROUPS: Final = _READ[read.Kind.COSCHEDULING_POD_GROUP]
DEVICE_CLASSES: Final = _READ[read.Kind.DEVICE_CLASS]
RESOURCE_CLAIMS: Final = _READ[read.Kind.RESOURCE_CLAIM]
RESOURCE_SLICES: Final = _READ[read.Kind.RESOURCE_SLICE]
RESOURCE_CLAIM_TEMPLATES: Final = _kind(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", returns_deleted=True
)
TOKEN_REVIEWS: Final = _kind(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False, verbs=CREATE_ONLY
)
SELF_ACCESS_REVIEWS: Final = _kind(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False,
    verbs=CREATE_ONLY,
)  # fmt: skip
SELF_RULES_REVIEWS: Final = _kind(
    "authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False,
    verbs=CREATE_ONLY,
)  # fmt: skip
SELF_REVIEWS: Final = _kind(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False, verbs=CREATE_ONLY
)
ACCESS_REVIEWS: Final = _kind(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False, verbs=CREATE_ONLY
)
CUSTOM_RESOURCE_DEFINITIONS: Final = _kind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", "crd", "crds",
    namespaced=False, subresources=_STATUS, verbs=("get", "list", "watch"),
)  # fmt: skip

_SERVED_BESIDES: Final = (
    BINDINGS, CONFIG_MAPS, CORE_EVENTS, SECRETS, SERVICE_ACCOUNTS, DAEMON_SETS, DEPLOYMENTS, EVENTS, TOKEN_REVIEWS,
    SELF_ACCESS_REVIEWS, SELF_RULES_REVIEWS, SELF_REVIEWS,
    ACCESS_REVIEWS, JOBS, CUSTOM_RESOURCE_DEFINITIONS, RESOURCE_CLAIM_TEMPLATES,
)  # fmt: skip
"""Kinds that the scheduler does not read, for clients, controllers and tests."""

_GROUPS: Final = (
    "", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "batch", "policy", "storage.k8s.io",
    "apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "resource.k8s.io",
)  # fmt: skip
"""In the order of kube-apiserver's discovery; other groups follow."""


def _in_discovery(kind: Kind) -> tuple[int, str, str]:
    known = _GROUPS.index(kind.group) if kind.group in _GROUPS else len(_GROUPS)
    return known, kind.group, kind.plural


KINDS: Final[tuple[Kind, ...]] = tuple(sorted((*_READ.values(), *_SERVED_BESIDES), key=_in_discovery))

BY_GROUP_VERSION: Final[dict[tuple[str, str], dict[str, Kind]]] = {}
for _entry in KINDS:
    BY_GROUP_VERSION.setdefault((_entry.group, _entry.version), {})[_entry.plural] = _entry
