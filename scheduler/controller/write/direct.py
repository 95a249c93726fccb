"""The direct way: requests as bytes, on connections that ``http_connections`` keeps.

It has no proxies, and no name or password in the server's URL: ``origin_of`` returns None for those, and aiohttp serves
them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from scheduler.config.own_version import own_version
from scheduler.controller.write.credentials import Credentials
from scheduler.controller.write.fence import Departure
from scheduler.controller.write.http_connections import CONNECT_SECONDS, HttpConnections, Origin, connect
from scheduler.controller.write.http_exchange import Exchange, HttpAnswer, HttpEnd
from scheduler.controller.write.http_watch import WatchAnswer

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
    """Requests with the credentials of its making. Raises ValueError for credentials that are no header."""

    def __init__(self, connections: HttpConnections, credentials: Credentials) -> None:
        self.connections = connections
        parts = urlsplit(credentials.server)
        headers = {"Host": parts.netloc, "User-Agent": user_agent()}
        if credentials.authorization:
            headers["Authorization"] = credentials.authorization
        lines = [f"{name}: {value}" for name, value in headers.items()]
        if any(set(line) & set("\r\n\0") for line in lines):
            raise ValueError("the credentials have a line break")
        self._head = "".join(f"{line}\r\n" for line in lines)
        self._prefix = parts.path

    async def send(self, write: Outgoing, departure: Departure | None) -> HttpAnswer:
        """Raises OSError, TimeoutError, LeadershipLost, and ValueError for a path that is no part of an ASCII URL."""
        return await self.connections.send(self._request(write), write.seconds, departure)

    def start(self, write: Outgoing, departure: Departure, on_end: Callable[[HttpEnd], None]) -> Exchange:
        """``send`` without a coroutine: see ``HttpConnections.start``. Raises ValueError as ``send`` does."""
        return self.connections.start(self._request(write), write.seconds, departure, on_end)

    async def watch(self, target: str, idle_seconds: float) -> WatchAnswer:
        """The answer to a GET without an end, once its head is there; on a connection of its own, since a watch keeps
        it to its end. Raises OSError, TimeoutError (for a silence of ``idle_seconds``, too) and ValueError."""
        request = self._request(Outgoing("GET", target, None, idle_seconds))
        async with asyncio.timeout(CONNECT_SECONDS):
            answer = await connect(
                self.connections.origin, keep_alive_socket, lambda: WatchAnswer(request, idle_seconds)
            )
        try:
            await answer.head()
        except BaseException:
            answer.close()
            raise
        return answer

    def _request(self, write: Outgoing) -> bytes:
        target = self._prefix + write.path
        if not target.isascii() or not target.isprintable() or " " in target:
            raise ValueError(f"{target!r} is no path")
        if write.body is None:
            return f"{write.method} {target} HTTP/1.1\r\n{self._head}Accept: {write.content_type}\r\n\r\n".encode()
        head = (
            f"{write.method} {target} HTTP/1.1\r\n{self._head}"
            f"Accept: {JSON}\r\nContent-Type: {write.content_type}\r\nContent-Length: {len(write.body)}\r\n\r\n"
        )
        return head.encode() + write.body


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
