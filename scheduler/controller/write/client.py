"""The port to the API server: one aiohttp session of our own; whatever goes wrong leaves here as an ApiError."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import Credentials, CredentialSource
from scheduler.controller.write.fence import Departure, FencedRequest, fenced
from scheduler.controller.write.request_limiter import RequestLimiter
from scheduler.errors import ApiError, ConfigurationError
from scheduler.objects.wire import Status, decode_status

JSON = "application/json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
MERGE_PATCH = "application/merge-patch+json"
CONNECT_SECONDS = 10.0
SCHEDULER_CONNECTIONS = 256
"""Maximum of open connections: more than all writes under way and all watches together."""
MAX_RETRY_AFTER_SECONDS = 60.0
"""Maximum seconds of a wait that a server asks for; a longer one is cut to it."""


def user_agent() -> str:
    try:
        return f"tandem-scheduler/{metadata.version('tandem-scheduler')}"
    except metadata.PackageNotFoundError:
        return "tandem-scheduler/unknown"


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer: the HTTP status and the unparsed body."""

    status: int
    body: bytes


RequestObserver = Callable[[str, str, int, float], None]
"""Takes the method, the host, the status (0 without an answer) and the seconds until the answer's head."""


class ApiClient:
    """Requests to the API server. Make it inside a running event loop; close it there too.

    A 401 makes the credentials be loaded again, once per request. No retries otherwise: those are the caller's.
    """

    def __init__(
        self,
        source: CredentialSource,
        *,
        limiter: RequestLimiter | None = None,
        connections: int = 64,
        timeout_seconds: float = 30.0,
    ) -> None:
        self._source = source
        self._limiter = limiter
        self._connections = connections
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=CONNECT_SECONDS)
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}
        self._credentials: Credentials | None = None
        self._session: aiohttp.ClientSession | None = None
        self._options: dict[str, Any] = {}
        self._loading = asyncio.Lock()
        self._host = ""
        self.observe: RequestObserver | None = None
        """Called for each request, on its event loop."""

    async def connect(self) -> Credentials:
        """Load the credentials (no request is sent). Raises ConfigurationError."""
        return self._credentials or await self._reload(None)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout_seconds: float | None = None,
        departure: Departure | None = None,
    ) -> Answer:
        """Raises ApiError for any answer of 300 or more and for none at all.

        A write has a ``departure``, and is fenced: LeadershipLost where the right to write is gone before it leaves.
        """
        if self._limiter is not None:
            await self._limiter.admit()
        limits = self._timeout if timeout_seconds is None else self._timeout_of(timeout_seconds)
        try:
            with fenced(departure):
                response = await self._send(method, path, query, body, content_type, limits)
            try:
                content = await response.read()
            finally:
                # A body that was read to its end has already released its connection; any other is closed.
                response.close()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _no_answer(error) from error
        if response.status >= 300:
            raise _refused(response, content)
        return Answer(response.status, content)

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], idle_seconds: float
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """A watch: its body as it comes. Raises ApiError, also for a silence of more than ``idle_seconds``."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=idle_seconds)
        try:
            response = await self._send("GET", path, query, None, JSON, timeout)
            try:
                if response.status >= 300:
                    raise _refused(response, await response.read())
                yield response.content
            finally:
                response.close()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _no_answer(error) from error

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        credentials = self._credentials
        if credentials is None:
            credentials = await self._reload(None)
        elif self._source.is_stale:
            # Unreadable credentials may still be valid in their last version: the server decides.
            with contextlib.suppress(ApiError):
                credentials = await self._reload(credentials)
        target = f"{path}?{urlencode(query, quote_via=quote)}" if query else path
        headers = {"Content-Type": content_type} if body is not None else None
        for is_last in (False, True):
            session = self._session
            if session is None:
                raise ApiError(0, "Closed", "the client is closed")
            if headers is not None and credentials.authorization:
                headers["Authorization"] = credentials.authorization
            elif credentials.authorization:
                headers = {"Authorization": credentials.authorization}
            began, status = time.monotonic(), 0
            try:
                response = await session.request(
                    method,
                    URL(credentials.server + target, encoded=True),
                    data=body,
                    headers=headers,
                    timeout=limits,
                    allow_redirects=False,
                    **self._options,
                )
                status = response.status
            finally:
                if self.observe is not None:
                    self.observe(method, self._host, status, time.monotonic() - began)
            if response.status != 401 or is_last:
                return response
            response.close()
            credentials = await self._reload(credentials)
        raise AssertionError("the last round returns")

    async def _reload(self, known: Credentials | None) -> Credentials:
        """Load the credentials, unless another request has done so since ``known`` were current."""
        async with self._loading:
            if self._credentials is not None and self._credentials is not known:
                return self._credentials
            try:
                loaded = await self._source.load()
            except ConfigurationError as error:
                if known is None:
                    raise
                # The file may be in the middle of its rotation: the next request reads it again.
                raise ApiError(0, "BadCredentials", str(error)) from error
            self._credentials = loaded
            self._host = loaded.server.partition("://")[2].partition("/")[0]
            options: dict[str, Any] = {}
            if loaded.ssl_context is not None:
                options["ssl"] = loaded.ssl_context
            if loaded.server_hostname is not None:
                options["server_hostname"] = loaded.server_hostname
            if loaded.proxy is not None:
                options["proxy"] = loaded.proxy
            self._options = options
            if self._session is None:
                self._session = self._new_session()
            return loaded

    def _new_session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=self._connections, keepalive_timeout=60.0, socket_factory=keep_alive_socket, ttl_dns_cache=60
        )
        return aiohttp.ClientSession(
            connector=connector,
            request_class=FencedRequest,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": user_agent(), "Accept": JSON},
            read_bufsize=2**18,
        )

    def _timeout_of(self, seconds: float) -> aiohttp.ClientTimeout:
        timeout = self._timeouts.get(seconds)
        if timeout is None:
            timeout = self._timeouts[seconds] = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        return timeout


def client_of(connection: ConnectionSettings, environment: Mapping[str, str]) -> ApiClient:
    """The scheduler's own client, with the rate limit that the settings ask for."""
    limiter = None
    if connection.requests_per_second is not None:
        limiter = RequestLimiter(connection.requests_per_second, connection.burst)
    return ApiClient(
        CredentialSource(connection, environment),
        limiter=limiter,
        connections=SCHEDULER_CONNECTIONS,
        timeout_seconds=connection.timeout_seconds,
    )


def keep_alive_socket(address: Any) -> socket.socket:
    """A TCP socket whose dead peer is noticed within a minute: a half-open watch would be silent for ever."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
    return made


def _no_answer(error: BaseException) -> ApiError:
    if isinstance(error, TimeoutError):
        return ApiError(0, "Timeout", "the API server did not answer in time")
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return ApiError(0, "BadCertificate", f"the API server's certificate is not trusted: {error}")
    return ApiError(0, "NoAnswer", f"no answer from the API server: {str(error) or type(error).__name__}")


def _refused(response: aiohttp.ClientResponse, body: bytes) -> ApiError:
    status = decode_status(body) or Status(message=body[:200].decode(errors="replace").strip())
    retry_after: float | None = None
    with contextlib.suppress(KeyError, ValueError):
        retry_after = float(response.headers["Retry-After"])
        # Not a usable wait: no number, not above 0, or days.
        retry_after = min(retry_after, MAX_RETRY_AFTER_SECONDS) if retry_after > 0.0 else None
    return ApiError(response.status, status.reason or response.reason or "", status.message, retry_after=retry_after)
