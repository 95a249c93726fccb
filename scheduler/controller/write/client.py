"""The port to the API server: one aiohttp session of our own; whatever goes wrong leaves here as an ApiError."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from scheduler.controller.write.answers import Answer, no_answer, read, refused_by
from scheduler.controller.write.begun import BegunWrite, WriteEnd, answer_of
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import Credentials, CredentialSource
from scheduler.controller.write.direct import JSON, DirectWay, Outgoing, keep_alive_socket, origin_of, user_agent
from scheduler.controller.write.fence import Departure, FencedRequest, fenced
from scheduler.controller.write.http_connections import HttpConnections
from scheduler.controller.write.http_exchange import HttpAnswer
from scheduler.controller.write.request_limiter import RequestLimiter
from scheduler.errors import ApiError, ConfigurationError

STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
MERGE_PATCH = "application/merge-patch+json"
CONNECT_SECONDS = 10.0
SCHEDULER_CONNECTIONS = 256
"""Maximum of open connections: more than all writes under way and all watches together."""


AnyAnswer = TypeVar("AnyAnswer", aiohttp.ClientResponse, HttpAnswer)
RequestObserver = Callable[[str, str, int, float], None]
"""Takes the method, the host, the status (0 without an answer) and the seconds until the answer's head."""


class ApiClient:
    """Requests to the API server. Make it inside a running event loop; close it there too.

    A 401 makes the credentials be loaded again, once per request. No retries otherwise: those are the caller's.

    ``writes_directly``: fenced requests leave by ``DirectWay``, except through a proxy; everything else by aiohttp.
    """

    def __init__(
        self,
        source: CredentialSource,
        *,
        limiter: RequestLimiter | None = None,
        connections: int = 64,
        timeout_seconds: float = 30.0,
        writes_directly: bool = False,
    ) -> None:
        self._source = source
        self._writes_directly = writes_directly
        self._direct: DirectWay | None = None
        self._pools: list[HttpConnections] = []
        """Of ``_direct``, and of those before it: requests may still be under way on them."""
        self._timeout_seconds = timeout_seconds
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
        for pool in self._pools:
            await pool.close()

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
        """Raises ApiError for any answer of 300 or more and for none at all. ``content_type``: of the body; where there
        is none, of the answer that is asked for.

        A write has a ``departure``, and is fenced: LeadershipLost where the right to write is gone before it leaves.
        """
        if self._limiter is not None:
            await self._limiter.admit()
        credentials = await self._current_credentials()
        target = f"{path}?{urlencode(query, quote_via=quote)}" if query else path
        try:
            if departure is not None and self._direct is not None and body is not None:
                seconds = self._timeout_seconds if timeout_seconds is None else timeout_seconds
                write = Outgoing(method, target, body, seconds, content_type)
                return answer_of(await self._write(credentials, write, departure))
            limits = self._timeout if timeout_seconds is None else self._timeout_of(timeout_seconds)
            with fenced(departure):
                response = await self._send(credentials, method, target, body, content_type, limits)
            content = await read(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise no_answer(error) from error
        if response.status >= 300:
            raise refused_by(response, content)
        return Answer(response.status, content)

    def begin(self, write: Outgoing, departure: Departure, on_end: Callable[[WriteEnd], None]) -> BegunWrite:
        """A fenced write, for those that each pod costs: no coroutine unless something has to be waited for first, and
        no other one to be woken with the answer.

        ``on_end`` gets, once and perhaps before this returns, the answer or what ``request`` would raise; nothing more
        after ``cancel``.
        """
        begun = BegunWrite(self, write, departure, on_end)
        way = self._direct
        if way is None or self._limiter is not None or self._source.is_stale:
            begun.wait_for(
                self.request(
                    write.method,
                    write.path,
                    body=write.body,
                    content_type=write.content_type,
                    timeout_seconds=write.seconds,
                    departure=departure,
                )
            )
        else:
            begun.send(way, self._credentials)
        return begun

    async def send_again(self, known: Credentials | None, write: Outgoing, departure: Departure) -> Answer:
        """A write that was refused with a 401, once more with the credentials loaded again."""
        credentials = await self._reload(known)

        def send(_: Credentials) -> Awaitable[HttpAnswer]:
            return self._way().send(write, departure)

        try:
            return answer_of(await self._authorized(write.method, credentials, send, is_last=True))
        except (TimeoutError, OSError) as error:
            raise no_answer(error) from error

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], idle_seconds: float
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """A watch: its body as it comes. Raises ApiError, also for a silence of more than ``idle_seconds``."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=idle_seconds)
        target = f"{path}?{urlencode(query, quote_via=quote)}"
        try:
            response = await self._send(await self._current_credentials(), "GET", target, None, JSON, timeout)
            try:
                if response.status >= 300:
                    raise refused_by(response, await read(response))
                yield response.content
            finally:
                response.close()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise no_answer(error) from error

    async def _current_credentials(self) -> Credentials:
        credentials = self._credentials
        if credentials is None:
            return await self._reload(None)
        if self._source.is_stale:
            # Unreadable credentials may still be valid in their last version: the server decides.
            with contextlib.suppress(ApiError):
                return await self._reload(credentials)
        return credentials

    async def _write(self, credentials: Credentials, write: Outgoing, departure: Departure) -> HttpAnswer:
        """A fenced request without aiohttp."""

        def send(_: Credentials) -> Awaitable[HttpAnswer]:
            return self._way().send(write, departure)

        return await self._authorized(write.method, credentials, send)

    def _way(self) -> DirectWay:
        if self._direct is None or self._session is None:
            raise ApiError(0, "Closed", "the client is closed")
        return self._direct

    async def _send(
        self,
        credentials: Credentials,
        method: str,
        target: str,
        body: bytes | None,
        content_type: str,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        headers = {"Content-Type": content_type} if body is not None else {"Accept": content_type}

        def send(current: Credentials) -> Awaitable[aiohttp.ClientResponse]:
            if self._session is None:
                raise ApiError(0, "Closed", "the client is closed")
            if current.authorization:
                headers["Authorization"] = current.authorization
            url = URL(current.server + target, encoded=True)
            options: dict[str, Any] = {"timeout": limits, "allow_redirects": False, **self._options}
            return self._session.request(method, url, data=body, headers=headers, **options)

        return await self._authorized(method, credentials, send)

    async def _authorized(
        self,
        method: str,
        credentials: Credentials,
        send: Callable[[Credentials], Awaitable[AnyAnswer]],
        *,
        is_last: bool = False,
    ) -> AnyAnswer:
        """Send; after a 401 once more, with the credentials loaded again, unless this ``is_last``."""
        for is_again in (True,) if is_last else (False, True):
            began, status = time.monotonic(), 0
            try:
                answer = await send(credentials)
                status = answer.status
            finally:
                self.note(method, status, time.monotonic() - began)
            if 200 <= status != 401 or (is_again and status == 401):
                return answer
            if isinstance(answer, aiohttp.ClientResponse):
                answer.close()
            if status < 200:
                raise ApiError(0, "NoAnswer", f"the answer is not final: HTTP status {status}")
            credentials = await self._reload(credentials)
        raise AssertionError("the last round returns or raises")

    def note(self, method: str, status: int, seconds: float) -> None:
        """Report a request to the observer."""
        if self.observe is not None:
            self.observe(method, self._host, status, seconds)

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
            if self._writes_directly:
                self._direct = self._direct_way(loaded)
            return loaded

    def _direct_way(self, credentials: Credentials) -> DirectWay | None:
        """The way to the server with these credentials; other certificates need other connections."""
        origin = origin_of(credentials)
        if origin is None:
            return None
        pool = self._direct.connections if self._direct is not None else None
        if pool is None or pool.origin != origin:
            self._pools = [old for old in self._pools if old.open_connections]
            pool = HttpConnections(origin, self._connections, keep_alive_socket)
            self._pools.append(pool)
        try:
            return DirectWay(pool, credentials)
        except ValueError as error:
            raise ApiError(0, "BadCredentials", str(error)) from error

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
        writes_directly=True,
    )
