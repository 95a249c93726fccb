"""The port to the API server, over two ways; whatever goes wrong leaves here as an ApiError."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from enum import Enum
from typing import Protocol, TypeVar
from urllib.parse import quote, urlencode

from scheduler.controller.late_imports import ONE_AT_A_TIME
from scheduler.controller.write.answers import no_answer
from scheduler.controller.write.begun import BegunWrite, WriteEnd, answer_of
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import Credentials, CredentialSource
from scheduler.controller.write.direct import JSON, DirectWay, Outgoing, keep_alive_socket, origin_of
from scheduler.controller.write.fence import Departure, fenced
from scheduler.controller.write.http_connections import HttpConnections
from scheduler.controller.write.http_exchange import Answer
from scheduler.controller.write.leadership import LeadershipLost
from scheduler.controller.write.request_limiter import RequestLimiter
from scheduler.errors import ApiError, ConfigurationError

STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
SCHEDULER_CONNECTIONS = 256
"""Maximum of open connections: more than all writes under way and all watches together."""


class OpenAnswer(Protocol):
    """An answer whose body is still to be read."""

    @property
    def status(self) -> int: ...

    async def whole(self) -> Answer:
        """The answer with its body, unpacked. Raises AnswerTooLong, TimeoutError and OSError."""

    async def read(self) -> bytes:
        """The bytes of the body that are there, after a wait for some; b"" is its end."""

    def close(self) -> None: ...


class OtherWay(Protocol):
    """The way of ``session_way``, for all that leaves by no ``DirectWay``."""

    async def close(self) -> None: ...

    async def send(
        self, credentials: Credentials, method: str, target: str, body: bytes | None, content_type: str, seconds: float
    ) -> OpenAnswer: ...

    async def watch(self, credentials: Credentials, target: str, idle_seconds: float) -> OpenAnswer: ...


AnyAnswer = TypeVar("AnyAnswer", OpenAnswer, Answer)
RequestObserver = Callable[[str, str, int, float], None]
"""Takes the method, the host, the status (0 without an answer) and the seconds until the answer's head."""


class Directly(Enum):
    """Which requests of a client leave without aiohttp."""

    NOTHING = "nothing"
    ALL = "all requests"


class ApiClient:
    """Requests to the API server. Make it inside a running event loop; close it there too.

    A 401 makes the credentials be loaded again, once per request. No retries otherwise: those are the caller's.
    Credentials that may have been rotated are loaded again while requests go on with the old ones.

    ``directly``: what leaves by ``DirectWay``, except through a proxy. Everything else leaves by aiohttp, which is
    imported for the first such request.
    """

    def __init__(
        self,
        source: CredentialSource,
        *,
        limiter: RequestLimiter | None = None,
        connections: int = 64,
        timeout_seconds: float = 30.0,
        directly: Directly = Directly.NOTHING,
    ) -> None:
        self._source = source
        self._directly = directly
        self._direct: DirectWay | None = None
        self._pools: list[HttpConnections] = []
        """The connections of ``_direct``, and of the ways before it: requests may still be under way on them."""
        self._timeout_seconds = timeout_seconds
        self._limiter = limiter
        self._connections = connections
        self._credentials: Credentials | None = None
        self._other: OtherWay | None = None
        self._is_closed = False
        self._refresh: asyncio.Task[None] | None = None
        """The last load of stale credentials."""
        self._loading = asyncio.Lock()
        self._loads = 0
        self._failure: ConfigurationError | None = None
        """The error of the last load of credentials; None if it succeeded."""
        self._host = ""
        self.observe: RequestObserver | None = None
        """Called for each request, on its event loop."""

    async def connect(self) -> Credentials:
        """Load the credentials (no request is sent). Raises ConfigurationError."""
        return self._credentials or await self._reload(None)

    async def close(self) -> None:
        self._is_closed = True
        if self._refresh is not None:
            self._refresh.cancel()
            await asyncio.wait([self._refresh])
        other, self._other = self._other, None
        if other is not None:
            await other.close()
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
        """Send a request and return its answer. Raises ApiError for any answer of 300 or more and for none at all.

        ``content_type``: of the body or, where there is none, of the answer that is asked for. A write has a
        ``departure``, and is fenced: LeadershipLost where the right to write is gone before it leaves.
        """
        if self._limiter is not None:
            await self._limiter.admit()
        credentials = await self._current_credentials()
        target = f"{path}?{urlencode(query, quote_via=quote)}" if query else path
        seconds = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        try:
            if self._direct is not None:
                outgoing = Outgoing(method, target, body, seconds, content_type)
                answer = await self._send_directly(credentials, outgoing, departure)
            else:
                with fenced(departure):
                    opened = await self._send(credentials, method, target, body, content_type, seconds)
                answer = await opened.whole()
        except (TimeoutError, OSError) as error:
            raise no_answer(error) from error
        return answer_of(answer)

    def begin(self, write: Outgoing, departure: Departure, on_end: Callable[[WriteEnd], None]) -> BegunWrite:
        """Begin a fenced write without a coroutine, unless something has to be waited for first: for the writes that
        each pod costs. ``on_end`` gets, once and perhaps before this returns, the answer or what ``request`` would
        raise; nothing more after ``cancel``."""
        begun = BegunWrite(departure, client=self, write=write, on_end=on_end)
        way, limiter = self._direct, self._limiter
        if way is None or self._is_refresh_due() or not (limiter is None or limiter.take_now()):
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

        def send(_: Credentials) -> Awaitable[Answer]:
            return self._way().send(write, departure)

        try:
            return answer_of(await self._authorized(write.method, credentials, send, is_last=True))
        except (TimeoutError, OSError) as error:
            raise no_answer(error) from error

    @contextlib.asynccontextmanager
    async def stream(self, path: str, *, query: Mapping[str, str], idle_seconds: float) -> AsyncIterator[OpenAnswer]:
        """A watch: its body as it comes. Raises ApiError, also for a silence of more than ``idle_seconds``."""
        target = f"{path}?{urlencode(query, quote_via=quote)}"

        def send(current: Credentials) -> Awaitable[OpenAnswer]:
            if self._direct is not None:
                return self._way().watch(target, idle_seconds)
            return self._other_way().watch(current, target, idle_seconds)

        try:
            opened = await self._authorized("GET", await self._current_credentials(), send)
            try:
                if opened.status >= 300:
                    answer_of(await opened.whole())
                yield opened
            finally:
                opened.close()
        except (TimeoutError, OSError) as error:
            raise no_answer(error) from error

    async def _current_credentials(self) -> Credentials:
        credentials = self._credentials
        if credentials is None:
            return await self._reload(None)
        if self._is_refresh_due():
            self._refresh = asyncio.create_task(self._load_again(credentials), name="refresh of the credentials")
            # Files are read within this one step of the loop; an exec plugin is not waited for.
            await asyncio.sleep(0)
        return self._credentials or credentials

    def _is_refresh_due(self) -> bool:
        is_under_way = self._refresh is not None and not self._refresh.done()
        return self._source.is_stale and not is_under_way and not self._is_closed

    async def _load_again(self, stale: Credentials) -> None:
        # Unreadable credentials may still be valid in their last version: the server decides.
        try:
            await self._reload(stale)
        except ApiError as error:
            # Imported here: commands that ask the API server a question write no log.
            with ONE_AT_A_TIME:
                import structlog

            structlog.get_logger().warning(
                "Credentials could not be loaded again; the last ones stay in use", error=error.message
            )

    async def _send_directly(self, credentials: Credentials, write: Outgoing, departure: Departure | None) -> Answer:
        def send(_: Credentials) -> Awaitable[Answer]:
            return self._way().send(write, departure)

        return await self._authorized(write.method, credentials, send)

    def _way(self) -> DirectWay:
        if self._direct is None or self._is_closed:
            raise ApiError(0, "Closed", "the client is closed")
        return self._direct

    async def _send(
        self, credentials: Credentials, method: str, target: str, body: bytes | None, content_type: str, seconds: float
    ) -> OpenAnswer:
        def send(current: Credentials) -> Awaitable[OpenAnswer]:
            return self._other_way().send(current, method, target, body, content_type, seconds)

        return await self._authorized(method, credentials, send)

    def _other_way(self) -> OtherWay:
        if self._is_closed:
            raise ApiError(0, "Closed", "the client is closed")
        if self._other is None:
            # aiohttp: a command that asks one question over the direct way does without it.
            with ONE_AT_A_TIME:
                from scheduler.controller.write.session_way import SessionWay

            self._other = SessionWay(self._connections)
        return self._other

    async def _authorized(
        self,
        method: str,
        credentials: Credentials,
        send: Callable[[Credentials], Awaitable[AnyAnswer]],
        *,
        is_last: bool = False,
    ) -> AnyAnswer:
        """Send; after a 401 send once more with the credentials loaded again, unless this ``is_last``."""
        for is_again in (True,) if is_last else (False, True):
            began, status, has_left = time.monotonic(), 0, True
            try:
                answer = await send(credentials)
                status = answer.status
            except LeadershipLost:
                has_left = False
                raise
            finally:
                if has_left:
                    self.note(method, status, time.monotonic() - began)
            if 200 <= status != 401 or (is_again and status == 401):
                return answer
            if not isinstance(answer, Answer):
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
        loads = self._loads
        async with self._loading:
            if self._credentials is not None and self._credentials is not known:
                return self._credentials
            try:
                if self._failure is not None and self._loads > loads:
                    # Another request has just tried and failed: not every request waits for an exec plugin that hangs.
                    raise self._failure
                loaded = await self._load()
            except ConfigurationError as error:
                if known is None:
                    raise
                # The file may be in the middle of its rotation: the next request reads it again.
                raise ApiError(0, "BadCredentials", str(error)) from error
            self._credentials = loaded
            self._host = loaded.server.partition("://")[2].partition("/")[0]
            if self._directly is not Directly.NOTHING:
                self._direct = self._direct_way(loaded)
            return loaded

    async def _load(self) -> Credentials:
        self._failure = None
        try:
            return await self._source.load()
        except ConfigurationError as error:
            self._failure = error
            raise
        finally:
            self._loads += 1

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
        return DirectWay(pool, credentials)


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
        directly=Directly.ALL,
    )
