"""Accepts connections to the pages, bounds their number, and enforces a deadline for each step of a connection.

Any client that reaches the port may open connections. Handshakes that never end, request lines that are never finished
and readers that never read must neither pile up nor lock out the probes. So a connection beyond a limit replaces the
one that has been without a complete request for the longest time.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, cast

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from scheduler.controller.serve.connection_limits import ConnectionCounts, ConnectionLimits

ACCEPT_RETRY_SECONDS: Final = 0.1
"""Delay after a failed accept: without free file descriptors the next one would fail at once."""
HEAD_END: Final = b"\r\n\r\n"
TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
WITHOUT_TLS: Final = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
"""As kube-scheduler answers a request in plain HTTP."""

log = structlog.get_logger()


class Connections:
    """``serve`` on listening sockets, then ``stop_accepting`` and ``close``. Each request must pass ``marking`` first.

    ``context`` is called for each connection, since certificates are renewed; None: plain HTTP.
    """

    def __init__(self, context: Callable[[], ssl.SSLContext | None], limits: ConnectionLimits) -> None:
        self.limits = limits
        self.counts = ConnectionCounts()
        self._context = context
        self._new_protocol: Callable[[], asyncio.Protocol] = asyncio.Protocol
        self._open: set[_Connection] = set()
        self._waiting: OrderedDict[_Connection, None] = OrderedDict()
        """Connections without a complete request, the longest-waiting first."""
        self._of_address: Counter[str] = Counter()
        self._by_protocol: dict[object, _Connection] = {}
        self._sockets: Sequence[socket.socket] = ()
        self._accepting: list[asyncio.Task[None]] = []

    def __len__(self) -> int:
        return len(self._open)

    def serve(self, sockets: Sequence[socket.socket], new_protocol: Callable[[], asyncio.Protocol]) -> None:
        """Starts accepting. ``new_protocol`` creates the HTTP protocol of one connection."""
        self._sockets = sockets
        self._new_protocol = new_protocol
        self._accepting = [asyncio.create_task(self._accept(one), name="accept") for one in sockets]

    async def stop_accepting(self) -> None:
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for one in self._sockets:
            one.close()

    async def close(self) -> None:
        """Aborts the connections that are still open."""
        beginning = [connection.beginning for connection in self._open if connection.beginning is not None]
        for connection in list(self._open):
            connection.cut()
        await asyncio.gather(*beginning, return_exceptions=True)

    def marking(self) -> Middleware:
        """A middleware that records the progress of each connection's requests."""

        @web.middleware
        async def mark(request: web.Request, handler: Handler) -> web.StreamResponse:
            connection = self._by_protocol.get(request.protocol)
            if connection is None:
                return await handler(request)
            self._waiting.pop(connection, None)
            connection.must_get_on(self.limits.request_seconds)
            try:
                return await handler(request)
            finally:
                if connection in self._open:
                    self._waiting[connection] = None
                    connection.must_get_on(self.limits.idle_seconds)

        return mark

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        is_failing = False
        while True:
            try:
                accepted, peer = await loop.sock_accept(listening)
            except OSError as error:
                if not is_failing:
                    log.warning("Connection could not be accepted", error=str(error))
                is_failing = True
                await asyncio.sleep(ACCEPT_RETRY_SECONDS)
                continue
            is_failing = False
            self.counts.accepted += 1
            address = str(peer[0])
            if not self._has_room(address):
                self.counts.refused += 1
                accepted.close()
                continue
            connection = _Connection(self, address)
            self._open.add(connection)
            self._waiting[connection] = None
            self._of_address[address] += 1
            connection.begin(self._begin(connection, accepted), accepted)

    def _has_room(self, address: str) -> bool:
        """Whether one more connection from the address may be accepted; this may close another one."""
        if self._of_address[address] >= self.limits.connections_of_address:
            displaced = next((one for one in self._waiting if one.address == address), None)
        elif len(self._open) >= self.limits.connections:
            displaced = next(iter(self._waiting), None)
        else:
            return True
        if displaced is None:
            return False
        self.counts.displaced += 1
        displaced.cut()
        return True

    async def _begin(self, connection: _Connection, accepted: socket.socket) -> None:
        """Connects the socket to the HTTP protocol, over TLS if configured."""
        context = self._context()
        timeout = self.limits.handshake_seconds if context is not None else None
        try:
            async with asyncio.timeout(timeout):
                # The name of a method; a record of TLS begins with a control character.
                is_plain = context is not None and (await _first_byte(accepted)).isupper()
            if is_plain:
                accepted.recv(self.limits.head_bytes)
                accepted.send(WITHOUT_TLS)
                return
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, accepted, ssl=context, ssl_handshake_timeout=timeout
            )
        except OSError:
            # A failed or timed-out handshake (TLS errors and time-outs are OSErrors) is the peer's fault.
            return

    # --- events of connections ----------------------------------------------------------------------------------------

    def protocol_of(self, connection: _Connection) -> asyncio.Protocol:
        made = self._new_protocol()
        self._by_protocol[made] = connection
        return made

    def is_waiting(self, connection: _Connection) -> bool:
        return connection in self._waiting

    def forget(self, connection: _Connection) -> None:
        """Removes a connection; idempotent, since one that is aborted is also reported as lost."""
        if connection.http is not None:
            self._by_protocol.pop(connection.http, None)
        if connection not in self._open:
            return
        self._open.discard(connection)
        self._waiting.pop(connection, None)
        self._of_address[connection.address] -= 1
        if not self._of_address[connection.address]:
            del self._of_address[connection.address]


async def _first_byte(accepted: socket.socket) -> bytes:
    """The first byte that the peer sends, left in the socket; b"" if it hangs up without one."""
    loop, there = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(accepted, there.set)
    try:
        await there.wait()
    finally:
        loop.remove_reader(accepted)
    return accepted.recv(1, socket.MSG_PEEK)


class _Connection(asyncio.Protocol):
    """Between a socket and its HTTP protocol: counts bytes and seconds until a request is complete."""

    def __init__(self, connections: Connections, address: str) -> None:
        self.address = address
        self.beginning: asyncio.Task[None] | None = None
        self.http: asyncio.Protocol | None = None
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._bytes = 0
        self._last = b""
        """The last bytes received, which may begin the end of a head."""
        self._head_is_complete = False

    @property
    def is_connected(self) -> bool:
        return self._transport is not None

    def begin(self, work: Coroutine[Any, Any, None], accepted: socket.socket) -> None:
        """Starts ``work``, which connects ``accepted`` to this connection; it may fail, or be cancelled early."""
        self.beginning = asyncio.create_task(work, name="connection")

        def ended(_: asyncio.Task[None]) -> None:
            if not self.is_connected:
                accepted.close()
                self._end()

        self.beginning.add_done_callback(ended)

    def must_get_on(self, seconds: float) -> None:
        """Sets the deadline of the connection's next step, ``seconds`` from now."""
        self._bytes = 0
        self._last = b""
        self._head_is_complete = False
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(seconds, self._is_overdue)

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        elif self.beginning is not None:
            self.beginning.cancel()
        self._end()

    def _is_overdue(self) -> None:
        self._connections.counts.overdue += 1
        self.cut()

    def _end(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._connections.forget(self)

    # --- asyncio.Protocol ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's, but behave alike.
        self._transport = cast("asyncio.Transport", transport)
        self.http = self._connections.protocol_of(self)
        self.must_get_on(self._connections.limits.head_seconds)
        self.http.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        assert self.http is not None and self._transport is not None
        if self._connections.is_waiting(self):
            # A body may arrive before its request is begun, and is bounded where it is read.
            if not self._head_is_complete:
                # Line breaks before a request count, too, but are not the end of its head.
                head = self._last + data if self._last else data.lstrip(b"\r\n")
                end = head.find(HEAD_END)
                self._head_is_complete = end >= 0
                self._last = head[-len(HEAD_END) + 1 :]
                self._bytes += end if end >= 0 else len(data)
            if self._bytes > self._connections.limits.head_bytes:
                self._transport.write(TOO_LARGE)
                self._transport.close()
                return
        self.http.data_received(data)

    def eof_received(self) -> bool | None:
        assert self.http is not None
        return self.http.eof_received()

    def pause_writing(self) -> None:
        assert self.http is not None
        self.http.pause_writing()

    def resume_writing(self) -> None:
        assert self.http is not None
        self.http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        assert self.http is not None
        self.http.connection_lost(exc)
        self._end()
