"""Keep-alive HTTP/1.1 connections to one server, for requests whose cost counts: bindings, conditions, events.

A request costs a fifth of the CPU that it costs in aiohttp's client: the whole request is in memory, one at a time is
sent on a connection, and there are no redirects, cookies, compression or proxies. llhttp reads the answers.

A connection that is not known to be clean is closed and never used again: one that timed out, was cancelled, got bytes
that no request asked for, or answered before it had the whole request. No request is sent twice here.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol, cast

from aiohappyeyeballs import start_connection
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

CONNECT_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 60.0
"""After which an unused connection is closed: load balancers forget silent ones, some within a few minutes."""
MAX_ANSWER_BYTES: Final = 16 * 2**20
"""With its head. Objects in etcd have at most 1.5 MB, a few times that as JSON."""
MIN_OPENING: Final = 4
"""Handshakes under way at once, or as many as there are connections if that is more. The number of connections doubles
with each round trip while requests wait; a burst does not begin with a hundred handshakes, of 1 ms of CPU each, that
delay one another."""
HAPPY_EYEBALLS_SECONDS: Final = 0.25
"""RFC 8305: after which the next address of a host is tried, too."""
CLOSED_AS_OPENED: Final = "the server closed the connection as it was opened"


class AnswerTooLong(ConnectionError):
    """The answer has more bytes than its limit."""


class Fence(Protocol):
    """Asked right before a request's bytes are passed to the connection."""

    def leave(self) -> None:
        """Raises an exception if the request may not be sent."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The server of a pool. ``ssl_context`` None: plain HTTP. ``server_hostname``: for SNI and the certificate."""

    host: str
    port: int
    ssl_context: ssl.SSLContext | None = None
    server_hostname: str | None = None


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer of any status. ``retry_after`` is the header as sent, "" without one."""

    status: int
    reason: str
    retry_after: str
    body: bytes


class HttpConnections:
    """At most ``limit`` connections, opened as requests wait. Make it inside the event loop."""

    def __init__(
        self,
        origin: Origin,
        limit: int,
        make_socket: Callable[..., socket.socket],
        *,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self.origin = origin
        self._limit = limit
        self._make_socket = make_socket
        self._idle_seconds = idle_seconds
        self._loop = asyncio.get_running_loop()
        self._idle: list[_Connection] = []
        """The last used one is the last."""
        self._open: set[_Connection] = set()
        self._opening: set[asyncio.Task[_Connection]] = set()
        self._waiting: deque[asyncio.Future[_Connection]] = deque()
        self._sweeper: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def open_connections(self) -> int:
        return len(self._open)

    async def send(self, request: bytes, seconds: float, fence: Fence | None) -> HttpAnswer:
        """Send the request once, and return its answer.

        Raises TimeoutError, after ``seconds`` in all, OSError without a whole answer, and what the fence raises. Unless
        ``fence.leave`` has returned, no byte of the request has left.
        """
        deadline = self._loop.time() + seconds
        connection = self._take_idle() or await self._wait_for_one(deadline)
        try:
            return await connection.exchange(request, deadline, fence)
        finally:
            self._give_back(connection)

    async def close(self) -> None:
        """Requests under way end with ConnectionError."""
        self._is_closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(ConnectionError("the client is closed"))
        opening, connections = tuple(self._opening), tuple(self._open)
        for task in opening:
            task.cancel()
        for connection in connections:
            connection.abort()
        await asyncio.gather(*opening, *(connection.lost for connection in connections), return_exceptions=True)

    # --- which connection ---------------------------------------------------------------------------------------------

    def _take_idle(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_clean:
                return connection
        return None

    async def _wait_for_one(self, deadline: float) -> _Connection:
        """The next connection that is free or has been opened, first come first served."""
        while True:
            if self._is_closed:
                raise ConnectionError("the client is closed")
            waiter: asyncio.Future[_Connection] = self._loop.create_future()
            self._waiting.append(waiter)
            self._open_more()
            try:
                async with asyncio.timeout_at(deadline):
                    connection = await waiter
            except BaseException:
                if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                    self._give_back(waiter.result())
                raise
            finally:
                with suppress(ValueError):
                    self._waiting.remove(waiter)
            if connection.is_clean:
                return connection
            # It was closed since it was handed over. A new one fails this request, as a refused handshake does: a
            # server that closes what it accepts would otherwise be connected to without a pause until the deadline.
            self._give_back(connection)
            if not connection.has_answered:
                raise ConnectionError(CLOSED_AS_OPENED)

    def _give_back(self, connection: _Connection) -> None:
        if self._is_closed or not connection.is_clean:
            connection.abort()
            self._open_more()
            return
        if (waiter := self._next_waiter()) is not None:
            waiter.set_result(connection)
            return
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(self._idle_seconds, self._sweep)

    def _next_waiter(self) -> asyncio.Future[_Connection] | None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                return waiter
        return None

    def _sweep(self) -> None:
        """Close the connections that have been idle for too long: the first of the list."""
        self._sweeper = None
        before = self._loop.time() - self._idle_seconds
        kept = [connection for connection in self._idle if connection.idle_since > before]
        for connection in self._idle[: len(self._idle) - len(kept)]:
            connection.abort()
        self._idle = kept
        if kept:
            wait = max(kept[0].idle_since - before, 0.0)
            self._sweeper = self._loop.call_later(wait, self._sweep)

    # --- opening ------------------------------------------------------------------------------------------------------

    def _open_more(self) -> None:
        if self._is_closed:
            return
        wanted = min(len(self._waiting), self._limit - len(self._open), max(MIN_OPENING, len(self._open)))
        while len(self._opening) < wanted:
            task = asyncio.create_task(self._connect())
            self._opening.add(task)
            task.add_done_callback(self._connected)

    async def _connect(self) -> _Connection:
        origin, loop = self.origin, self._loop
        async with asyncio.timeout(CONNECT_SECONDS):
            addresses = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
            made = await start_connection(
                addresses,
                happy_eyeballs_delay=HAPPY_EYEBALLS_SECONDS,
                interleave=1,
                loop=loop,
                socket_factory=self._make_socket,
            )
            try:
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                name = (origin.server_hostname or origin.host) if origin.ssl_context is not None else None
                _, connection = await loop.create_connection(
                    lambda: _Connection(loop, self._lost), sock=made, ssl=origin.ssl_context, server_hostname=name
                )
            except BaseException:
                made.close()
                raise
            if connection.lost.done():
                # ``_lost`` has been called: it would keep a place for ever.
                raise ConnectionError(CLOSED_AS_OPENED)
            self._open.add(connection)
            return connection

    def _connected(self, task: asyncio.Task[_Connection]) -> None:
        self._opening.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            connection = task.result()
            if not connection.is_clean:
                error = ConnectionError(CLOSED_AS_OPENED)
            self._give_back(connection)
        if error is not None and (waiter := self._next_waiter()) is not None:
            waiter.set_exception(error)
        self._open_more()

    def _lost(self, connection: _Connection) -> None:
        self._open.discard(connection)
        with suppress(ValueError):
            self._idle.remove(connection)


class _Connection(asyncio.Protocol):
    """One connection with at most one request under way. llhttp calls the ``on_…`` methods."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_lost: Callable[[_Connection], None]) -> None:
        self.idle_since = 0.0
        self.has_answered = False
        self.lost: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._parser = HttpResponseParser(self)
        self._answer: asyncio.Future[HttpAnswer] | None = None
        """Of the request under way; None: no byte is expected."""
        self._is_spoilt = False
        self._clear()

    @property
    def is_clean(self) -> bool:
        """Whether the next answer can only be that of the next request."""
        transport = self._transport
        return (
            self._answer is None
            and not self._is_spoilt
            and transport is not None
            and not transport.is_closing()
            and not transport.get_write_buffer_size()
        )

    async def exchange(self, request: bytes, deadline: float, fence: Fence | None) -> HttpAnswer:
        """Raises TimeoutError, OSError, and what the fence raises."""
        assert self._transport is not None and self._answer is None
        if fence is not None:
            fence.leave()
        answer: asyncio.Future[HttpAnswer] = self._loop.create_future()
        self._answer = answer
        timer = self._loop.call_at(deadline, self._fail, TimeoutError())
        self._transport.write(request)
        try:
            return await answer
        except BaseException:
            self._is_spoilt = True
            raise
        finally:
            timer.cancel()

    def abort(self) -> None:
        """Close the connection at once; a request under way ends with ConnectionError."""
        self._is_spoilt = True
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, error: Exception) -> None:
        self._is_spoilt = True
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)
        self.abort()

    # --- asyncio ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self._fail(ConnectionError("bytes came that no request had asked for"))
            return
        self._size += len(data)
        if self._size > MAX_ANSWER_BYTES:
            self._fail(AnswerTooLong(f"the answer has more than {MAX_ANSWER_BYTES} bytes"))
            return
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._fail(ConnectionError(f"the answer is not HTTP: {error}"))

    def eof_received(self) -> None:
        """The server's end of the connection is closed: the end of a body without a length, or no answer."""
        if self._is_headed and not self._has_end:
            self._finish()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(ConnectionError(str(error) if error else "the server closed the connection without an answer"))
        if not self.lost.done():
            self.lost.set_result(None)
        self._on_lost(self)

    # --- llhttp -------------------------------------------------------------------------------------------------------

    def _clear(self) -> None:
        self._size = 0
        self._reason = b""
        self._retry_after = b""
        self._has_end = self._is_headed = False
        self._body: list[bytes] = []

    def on_message_begin(self) -> None:
        self._reason = b""
        if self._answer is None:
            # A second answer in the bytes of the first one.
            self._is_spoilt = True

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        lower = name.lower()
        if lower == b"retry-after":
            self._retry_after = value
        elif lower in (b"content-length", b"transfer-encoding"):
            # Without either, the end of the connection is the end of the body.
            self._has_end = True

    def on_headers_complete(self) -> None:
        self._is_headed = self._parser.get_status_code() >= 200

    def on_body(self, part: bytes) -> None:
        self._body.append(part)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() >= 200:
            self._finish()

    def _finish(self) -> None:
        answer, self._answer = self._answer, None
        parser = self._parser
        if not parser.should_keep_alive():
            self._is_spoilt = True
        if answer is not None and not answer.done():
            self.has_answered = True
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            text = self._reason.decode("latin-1")
            answer.set_result(HttpAnswer(parser.get_status_code(), text, self._retry_after.decode("latin-1"), body))
        self._clear()
