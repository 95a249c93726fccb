"""Client of a running scheduler's pages, and the credentials that it presents.

The kubeconfig's credentials go to a scheduler only over TLS whose certificate was verified: by the system's
authorities, by one that the user names, or by its fingerprint. Redirects are never followed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import http.client
import os
import socket
import ssl
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Struct

from scheduler.config.names import OWN_NAMESPACE
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import Credentials, CredentialSource
from scheduler.errors import ConfigurationError, Fault, SchedulerError

TIMEOUT_SECONDS: Final = 10.0
MAX_PAGE_BYTES: Final = 256 * 1024 * 1024
"""Maximum bytes of a page. The page of a queue with 100,000 pods has a tenth of that."""
CHUNK_BYTES: Final = 256 * 1024
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


class Server(Struct, frozen=True):
    """A server of pages, how it is verified, and the Authorization header for it.

    ``url`` has no slash at its end. ``ssl_context`` None: plain HTTP. ``fingerprint``: the SHA-256 that its certificate
    must have, b"" for any. ``hint``: why there are no credentials.
    """

    url: str
    ssl_context: ssl.SSLContext | None = None
    fingerprint: bytes = b""
    authorization: str = ""
    hint: str = ""


def fetch(
    path: str, access: Access, environment: Mapping[str, str] = os.environ, question: bytes | None = None
) -> bytes:
    """The page at a path of the scheduler, or its answer to a question (JSON, sent by POST). Raises Unanswered, and
    ConfigurationError for a wrong option."""
    return asyncio.run(_fetch_from(path, access, environment, question))


async def _fetch_from(path: str, access: Access, environment: Mapping[str, str], question: bytes | None) -> bytes:
    return await get_page(await server_of(access, environment), path, question)


async def get_page(server: Server, path: str, question: bytes | None = None) -> bytes:
    """The body of a 200 to a request of the path, which is percent-encoded and may have a query. Raises Unanswered for
    everything else, with the scheduler's own message if there is one.

    ``question``: a body in JSON, which makes the request a POST.
    """
    url = f"{server.url}{path}"
    request = _PageRequest(server)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            status, location, body = await asyncio.to_thread(request.answer, path, question)
    except TimeoutError:
        raise Unanswered(f"{url} did not answer within {TIMEOUT_SECONDS:g} s") from None
    except (http.client.HTTPException, OSError, ValueError) as error:
        raise Unanswered(f"{url} can't be asked: {_cause(server.url, error)}") from error
    finally:
        request.end()
    if 300 <= status < 400:
        raise Unanswered(f"{url} answers with a redirect to {location!r}, which is not followed")
    if status != 200:
        message = _message_of(body) or f"{url}: HTTP {status}"
        raise Unanswered(f"{message}. {server.hint}" if server.hint and status in (401, 403) else message)
    return body


class _PageRequest:
    """One request on a connection of its own, for a thread. Direct: proxies are for outside servers, not for a
    scheduler's port."""

    def __init__(self, server: Server) -> None:
        self._server = server
        parts = urlsplit(server.url)
        self._prefix = parts.path
        host, port = parts.hostname or "", parts.port
        self._connection: http.client.HTTPConnection
        if server.ssl_context is None:
            self._connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
        else:
            context = server.ssl_context
            self._connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS, context=context)

    def answer(self, path: str, question: bytes | None) -> tuple[int, str, bytes]:
        """Status, Location header and body. Raises HTTPException, OSError, ValueError for a page that is too long, and
        Unanswered for another certificate than expected: then no byte of the request has left."""
        connection = self._connection
        connection.connect()
        self._check_certificate()
        headers = {"Authorization": self._server.authorization} if self._server.authorization else {}
        if question is not None:
            headers["Content-Type"] = "application/json"
        connection.request("GET" if question is None else "POST", self._prefix + path, question, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("Location", ""), _limited(answer)

    def end(self) -> None:
        """Close the connection; a thread that waits on it ends."""
        if self._connection.sock is not None:
            with contextlib.suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _check_certificate(self) -> None:
        if not self._server.fingerprint:
            return
        assert isinstance(self._connection.sock, ssl.SSLSocket)
        certificate = self._connection.sock.getpeercert(binary_form=True) or b""
        found = hashlib.sha256(certificate).digest()
        if found != self._server.fingerprint:
            url = self._server.url
            raise Unanswered(f"{url} has another certificate than expected: its SHA-256 is {found.hex()}")


def _cause(url: str, error: Exception) -> str:
    """What went wrong, with a remedy."""
    if isinstance(error, ssl.SSLError) and "WRONG_VERSION_NUMBER" in str(error):
        return f"it serves plain HTTP. Use --server {url.replace('https', 'http', 1)}"
    hung_up = isinstance(error, http.client.BadStatusLine | http.client.IncompleteRead | ConnectionResetError)
    if hung_up and url.startswith("http:"):
        return f"it hung up. If it serves HTTPS, use --server {url.replace('http', 'https', 1)}"
    if isinstance(error, ssl.SSLCertVerificationError):
        known = "its authority with --server-ca, or its certificate's SHA-256 with --server-fingerprint"
        return f"its certificate is not trusted ({error.verify_message or error}): name {known}"
    return f"{str(error) or type(error).__name__}. Is the scheduler running? See --server."


def is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _parts_of(text: str) -> SplitResult:
    """The parts of a server's URL. Raises ConfigurationError for anything that is not the URL of a server."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise ConfigurationError([Fault("--server", f'"{text}" is not a URL: {error}')]) from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError([Fault("--server", f'"{text}" must be http://HOST:PORT or https://HOST:PORT')])
    if not (text.isascii() and text.isprintable()) or " " in text or "@" in parts.netloc or parts.query:
        raise ConfigurationError([Fault("--server", f'"{text}" must be a host, a port, and perhaps a path')])
    return parts


async def server_of(access: Access, environment: Mapping[str, str]) -> Server:
    """The server of ``--server``, with the kubeconfig's credentials where it is verified. Raises ConfigurationError for
    a URL, an authority, a fingerprint or a kubeconfig that can't be used."""
    parts = _parts_of(access.server)
    url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    if parts.scheme == "http":
        for flag, stated in (("--server-ca", access.authority), ("--server-fingerprint", access.fingerprint)):
            if stated:
                raise ConfigurationError(
                    [Fault(flag, "nothing is verified over plain HTTP: --server must be https://")]
                )
        return Server(url, hint="No token was sent, since it is plain HTTP.")
    who = await _credentials(access, environment)
    token = who.authorization if who is not None else ""
    if access.fingerprint:
        return Server(url, unverifying_context(), _digest(access.fingerprint), token)
    if access.authority or not is_loopback(parts.hostname or ""):
        return Server(url, _verifying_context(access.authority, who), authorization=token)
    hint = (
        "No token was sent, since the server's certificate is not verified: name its authority with --server-ca or "
        "its fingerprint with --server-fingerprint, or leave --server out."
    )
    return Server(url, unverifying_context(), hint=hint)


def unverifying_context() -> ssl.SSLContext:
    """A TLS context that takes any certificate: for a fingerprint, which is compared afterwards, and where no
    credentials are sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


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


def _limited(answer: http.client.HTTPResponse) -> bytes:
    """The whole body. Raises ValueError above the limit of a page, and HTTPException for one that breaks off."""
    parts: list[bytes] = []
    size = 0
    while part := answer.read(CHUNK_BYTES):
        size += len(part)
        if size > MAX_PAGE_BYTES:
            raise ValueError(f"the page has more than {MAX_PAGE_BYTES} bytes")
        parts.append(part)
    if answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
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
