"""HTTP to all extenders, by aiohttp: one session for the calls that bind, one for the others.

A session has ``MAX_CONNECTIONS``. Of the calls that a cycle waits for there are a few at once. Behind the binds of a
slow extender they would fail unsent, and with them every pod.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Final

import aiohttp

from scheduler.controller.calls.connection_limit import MAX_CONNECTIONS
from scheduler.controller.calls.extender_tls import ExtenderTLS
from scheduler.controller.write.fenced_request import FencedRequest
from scheduler.controller.write.proxies import proxy_for
from scheduler.controller.write.session_way import failures
from scheduler.messages.commands import CallExtender
from scheduler.messages.stimuli import ExtenderAnswered

MAX_ANSWER_BYTES: Final = 64 * 2**20
ANSWER_BYTES_UNASKED: Final = 4 * 2**20
"""Bytes that an answer may have beyond twice its request: reasons of nodes, or victims that were not sent. For 5,000
nodes, 800 bytes each. A correct answer repeats at most its request; without this bound 128 binds under way could hold 8
GiB of answers."""


class ExtenderSession:
    """Make it inside the event loop. ``environment``: its proxies, as for the API server."""

    def __init__(self, tls: Mapping[int, ExtenderTLS], environment: Mapping[str, str]) -> None:
        self._tls = tls
        self._environment = environment
        self._asking, self._binding = _session(), _session()

    async def close(self) -> None:
        await self._asking.close()
        await self._binding.close()

    async def ask(self, command: CallExtender) -> ExtenderAnswered:
        """Send a call and return its answer. Raises TimeoutError, OSError, and what the fence raises."""
        with failures():
            try:
                return await self._post(command)
            except aiohttp.TooManyRedirects as error:
                raise ConnectionError(f"stopped after {len(error.history)} redirects") from error

    async def _post(self, command: CallExtender) -> ExtenderAnswered:
        tls = self._tls.get(command.extender)
        session = self._asking if command.binds is None else self._binding
        async with session.post(
            command.url,
            data=io.BytesIO(command.body),  # sent in pieces: 50 MB of nodes in one would hold up the loop
            headers={"Content-Type": "application/json"},
            timeout=aiohttp.ClientTimeout(total=command.timeout_seconds),
            ssl=tls.context if tls is not None else True,
            server_hostname=tls.server_name or None if tls is not None else None,
            proxy=proxy_for(command.url, self._environment),
        ) as response:
            if response.status != 200:
                text = f"failed {command.verb} with extender at URL {command.url}, code {response.status}"
                return ExtenderAnswered(command.ticket, error=text)
            return await _read_whole(response, command)


def _session() -> aiohttp.ClientSession:
    # The decompressed size of an answer has no limit, so only uncompressed answers are requested and accepted.
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS),
        request_class=FencedRequest,
        trust_env=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        headers={"Accept-Encoding": "identity"},
    )


async def _read_whole(response: aiohttp.ClientResponse, command: CallExtender) -> ExtenderAnswered:
    """The whole body, or a fault if it exceeds its limit; the rest is then not read."""
    limit = min(MAX_ANSWER_BYTES, ANSWER_BYTES_UNASKED + 2 * len(command.body))
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > limit:
            response.close()
            text = f"{command.verb} with extender at URL {command.url}: the answer is longer than {limit} bytes"
            return ExtenderAnswered(command.ticket, error=text)
        chunks.append(chunk)
    return ExtenderAnswered(command.ticket, body=b"".join(chunks))
