"""Keep-alive HTTP/1.1 connections to one server, for requests whose cost counts: bindings, conditions, events.

A request costs a tenth of the CPU that it costs in aiohttp's client: the whole request is in memory, one at a time is
sent on a connection, its end is a call and not a task's wake-up, one timer serves all of them, and there are no
redirects, cookies, compression or proxies. llhttp reads the answers; headers reach Python only where one is needed.

A connection that is not known to be clean is closed and never used again: one that timed out, was cancelled, got bytes
that no request asked for, or answered before it had the whole request. No request is sent twice here.
"""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from aiohappyeyeballs import start_connection
from msgspec import Struct

from scheduler.controller.write.http_exchange import Answer, Connection, Exchange, Fence, HttpEnd

CONNECT_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 60.0
"""Seconds after which an unused connection is closed: load balancers forget silent ones, some within a few minutes."""
MAX_OPENING: Final = 4
"""Handshakes under way at once, while requests wait: the number of connections grows by this with each round trip. A
handshake and a small read cost a kube-apiserver 5 ms of CPU (300 of them, loaded), and a hundred requests that reach a
busy server together delay one another: of a thousand preemptors that wait at the start the first is bound after 1.5 to
2.0 s, where the number doubled after 2.8 to 3.6."""
HAPPY_EYEBALLS_SECONDS: Final = 0.25
"""Seconds after which the next address of a host is tried, too (RFC 8305)."""
CLOCK_SECONDS: Final = 0.002
"""Seconds by which the event loop's clock may be before a timer's time: uvloop reads it once a turn, in
milliseconds."""
CLOSED_AS_OPENED: Final = "the server closed the connection as it was opened"


class Origin(Struct, frozen=True):
    """The server of a pool. ``ssl_context`` None: plain HTTP. ``server_hostname``: for SNI and the certificate."""

    host: str
    port: int
    ssl_context: ssl.SSLContext | None = None
    server_hostname: str | None = None


class _Awaited(Exchange, kw_only=True):
    """A request that a coroutine waits for."""

    future: asyncio.Future[HttpEnd]

    def end(self, end: HttpEnd) -> None:
        if not self.future.done():
            self.future.set_result(end)


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
        self._idle: list[Connection] = []
        """The last used one is the last."""
        self._open: set[Connection] = set()
        self._opening: set[asyncio.Task[Connection]] = set()
        self._waiting: deque[Exchange] = deque()
        """Exchanges without a connection, first come first served."""
        self._sweeper: asyncio.TimerHandle | None = None
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._next_deadline = math.inf
        """When the timer runs, by the loop's clock: no exchange has to end earlier."""
        self._is_closed = False

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def start(self, exchange: Exchange, seconds: float) -> None:
        """Send its request once. ``exchange.end`` is called, perhaps before this returns.

        TimeoutError comes after ``seconds`` in all. Unless ``fence.leave`` has returned, no byte of the request has
        left.
        """
        exchange.pool = self
        exchange.deadline = deadline = self._loop.time() + seconds
        idle = self._idle
        connection = idle.pop() if idle else None
        while connection is not None and not connection.is_clean:
            connection = idle.pop() if idle else None
        if connection is not None:
            if not self._begin(connection, exchange):
                self.give_back(connection)
        elif self._is_closed:
            exchange.end(ConnectionError("the client is closed"))
        else:
            self._waiting.append(exchange)
            self._open_more()
        if deadline < self._next_deadline:
            self._end_overdue_at(deadline)

    async def send(self, request: bytes, seconds: float, fence: Fence | None) -> Answer:
        """Send a request and wait for its answer; see ``start``. Raises its end where that is no answer."""
        exchange = _Awaited(fence, request, future=self._loop.create_future())
        self.start(exchange, seconds)
        try:
            end = await exchange.future
        except asyncio.CancelledError:
            exchange.fail(ConnectionError("cancelled"))
            raise
        if isinstance(end, Exception):
            try:
                raise end
            finally:
                # Its traceback refers to this frame: without this the two would keep each other alive.
                del end
        return end

    async def close(self) -> None:
        """Close all connections. Requests under way end with ConnectionError."""
        self._is_closed = True
        for timer in (self._sweeper, self._deadline_timer):
            if timer is not None:
                timer.cancel()
        while self._waiting:
            self._waiting.popleft().end(ConnectionError("the client is closed"))
        opening, connections = tuple(self._opening), tuple(self._open)
        for task in opening:
            task.cancel()
        for connection in connections:
            connection.abort()
        await asyncio.gather(*opening, *(connection.lost for connection in connections), return_exceptions=True)

    # --- which connection ---------------------------------------------------------------------------------------------

    @staticmethod
    def _begin(connection: Connection, exchange: Exchange) -> bool:
        """Send the request on this clean connection. False: it has ended, held back by the fence."""
        try:
            connection.begin(exchange)
        except Exception as error:  # noqa: BLE001 - of the fence, or of a transport: the caller gets it
            exchange.end(error)
            return False
        return True

    def give_back(self, connection: Connection) -> None:
        """No exchange is on this connection any more: it serves the next one, or is closed if it is not clean. One that
        is being closed by the other side may rest among the idle ones until it is: ``start`` looks again."""
        if self._is_closed or connection.is_spoilt or (self._waiting and not connection.is_clean):
            connection.abort()
            self._open_more()
            return
        while self._waiting:
            if self._begin(connection, self._waiting.popleft()):
                return
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(self._idle_seconds, self._sweep)

    def forget(self, exchange: Exchange) -> None:
        """Drop an exchange that ends without having had a connection."""
        with suppress(ValueError):
            self._waiting.remove(exchange)

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

    # --- deadlines ----------------------------------------------------------------------------------------------------

    def _end_overdue_at(self, deadline: float) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        self._next_deadline = deadline
        self._deadline_timer = self._loop.call_at(deadline, self._end_overdue)

    def _end_overdue(self) -> None:
        """End the exchanges whose time is over, by one look at all for each length of time-outs: there is no timer for
        each exchange."""
        self._deadline_timer, self._next_deadline = None, math.inf
        under_way = [connection.exchange for connection in self._open if connection.exchange is not None]
        present = [*under_way, *self._waiting]
        # The loop's clock may stand a little before the time that its timer was set to.
        until = self._loop.time() + CLOCK_SECONDS
        for exchange in present:
            if exchange.deadline <= until:
                exchange.fail(TimeoutError())
        left = [exchange.deadline for exchange in present if exchange.deadline > until]
        if left and not self._is_closed and min(left) < self._next_deadline:
            self._end_overdue_at(min(left))

    # --- opening ------------------------------------------------------------------------------------------------------

    def _open_more(self) -> None:
        if self._is_closed:
            return
        wanted = min(len(self._waiting), self._limit - len(self._open), MAX_OPENING)
        while len(self._opening) < wanted:
            task = asyncio.create_task(self._connect())
            self._opening.add(task)
            task.add_done_callback(self._connected)

    async def _connect(self) -> Connection:
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
                    lambda: Connection(self), sock=made, ssl=origin.ssl_context, server_hostname=name
                )
            except BaseException:
                made.close()
                raise
            if connection.lost.done():
                # ``lost_one`` has been called already: nothing would remove it from the open connections.
                raise ConnectionError(CLOSED_AS_OPENED)
            self._open.add(connection)
            return connection

    def _connected(self, task: asyncio.Task[Connection]) -> None:
        self._opening.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            connection = task.result()
            if not connection.is_clean:
                error = ConnectionError(CLOSED_AS_OPENED)
                connection.abort()
            self.give_back(connection)
        if error is not None and self._waiting:
            # A server that closes what it accepts would otherwise be connected to without a pause until the deadline.
            failure = error if isinstance(error, Exception) else ConnectionError(str(error))
            self._waiting.popleft().end(failure)
        self._open_more()

    def lost_one(self, connection: Connection) -> None:
        """Free the place of a connection that is closed."""
        self._open.discard(connection)
        with suppress(ValueError):
            self._idle.remove(connection)
        self._open_more()
