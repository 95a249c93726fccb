"""Checks with the API server, at the start, that every needed right is granted, and lists the missing ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec
import structlog
from msgspec import Struct

from scheduler.controller.settings import ShellSettings
from scheduler.controller.write.client import ApiClient
from scheduler.errors import ApiError
from scheduler.objects.kinds import COSCHEDULING, Kind, KindEntry

REVIEWS_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
REVIEWS_IN_FLIGHT = 8

log = structlog.get_logger()


class Right(Struct, frozen=True, order=True):
    """``resource`` may hold a subresource (``pods/status``). ``group`` "" is the core API; ``namespace`` "" all."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""
    is_optional: bool = False

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {resource}{f' {self.name}' if self.name else ''}{where}"


class _ReviewStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


EVENTS = tuple(Right("events.k8s.io", "events", verb, is_optional=True) for verb in ("create", "patch"))


def rights_needed(settings: ShellSettings) -> list[Right]:
    """Every right that the shipped ClusterRole grants (docs/kube-scheduler/cycle.md §19)."""
    rights = [
        Right(kind.entry.group, kind.entry.plural, verb, is_optional=kind.entry.is_optional)
        for kind in settings.kinds
        for verb in ("list", "watch")
    ]
    if not settings.is_shadow:
        written = [kind for kind in settings.kinds if kind.entry.gate != COSCHEDULING or settings.keeps_group_counts]
        rights += [right for kind in written for right in _writes(kind.entry)]
        rights += EVENTS
    election = settings.leader_election
    if election.leader_elect:
        lease, namespace = Kind.LEASE.entry, election.resource_namespace
        rights.append(Right(lease.group, lease.plural, "create", namespace))
        rights += [
            Right(lease.group, lease.plural, verb, namespace, election.resource_name) for verb in ("get", "update")
        ]
    if settings.serving.port and settings.serving.access is not None:
        rights += [
            Right("authentication.k8s.io", "tokenreviews", "create", is_optional=True),
            Right("authorization.k8s.io", "subjectaccessreviews", "create", is_optional=True),
        ]
        if not settings.serving.access.skips_lookup:
            name = "extension-apiserver-authentication"
            rights.append(Right("", "configmaps", "get", "kube-system", name, is_optional=True))
    options = settings.operator
    if options.enabled and options.config_map_name:
        namespace = options.config_map_namespace
        rights += [Right("", "configmaps", verb, namespace, is_optional=True) for verb in ("list", "watch")]
    return rights


def _writes(entry: KindEntry) -> list[Right]:
    return [
        Right(
            entry.group,
            f"{entry.plural}/{write.subresource}" if write.subresource else entry.plural,
            write.verb,
            is_optional=write.is_optional,
        )
        for write in entry.writes
    ]


async def missing_rights(client: ApiClient, rights: Iterable[Right]) -> list[Right]:
    """The rights that the API server denies. One that can't be checked counts as granted: its use will show."""
    slots = asyncio.Semaphore(REVIEWS_IN_FLIGHT)

    async def is_missing(right: Right) -> bool:
        async with slots:
            return not await _is_allowed(client, right)

    asked = list(rights)
    answers = await asyncio.gather(*(is_missing(right) for right in asked))
    return [right for right, is_gone in zip(asked, answers, strict=True) if is_gone]


async def report_missing_rights(client: ApiClient, settings: ShellSettings) -> list[Right]:
    """Log one error with the required rights and one warning with the optional ones; returns the required ones."""
    missing = await missing_rights(client, rights_needed(settings))
    needed = [right for right in missing if not right.is_optional]
    optional = [right for right in missing if right.is_optional]
    if needed:
        log.error("Missing rights; scheduling can't work without them", rights=[str(right) for right in needed])
    if optional:
        log.warning("Missing rights; what they are for will not work", rights=[str(right) for right in optional])
    return needed


async def _is_allowed(client: ApiClient, right: Right) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "verb": right.verb,
        "namespace": right.namespace,
        "name": right.name,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {name: value for name, value in attributes.items() if value}},
    }
    try:
        answer = await client.request("POST", REVIEWS_PATH, body=msgspec.json.encode(body))
        return msgspec.json.decode(answer.body, type=_Review).status.allowed
    except (ApiError, msgspec.DecodeError) as error:
        log.debug("Right could not be asked for", right=str(right), error=str(error))
        return True
