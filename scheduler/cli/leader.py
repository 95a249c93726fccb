"""The leader's pages through the API server: found by its Lease, reached by a port-forward, verified by certificate.

The kubeconfig's credentials go to the API server alone. The scheduler gets a short-lived token of a dedicated service
account, bound to the scheduler's audience: no other server accepts it, the API server included. So the user needs no
service account, whether the kubeconfig is one of a person, of a certificate, or of an exec plugin.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from scheduler.cli.connection import TIMEOUT_SECONDS, Access, Server, Unanswered, get_page, unverifying_context
from scheduler.cli.port_forward import ForwardFailure, forwarded
from scheduler.controller.lead.announcement import AUDIENCE, Announcement, read_announcement
from scheduler.controller.write.client import ApiClient, Directly
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource
from scheduler.errors import ApiError, InvalidObject
from scheduler.objects.kinds import Kind, decode_as
from scheduler.objects.lease import Lease

READER: Final = "tandem-reader"
"""The service account in the Lease's namespace whose tokens open the pages."""
TOKEN_SECONDS: Final = 600
"""The shortest lifetime in seconds that the API server gives a token."""
KNOWN_SECONDS: Final = 60.0
"""Seconds until the leader is looked up again, and gets another token."""


def fetch_from_leader(
    path: str, access: Access, environment: Mapping[str, str], question: bytes | None = None
) -> bytes:
    """The page at a path of the leader, or its answer to a question. Raises Unanswered, and ConfigurationError for the
    kubeconfig."""
    return asyncio.run(_fetch(path, access, environment, question))


async def _fetch(path: str, access: Access, environment: Mapping[str, str], question: bytes | None) -> bytes:
    async with LeaderWay(access, environment) as way, way.open() as server:
        return await get_page(server, path, question)


class LeaderWay:
    """The way to the leader, for several requests: within an ``async with`` block."""

    def __init__(self, access: Access, environment: Mapping[str, str]) -> None:
        self._access = access
        settings = ConnectionSettings(kubeconfig=access.kubeconfig, context=access.context)
        source = CredentialSource(settings, environment)
        self._client = ApiClient(source, timeout_seconds=TIMEOUT_SECONDS, directly=Directly.ALL)
        self._known: tuple[Announcement, str] | None = None
        """The leader, and a token for it."""
        self._known_until = 0.0
        self._finding = asyncio.Lock()

    async def __aenter__(self) -> LeaderWay:
        """Raises Unanswered if no leader is found, and ConfigurationError for the kubeconfig."""
        try:
            await self._client.connect()
            await self._find()
        except BaseException:
            await self._client.close()
            raise
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._client.close()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Server]:
        """The leader, for one connection. Raises Unanswered."""
        who = await self._client.connect()
        leader, token = await self._find()
        try:
            async with forwarded(who, leader.namespace, leader.pod, leader.port, TIMEOUT_SECONDS) as forward:
                url = f"https://127.0.0.1:{forward.port}"
                fingerprint = bytes.fromhex(leader.certificate)
                try:
                    yield Server(url, unverifying_context(), fingerprint, f"Bearer {token}")
                except Exception as error:
                    # Another pod may lead by now.
                    self._known = None
                    if forward.error:
                        raise Unanswered(f"pod {leader.namespace}/{leader.pod}: {forward.error.strip()}") from error
                    raise
        except ForwardFailure as error:
            self._known = None
            raise Unanswered(f"{error}. It takes the rights get and create on pods/portforward") from error

    async def _find(self) -> tuple[Announcement, str]:
        async with self._finding:
            if self._known is None or time.monotonic() >= self._known_until:
                leader = await _leader(self._client, self._access.namespace, self._access.lease)
                self._known = leader, await _token(self._client, leader.namespace)
                self._known_until = time.monotonic() + KNOWN_SECONDS
            return self._known


async def _leader(client: ApiClient, namespace: str, name: str) -> Announcement:
    path = Kind.LEASE.entry.object_path(name, namespace)
    try:
        lease = decode_as(Lease, (await client.request("GET", path)).body)
    except (ApiError, InvalidObject) as error:
        text = f"the scheduler's Lease {namespace}/{name} can't be read: {error}"
        if isinstance(error, ApiError) and error.status == 404:
            text += ". Name another Lease with --scheduler, or with --server a scheduler that runs without one"
        raise Unanswered(text) from error
    holder = lease.spec.holder_identity
    found = read_announcement(lease.metadata.annotations)
    if not holder:
        raise Unanswered(f"the Lease {namespace}/{name} has no holder: no scheduler runs")
    if found is None:
        text = f"{holder} leads by the Lease {namespace}/{name}, and is no pod that serves its pages over HTTPS"
        raise Unanswered(f"{text}: say where it is with --server")
    return found


async def _token(client: ApiClient, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{READER}/token"
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [AUDIENCE], "expirationSeconds": TOKEN_SECONDS},
    }
    try:
        reply = await client.request("POST", path, body=msgspec.json.encode(body))
        return msgspec.json.decode(reply.body, type=_TokenRequest).status.token
    except (ApiError, msgspec.DecodeError) as error:
        text = f"no token of the service account {namespace}/{READER} can be had: {error}"
        raise Unanswered(f"{text}. It takes the right create on serviceaccounts/token there") from error


class _TokenStatus(msgspec.Struct):
    token: str


class _TokenRequest(msgspec.Struct):
    status: _TokenStatus
