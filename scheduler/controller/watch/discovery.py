"""Checks by discovery whether the API server serves a kind.

A 404 on the kind's path alone proves little: a misconfigured proxy or load balancer sends the same answer.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from scheduler.controller.write.client import ApiClient
from scheduler.errors import ApiError
from scheduler.objects.kinds import Kind
from scheduler.objects.salvage import DECODER_ERRORS, reason_of

DISCOVERY_SECONDS = 10.0

Document = TypeVar("Document", bound=msgspec.Struct)


class _Version(msgspec.Struct, frozen=True):
    version: str


class _Group(msgspec.Struct, frozen=True):
    name: str
    versions: tuple[_Version, ...]


class _Groups(msgspec.Struct, frozen=True, tag_field="kind", tag="APIGroupList"):
    groups: tuple[_Group, ...]


class _Resource(msgspec.Struct, frozen=True):
    name: str


class _Resources(msgspec.Struct, frozen=True, tag_field="kind", tag="APIResourceList"):
    resources: tuple[_Resource, ...]


async def is_served(client: ApiClient, kind: Kind) -> bool:
    """False only if discovery answers and does not list the kind. Raises ApiError if it can't be determined."""
    entry = kind.entry
    if entry.group:
        groups = (await _read(client, "/apis", _Groups)).groups
        if not any(group.name == entry.group and _Version(entry.version) in group.versions for group in groups):
            return False
    resources = (await _read(client, entry.root, _Resources)).resources
    return any(resource.name == entry.plural for resource in resources)


async def _read(client: ApiClient, path: str, type_: type[Document]) -> Document:
    answer = await client.request("GET", path, timeout_seconds=DISCOVERY_SECONDS)
    try:
        return msgspec.json.decode(answer.body, type=type_)
    except DECODER_ERRORS as error:
        raise ApiError(0, "BadDiscovery", f"discovery at {path} can't be read: {reason_of(error)}") from error
