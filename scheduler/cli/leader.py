"""The leader's pages through the API server: found by its Lease, reached by a port-forward, verified by certificate.

The kubeconfig's credentials go to the API server alone. The scheduler gets a short-lived token of a dedicated service
account, bound to the scheduler's audience: no other server accepts it, the API server included. So the user needs no
service account, whether the kubeconfig is one of a person, of a certificate, or of an exec plugin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import aiohttp
import msgspec
from yarl import URL

from scheduler.cli.connection import TIMEOUT_SECONDS, Access, Unanswered, get_page, page_url
from scheduler.cli.port_forward import ForwardFailure, forwarded
from scheduler.controller.lead.announcement import AUDIENCE, Announcement, read_announcement
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource
from scheduler.errors import ApiError, InvalidObject
from scheduler.objects.kinds import Kind, decode_as
from scheduler.objects.lease import Lease

READER: Final = "tandem-reader"
"""The service account in the Lease's namespace whose tokens open the pages."""
TOKEN_SECONDS: Final = 600
"""The shortest lifetime in seconds that the API server gives a token."""


def fetch_from_leader(
    path: str, access: Access, environment: Mapping[str, str], question: bytes | None = None
) -> bytes:
    """The page at a path of the leader, or its answer to a question. Raises Unanswered, and ConfigurationError for the
    kubeconfig."""
    return asyncio.run(_fetch(path, access, environment, question))


async def _fetch(path: str, access: Access, environment: Mapping[str, str], question: bytes | None) -> bytes:
    settings = ConnectionSettings(kubeconfig=access.kubeconfig, context=access.context)
    client = ApiClient(CredentialSource(settings, environment), timeout_seconds=TIMEOUT_SECONDS)
    try:
        who = await client.connect()
        leader = await _leader(client, access.namespace, access.lease)
        token = await _token(client, leader.namespace)
        async with forwarded(who, leader.namespace, leader.pod, leader.port, TIMEOUT_SECONDS) as forward:
            url = page_url(URL.build(scheme="https", host="127.0.0.1", port=forward.port), path)
            try:
                certificate = aiohttp.Fingerprint(bytes.fromhex(leader.certificate))
                return await get_page(url, certificate, f"Bearer {token}", question=question)
            except Unanswered as error:
                if forward.error:
                    raise Unanswered(f"pod {leader.namespace}/{leader.pod}: {forward.error.strip()}") from error
                raise
    except ForwardFailure as error:
        raise Unanswered(f"{error}. It takes the rights get and create on pods/portforward") from error
    finally:
        await client.close()


async def _leader(client: ApiClient, namespace: str, name: str) -> Announcement:
    path = Kind.LEASE.entry.object_path(name, namespace)
    try:
        lease = decode_as(Lease, (await client.request("GET", path)).body)
    except (ApiError, InvalidObject) as error:
        raise Unanswered(f"the scheduler's Lease {namespace}/{name} can't be read: {error}") from error
    holder = lease.spec.holder_identity
    found = read_announcement(lease.metadata.annotations)
    if not holder:
        raise Unanswered(f"the Lease {namespace}/{name} has no holder: no scheduler runs")
    if found is None or len(found.certificate) != 64:
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
