"""Sends the engine's extender calls over HTTP; each answer returns as a stimulus. A call that binds is a write."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Mapping
from typing import Final

import aiohttp
import structlog

from scheduler.controller.calls.extender_tls import ExtenderTLS
from scheduler.controller.write.fence import Departure, fenced
from scheduler.controller.write.fenced_request import FencedRequest
from scheduler.controller.write.leadership import Leadership, LeadershipLost
from scheduler.extenders.answers import shortened
from scheduler.messages.commands import CallExtender
from scheduler.messages.stimuli import ExtenderAnswered

MAX_ANSWER_BYTES: Final = 64 * 2**20
ANSWER_BYTES_UNASKED: Final = 4 * 2**20
"""Bytes that an answer may have beyond twice its request: reasons of nodes, or victims that were not sent. For 5,000
nodes, 800 bytes each. A correct answer repeats at most its request; without this bound 128 binds under way could hold 8
GiB of answers."""

log = structlog.get_logger()


class ExtenderCalls:
    """One session for all extenders. ``tls`` by the extender's number; none: the system's authorities."""

    def __init__(
        self,
        on_answer: Callable[[ExtenderAnswered], None],
        leadership: Leadership,
        tls: Mapping[int, ExtenderTLS] | None = None,
    ) -> None:
        self._on_answer = on_answer
        self._leadership = leadership
        self._tls = tls or {}
        self._session: aiohttp.ClientSession | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._binding: set[asyncio.Task[None]] = set()
        """The calls that bind."""

    def submit(self, command: CallExtender) -> None:
        call = asyncio.create_task(self._call(command), name=f"extender {command.extender} {command.verb}")
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        if command.binds is not None:
            self._binding.add(call)
            call.add_done_callback(self._binding.discard)

    @property
    def open_writes(self) -> int:
        """Calls under way that bind."""
        return len(self._binding)

    async def settle(self, seconds: float) -> None:
        """Wait at most ``seconds`` for the calls that bind."""
        if self._binding:
            await asyncio.wait(set(self._binding), timeout=seconds)

    async def close(self) -> None:
        for call in list(self._calls):
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _call(self, command: CallExtender) -> None:
        departure = Departure(self._leadership) if command.binds is not None else None
        try:
            async with asyncio.timeout(command.timeout_seconds):
                with fenced(departure):
                    answer = await self._ask(command)
        except LeadershipLost as error:
            answer = ExtenderAnswered(command.ticket, error=str(error))
        except TimeoutError:
            answer = ExtenderAnswered(command.ticket, error=f"no answer within {command.timeout_seconds:g}s")
        except (aiohttp.ClientError, OSError) as error:
            answer = ExtenderAnswered(command.ticket, error=str(error) or type(error).__name__)
        except Exception as error:
            log.exception("Extender call failed", url=command.url)
            answer = ExtenderAnswered(command.ticket, error=f"{type(error).__name__}: {error}")
        if answer.error:
            answer = ExtenderAnswered(command.ticket, error=shortened(answer.error))
        self._on_answer(answer)

    async def _ask(self, command: CallExtender) -> ExtenderAnswered:
        if self._session is None:
            # The decompressed size of an answer has no limit, so only uncompressed answers are requested and accepted.
            self._session = aiohttp.ClientSession(
                request_class=FencedRequest,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                headers={"Accept-Encoding": "identity"},
            )
        tls = self._tls.get(command.extender)
        async with self._session.post(
            command.url,
            data=io.BytesIO(command.body),  # sent in pieces: 50 MB of nodes in one would hold up the loop
            headers={"Content-Type": "application/json"},
            timeout=aiohttp.ClientTimeout(total=command.timeout_seconds),
            ssl=tls.context if tls is not None else True,
            server_hostname=tls.server_name or None if tls is not None else None,
            allow_redirects=False,
        ) as response:
            if response.status != 200:
                text = f"failed {command.verb} with extender at URL {command.url}, code {response.status}"
                return ExtenderAnswered(command.ticket, error=text)
            return await _read_whole(response, command)


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
