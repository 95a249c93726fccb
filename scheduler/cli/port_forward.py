"""Forwards a port of a pod to the loopback through the API server, like ``kubectl port-forward``, over a WebSocket.

The subprotocol is ``v4.channel.k8s.io``, which the API server passes on to the kubelet: each message begins with a
channel's number, 0 for data and 1 for an error's text, and the first two bytes of either channel are the port.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import quote, urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from scheduler.controller.write.credentials import Credentials
from scheduler.errors import SchedulerError

PROTOCOL: Final = Subprotocol("v4.channel.k8s.io")
PORTS: Final = {"http": 80, "https": 443}
DATA, ERROR = b"\x00", b"\x01"
PORT_BYTES: Final = 2
CHUNK_BYTES: Final = 32 * 1024
MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
MAX_ERROR_BYTES: Final = 4096
CLOSE_SECONDS: Final = 1.0
"""Seconds for the API server to answer the end of the WebSocket."""


class ForwardFailure(SchedulerError):
    """The port can't be forwarded; the text gives the reason."""


class Forward:
    """One forwarded connection. ``port``: its port on the loopback; ``error``: the error that the pod's side
    reported."""

    def __init__(self, socket: ClientConnection) -> None:
        self.port = 0
        self.error = ""
        self._socket = socket
        self._serving: asyncio.Task[None] | None = None

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward the first client's connection, in a task of its own; others are closed.

        Not a coroutine for asyncio to run: the end of that one can't be awaited, and Python 3.11 reports its
        cancellation as an error of the program.
        """
        if self._serving is not None:
            writer.close()
            return
        self._serving = asyncio.create_task(self._serve(reader, writer))

    async def end(self) -> None:
        """Close the connection, and wait for its end."""
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait((self._serving,))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sending = asyncio.create_task(self._send(reader))
        try:
            # Either side may go at any time: the request over this connection fails then, and says so.
            with contextlib.suppress(ConnectionError, WebSocketException):
                await self._receive(writer)
        finally:
            sending.cancel()
            writer.close()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError, WebSocketException):
                await sending

    async def _send(self, reader: asyncio.StreamReader) -> None:
        while part := await reader.read(CHUNK_BYTES):
            await self._socket.send(DATA + part)

    async def _receive(self, writer: asyncio.StreamWriter) -> None:
        heads = {DATA: PORT_BYTES, ERROR: PORT_BYTES}
        async for message in self._socket:
            if isinstance(message, str):
                return
            channel, part = message[:1], message[1:]
            if channel not in heads:
                continue
            head = heads[channel]
            heads[channel] = max(head - len(part), 0)
            part = part[head:]
            if channel == DATA:
                writer.write(part)
                await writer.drain()
            elif part:
                self.error = (self.error + part.decode(errors="replace"))[:MAX_ERROR_BYTES]
                return


@contextlib.asynccontextmanager
async def forwarded(who: Credentials, namespace: str, pod: str, port: int, seconds: float) -> AsyncIterator[Forward]:
    """The pod's port for the block, for one connection. ``seconds`` to open it. Raises ForwardFailure."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/portforward?ports={port}"
    options: dict[str, Any] = {}
    if who.ssl_context is not None:
        options["ssl"] = who.ssl_context
        if who.server_hostname is not None:
            options["server_hostname"] = who.server_hostname
    if who.proxy is None:
        # Stated, so that a redirect to another server is refused: the library follows it otherwise.
        parts = urlsplit(who.server)
        options["host"], options["port"] = parts.hostname, parts.port or PORTS[parts.scheme]
    try:
        async with asyncio.timeout(seconds):
            socket = await connect(
                # http becomes ws, and https wss.
                f"{who.server.replace('http', 'ws', 1)}{path}",
                subprotocols=(PROTOCOL,),
                additional_headers={"Authorization": who.authorization} if who.authorization else {},
                proxy=who.proxy,
                compression=None,
                max_size=MAX_MESSAGE_BYTES,
                open_timeout=None,
                ping_interval=None,
                close_timeout=CLOSE_SECONDS,
                **options,
            )
    except InvalidStatus as error:
        status = error.response.status_code
        raise ForwardFailure(f"port-forward to pod {namespace}/{pod} is refused: HTTP {status}") from error
    except TimeoutError as error:
        raise ForwardFailure(f"port-forward to pod {namespace}/{pod}: no answer in {seconds:g} s") from error
    except (WebSocketException, ValueError, OSError) as error:
        raise ForwardFailure(f"port-forward to pod {namespace}/{pod} failed: {error}") from error
    async with socket:
        if socket.subprotocol != PROTOCOL:
            raise ForwardFailure(f"port-forward to pod {namespace}/{pod}: the API server does not speak {PROTOCOL}")
        forward = Forward(socket)
        server = await asyncio.start_server(forward.accept, "127.0.0.1", 0)
        async with server:
            forward.port = server.sockets[0].getsockname()[1]
            try:
                yield forward
            finally:
                await forward.end()
