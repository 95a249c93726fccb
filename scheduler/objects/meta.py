"""The parts common to all API objects: metadata, owner references, conditions, and the object's key."""

from __future__ import annotations

from typing import Final

import msgspec

MAX_VERSION_DIGITS: Final = 20
"""Those of a number of 64 bits."""

Labels = dict[str, str]
"""Label (or annotation) keys and values."""


class ApiStruct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """The base class of everything decoded from the API server's JSON. Never mutate a list or map inside one."""


class OwnerReference(ApiStruct, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(ApiStruct, frozen=True):
    """Times are RFC 3339 texts as received; see `timestamps`."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Labels = msgspec.field(default_factory=dict)
    annotations: Labels = msgspec.field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class ApiObject(ApiStruct, frozen=True):
    """An object of the cluster. `key` is `namespace/name`, or the bare name of a kind without namespaces."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> str:
        metadata = self.metadata
        return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def resource_version(self) -> str:
        return self.metadata.resource_version

    @property
    def version_number(self) -> int:
        """See ``number_of_version``."""
        return number_of_version(self.metadata.resource_version)

    @property
    def labels(self) -> Labels:
        return self.metadata.labels

    @property
    def annotations(self) -> Labels:
        return self.metadata.annotations

    @property
    def is_terminating(self) -> bool:
        """Whether its deletion has been requested."""
        return self.metadata.deletion_timestamp is not None


class Condition(ApiStruct, frozen=True):
    """A condition of a pod or a node. API servers send `null` for unknown times."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None
    observed_generation: int = 0


def number_of_version(text: str) -> int:
    """A resource version as a number, which grows within a kind; 0 where it is no number, or none of 64 bits."""
    return int(text) if text.isdecimal() and len(text) <= MAX_VERSION_DIGITS else 0


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    """The owner with `controller: true` (at most one), or None."""
    for owner in metadata.owner_references:
        if owner.controller:
            return owner
    return None
