"""The direct way: requests as bytes, on connections that ``http_connections`` keeps.

It has no proxies, and no name or password in the server's URL: ``origin_of`` returns None for those, and aiohttp serves
them.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from scheduler.config.own_version import own_version
from scheduler.controller.write.credentials import Credentials
from scheduler.controller.write.fence import Departure
from scheduler.controller.write.http_connections import HttpConnections, Origin
from scheduler.controller.write.http_exchange import Answer
from scheduler.controller.write.http_stream import Stream

JSON: Final = "application/json"


class Outgoing(Struct, frozen=True):
    """A request as it leaves. ``seconds``: until it times out. ``content_type``: of the body; where there is none, of
    the answer that is asked for."""

    method: str
    path: str
    body: bytes | None
    seconds: float
    content_type: str = JSON


class DirectWay:
    """Requests with the credentials of its making."""

    def __init__(self, connections: HttpConnections, credentials: Credentials) -> None:
        self.connections = connections
        parts = urlsplit(credentials.server)
        # Stated, since what is between may otherwise ask for compression, or compress: nothing here decompresses.
        headers = {"Host": parts.netloc, "User-Agent": user_agent(), "Accept-Encoding": "identity"}
        if credentials.authorization:
            headers["Authorization"] = credentials.authorization
        self._head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._prefix = parts.path
        self._heads: dict[str, str] = {}
        """By the body's content type: the head from behind its target to the length of the body."""

    async def send(self, write: Outgoing, departure: Departure | None) -> Answer:
        """Send a request and return its answer. Raises OSError, TimeoutError, LeadershipLost, and ValueError for a path
        that is no part of an ASCII URL."""
        return await self.connections.send(self.request_of(write), write.seconds, departure)

    async def watch(self, target: str, idle_seconds: float) -> Stream:
        """The answer to a GET without an end, as soon as its head is there. Raises as ``send`` does."""
        request = self.request_of(Outgoing("GET", target, None, idle_seconds))
        stream = Stream(None, request, idle_seconds=idle_seconds)
        self.connections.start(stream, idle_seconds)
        try:
            await stream.headed()
        except asyncio.CancelledError:
            stream.close()
            raise
        return stream

    def request_of(self, write: Outgoing) -> bytes:
        """The request's bytes. Raises ValueError as ``send`` does."""
        target, body = self._prefix + write.path, write.body
        if not target.isascii() or not target.isprintable() or " " in target:
            raise ValueError(f"{target!r} is no path")
        if body is None:
            return f"{write.method} {target} HTTP/1.1\r\n{self._head}Accept: {write.content_type}\r\n\r\n".encode()
        head = self._heads.get(write.content_type) or self._head_of(write.content_type)
        return f"{write.method} {target}{head}{len(body)}\r\n\r\n".encode() + body

    def _head_of(self, content_type: str) -> str:
        head = f" HTTP/1.1\r\n{self._head}Accept: {JSON}\r\nContent-Type: {content_type}\r\nContent-Length: "
        self._heads[content_type] = head
        return head


def origin_of(credentials: Credentials) -> Origin | None:
    """The server to connect to; None if only aiohttp can reach it."""
    parts = urlsplit(credentials.server)
    host = parts.hostname
    is_plain = host is not None and host.isascii() and "%" not in host and "@" not in parts.netloc and not parts.query
    if host is None or not is_plain or credentials.proxy is not None:
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Origin(host, port, credentials.ssl_context, credentials.server_hostname)


def user_agent() -> str:
    return f"tandem-scheduler/{own_version() or 'unknown'}"


def keep_alive_socket(address: Any) -> socket.socket:
    """A TCP socket whose dead peer is noticed within a minute: a half-open watch would be silent for ever."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
    return made
