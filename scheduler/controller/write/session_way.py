"""The way of aiohttp to the API server: all requests through proxies, and of clients that ask for it.

``client`` imports this module with its first such request: aiohttp takes longer to import than a command that asks one
question takes for everything else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import aiohttp
from yarl import URL

from scheduler.controller.write.answers import MAX_ANSWER_BYTES
from scheduler.controller.write.credentials import Credentials
from scheduler.controller.write.direct import JSON, keep_alive_socket, user_agent
from scheduler.controller.write.fenced_request import FencedRequest
from scheduler.controller.write.http_exchange import Answer, AnswerTooLong

CONNECT_SECONDS = 10.0


class SessionWay:
    """One aiohttp session, whatever the credentials. Make it inside the event loop."""

    def __init__(self, connections: int) -> None:
        """``connections``: the maximum that is open at once."""
        connector = aiohttp.TCPConnector(
            limit=connections, keepalive_timeout=60.0, socket_factory=keep_alive_socket, ttl_dns_cache=60
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            request_class=FencedRequest,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": user_agent(), "Accept": JSON},
            read_bufsize=2**18,
        )
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}

    async def close(self) -> None:
        await self._session.close()

    async def send(
        self, credentials: Credentials, method: str, target: str, body: bytes | None, content_type: str, seconds: float
    ) -> SessionAnswer:
        """The answer as soon as its head is there. ``seconds``: for all of it, the body's reading too."""
        limit = self._timeouts.get(seconds)
        if limit is None:
            limit = self._timeouts[seconds] = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        return await self._send(credentials, method, target, body, content_type, limit)

    async def watch(self, credentials: Credentials, target: str, idle_seconds: float) -> SessionAnswer:
        """The answer to a GET without an end; a silence of ``idle_seconds`` is a TimeoutError."""
        limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=idle_seconds)
        return await self._send(credentials, "GET", target, None, JSON, limit)

    async def _send(
        self,
        credentials: Credentials,
        method: str,
        target: str,
        body: bytes | None,
        content_type: str,
        limit: aiohttp.ClientTimeout,
    ) -> SessionAnswer:
        headers = {"Content-Type": content_type} if body is not None else {"Accept": content_type}
        if credentials.authorization:
            headers["Authorization"] = credentials.authorization
        options: dict[str, Any] = {"timeout": limit, "allow_redirects": False}
        if credentials.ssl_context is not None:
            options["ssl"] = credentials.ssl_context
        if credentials.server_hostname is not None:
            options["server_hostname"] = credentials.server_hostname
        if credentials.proxy is not None:
            options["proxy"] = credentials.proxy
        url = URL(credentials.server + target, encoded=True)
        with failures():
            return SessionAnswer(await self._session.request(method, url, data=body, headers=headers, **options))


class SessionAnswer:
    """An answer whose body is still to be read."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    @property
    def status(self) -> int:
        return self._response.status

    async def whole(self) -> Answer:
        """The answer with its body, unpacked. Raises AnswerTooLong as soon as that has more than MAX_ANSWER_BYTES."""
        response, parts, size = self._response, [], 0
        try:
            while part := await self.read():
                parts.append(part)
                size += len(part)
                if size > MAX_ANSWER_BYTES:
                    raise AnswerTooLong(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
        finally:
            # A body that was read to its end has already released its connection; any other is closed.
            response.close()
        body = b"".join(parts)
        if response.status < 300:
            return Answer(response.status, body)
        return Answer(response.status, body, response.reason or "", response.headers.get("Retry-After", ""))

    async def read(self) -> bytes:
        """The bytes of the body that are there, after a wait for some; b"" is its end."""
        with failures():
            return await self._response.content.readany()

    def close(self) -> None:
        self._response.close()


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """A block in which aiohttp's own errors are raised as ConnectionError; those that are OSErrors already pass as they
    are, but for failed connections, whose text shows Python's objects."""
    try:
        yield
    except aiohttp.ClientSSLError:
        raise
    except aiohttp.ClientConnectorError as error:
        reason = error.os_error.strerror or str(error.os_error)
        raise ConnectionError(f"Cannot connect to {error.host}:{error.port}: {reason}") from error
    except aiohttp.ClientError as error:
        if isinstance(error, OSError | TimeoutError):
            raise
        raise ConnectionError(str(error) or type(error).__name__) from error
