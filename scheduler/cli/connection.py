"""Client of a running scheduler's pages, and the credentials that it presents.

The kubeconfig's credentials go to a scheduler only over TLS whose certificate was verified: by the system's
authorities, by one that the user names, or by its fingerprint. Redirects are never followed.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from scheduler.config.names import OWN_NAMESPACE
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import Credentials, CredentialSource
from scheduler.errors import ConfigurationError, Fault, SchedulerError

TIMEOUT_SECONDS: Final = 10.0
TLS_CLOSE_SECONDS = 0.2
MAX_PAGE_BYTES: Final = 256 * 1024 * 1024
"""Maximum bytes of a page. The page of a queue with 100,000 pods has a tenth of that."""
_SHA256_BYTES: Final = 32


class Unanswered(SchedulerError):
    """The page could not be fetched; the text gives the reason and a remedy."""


class Access(Struct, frozen=True):
    """The kubeconfig and the scheduler to ask. ``server`` "": the leader's pod, through the API server.

    ``authority`` is a PEM file, ``fingerprint`` the SHA-256 of the server's certificate in hexadecimal digits.
    """

    kubeconfig: str = ""
    context: str = ""
    namespace: str = OWN_NAMESPACE
    lease: str = "tandem-scheduler"
    """The leader's Lease, used if ``server`` is "". """
    server: str = ""
    authority: str = ""
    fingerprint: str = ""


class _Proof(Struct, frozen=True):
    """How a server is verified (None: it is not), and the credentials for it. ``hint``: why there are none."""

    ssl: ssl.SSLContext | aiohttp.Fingerprint | bool
    authorization: str = ""
    hint: str = ""


def fetch(
    path: str, access: Access, environment: Mapping[str, str] = os.environ, question: bytes | None = None
) -> bytes:
    """The page at a path of the scheduler, or its answer to a question (JSON, sent by POST). Raises Unanswered, and
    ConfigurationError for a wrong option."""
    return asyncio.run(_fetch_from(path, access, environment, question))


async def _fetch_from(path: str, access: Access, environment: Mapping[str, str], question: bytes | None) -> bytes:
    url = page_url(_server_url(access.server), path)
    proof = await _proof(url, access, environment)
    return await get_page(url, proof.ssl, proof.authorization, proof.hint, question)


async def way_to(
    access: Access, environment: Mapping[str, str]
) -> tuple[URL, ssl.SSLContext | aiohttp.Fingerprint | bool, str]:
    """The server's URL, how it is verified (aiohttp's ``ssl``) and the Authorization header. Raises
    ConfigurationError."""
    url = _server_url(access.server)
    proof = await _proof(url, access, environment)
    return url, proof.ssl, proof.authorization


def page_url(server: URL, path: str) -> URL:
    """The URL of a page, whose path is percent-encoded and may have a query, below a server's URL."""
    path, _, query = path.partition("?")
    url = server.joinpath(path.lstrip("/"), encoded=True)
    return URL(f"{url}?{query}", encoded=True) if query else url


async def get_page(
    url: URL,
    verified_by: ssl.SSLContext | aiohttp.Fingerprint | bool,
    authorization: str,
    hint: str = "",
    question: bytes | None = None,
) -> bytes:
    """The body of a 200. Raises Unanswered for everything else, with the scheduler's own message if there is one.

    ``verified_by``: as aiohttp's ``ssl``; a fingerprint is compared before a request is sent. ``question``: a body in
    JSON, which makes the request a POST.
    """
    headers = {"Authorization": authorization} if authorization else {}
    if question is not None:
        headers["Content-Type"] = "application/json"
    method = "GET" if question is None else "POST"
    limit = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    # Direct: proxies are for outside servers, not for a scheduler's port.
    try:
        async with (
            aiohttp.ClientSession(trust_env=False, timeout=limit) as session,
            session.request(
                method, url, headers=headers, data=question, ssl=verified_by, allow_redirects=False
            ) as answer,
        ):
            body = await _limited(answer.content)
    except TimeoutError:
        raise Unanswered(f"{url} did not answer within {TIMEOUT_SECONDS:g} s") from None
    except aiohttp.ServerFingerprintMismatch as error:
        # asyncio ends a refused TLS connection in later turns of the loop, which is about to close.
        await asyncio.sleep(TLS_CLOSE_SECONDS)
        shown = error.got.hex()
        raise Unanswered(f"{url} has another certificate than expected: its SHA-256 is {shown}") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Unanswered(f"{url} can't be asked: {_cause(url, error)}") from error
    if 300 <= answer.status < 400:
        target = answer.headers.get("Location", "")
        raise Unanswered(f"{url} answers with a redirect to {target!r}, which is not followed")
    if answer.status != 200:
        message = _message_of(body) or f"{url}: HTTP {answer.status}"
        raise Unanswered(f"{message}. {hint}" if hint and answer.status in (401, 403) else message)
    return body


def _cause(url: URL, error: Exception) -> str:
    """What went wrong, with a remedy."""
    if isinstance(error, aiohttp.ClientConnectorSSLError) and "WRONG_VERSION_NUMBER" in str(error):
        return f"it serves plain HTTP. Use --server {url.with_scheme('http').origin()}"
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError) and url.scheme == "http":
        return f"it hung up. If it serves HTTPS, use --server {url.with_scheme('https').origin()}"
    return f"{str(error) or type(error).__name__}. Is the scheduler running? See --server."


def is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _server_url(text: str) -> URL:
    """The server's URL. Raises ConfigurationError for anything that is not the URL of a server."""
    try:
        url = URL(text)
    except ValueError as error:
        raise ConfigurationError([Fault("--server", f'"{text}" is not a URL: {error}')]) from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigurationError([Fault("--server", f'"{text}" must be http://HOST:PORT or https://HOST:PORT')])
    return url


async def _proof(url: URL, access: Access, environment: Mapping[str, str]) -> _Proof:
    """Raises ConfigurationError for an authority, a fingerprint or a kubeconfig that can't be used."""
    if url.scheme == "http":
        return _Proof(False, hint="No token was sent, since it is plain HTTP.")
    who = await _credentials(access, environment)
    token = who.authorization if who is not None else ""
    if access.fingerprint:
        return _Proof(aiohttp.Fingerprint(_digest(access.fingerprint)), token)
    if access.authority or not is_loopback(url.host or ""):
        return _Proof(_verifying_context(access.authority, who), token)
    hint = (
        "No token was sent, since the server's certificate is not verified: name its authority with --server-ca or "
        "its fingerprint with --server-fingerprint, or leave --server out."
    )
    return _Proof(False, hint=hint)


async def _credentials(access: Access, environment: Mapping[str, str]) -> Credentials | None:
    """The kubeconfig's credentials; None if none is named and none exists: the pages may be open to everyone."""
    settings = ConnectionSettings(kubeconfig=access.kubeconfig, context=access.context)
    try:
        return await CredentialSource(settings, environment).load()
    except ConfigurationError:
        if access.kubeconfig or access.context:
            raise
        return None


def _verifying_context(authority: str, who: Credentials | None) -> ssl.SSLContext:
    """A TLS context that trusts one authority, or the system's for ""; presents the kubeconfig's certificate, if
    any."""
    try:
        context = ssl.create_default_context(cafile=authority or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError([Fault("--server-ca", f"{authority} can't be used: {error}")]) from error
    if who is not None and who.client_certificate is not None:
        who.client_certificate.load_into(context)
    return context


def _digest(fingerprint: str) -> bytes:
    try:
        digest = bytes.fromhex(fingerprint.lower().removeprefix("sha256:").replace(":", ""))
    except ValueError:
        digest = b""
    if len(digest) != _SHA256_BYTES:
        text = f'"{fingerprint}" must be a SHA-256 in 64 hexadecimal digits'
        raise ConfigurationError([Fault("--server-fingerprint", text)])
    return digest


async def _limited(content: aiohttp.StreamReader) -> bytes:
    """The whole body. Raises ValueError above the limit of a page."""
    parts: list[bytes] = []
    size = 0
    async for part in content.iter_any():
        size += len(part)
        if size > MAX_PAGE_BYTES:
            raise ValueError(f"the page has more than {MAX_PAGE_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


def _message_of(body: bytes) -> str:
    """The message of a Status or of an error page, "" if there is none."""
    try:
        page = msgspec.json.decode(body, type=_Refusal)
    except (msgspec.DecodeError, RecursionError):
        return ""
    return page.error or page.message


class _Refusal(msgspec.Struct):
    error: str = ""
    message: str = ""
