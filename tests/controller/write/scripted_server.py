"""A server that answers as a test says, and a client that writes to it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from scheduler.controller.write.client import ApiClient, Directly
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource
from scheduler.controller.write.direct import Outgoing
from scheduler.controller.write.fence import Departure
from scheduler.controller.write.http_exchange import Answer
from scheduler.controller.write.leadership import AlwaysHeld
from scheduler.errors import ApiError
from tests.controller.conftest import until
from tests.controller.write.test_credentials import kubeconfig

OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"

Play = Callable[[int, bytes, asyncio.StreamWriter], Awaitable[None]]
"""Answers a request: takes its number, its bytes, and where the answer goes."""


class Server:
    """A server of raw bytes. ``requests`` are those that came, ``connections`` how many were opened."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self.requests: list[bytes] = []
        self.connections = 0
        self.open: set[asyncio.StreamWriter] = set()
        self.certificates: list[Any] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.add(writer)
        self.certificates.append(writer.get_extra_info("peercert"))
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int((head.lower().partition(b"content-length:")[2].split() or [b"0"])[0])
                request = head + await reader.readexactly(length)
                self.requests.append(request)
                await self._play(len(self.requests), request, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            self.open.discard(writer)
            writer.close()


@asynccontextmanager
async def served(play: Play, context: ssl.SSLContext | None = None) -> AsyncIterator[tuple[Server, str]]:
    server = Server(play)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield server, f"{'http' if context is None else 'https'}://127.0.0.1:{port}"
    finally:
        listening.close()
        for writer in list(server.open):
            writer.transport.abort()
        await until(lambda: not server.open)


@asynccontextmanager
async def client_of(
    path: str, directly: Directly, *, environment: dict[str, str] | None = None, connections: int = 8
) -> AsyncIterator[ApiClient]:
    source = CredentialSource(ConnectionSettings(kubeconfig=path), environment or {})
    client = ApiClient(source, directly=directly, connections=connections)
    try:
        yield client
    finally:
        await client.close()


async def write(client: ApiClient, departure: Departure | None = None, seconds: float = 5.0) -> Answer:
    """As bindings and events are written: by a call, whose end is awaited here."""
    ended: asyncio.Future[Answer | Exception] = asyncio.get_running_loop().create_future()
    outgoing = Outgoing("POST", "/write", b"{}", seconds)
    begun = client.begin(outgoing, departure or Departure(AlwaysHeld()), ended.set_result)
    try:
        end = await ended
    except asyncio.CancelledError:
        begun.cancel()
        raise
    if isinstance(end, Exception):
        raise end
    return end


async def error_of(play: Play, folder: Path, directly: Directly, seconds: float = 5.0) -> tuple[ApiError, Departure]:
    """What becomes of a write whose answer is played."""
    async with served(play) as (_, url), client_of(kubeconfig(folder / "k", url), directly) as client:
        departure = Departure(AlwaysHeld())
        with pytest.raises(ApiError) as caught:
            await write(client, departure, seconds)
        return caught.value, departure


def plays(*chunks: bytes, ends: bool = True) -> Play:
    async def play(_number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        for chunk in chunks:
            writer.write(chunk)
            await writer.drain()
        if ends:
            writer.close()

    return play
