"""Sends the engine's extender calls over HTTP; each answer returns as a stimulus. A call that binds is a write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import aiohttp
import structlog

from scheduler.controller.calls.extender_tls import ExtenderTLS
from scheduler.controller.lead.fence import Departure, FencedRequest, fenced
from scheduler.controller.lead.leadership import Leadership, LeadershipLost
from scheduler.messages.commands import CallExtender
from scheduler.messages.stimuli import ExtenderAnswered

LARGEST_ANSWER = 64 * 2**20

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
        """Wait for the calls that bind, for ``seconds`` at most."""
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
        self._on_answer(answer)

    async def _ask(self, command: CallExtender) -> ExtenderAnswered:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                request_class=FencedRequest, trust_env=False, cookie_jar=aiohttp.DummyCookieJar()
            )
        tls = self._tls.get(command.extender)
        async with self._session.post(
            command.url,
            data=command.body,
            headers={"Content-Type": "application/json"},
            timeout=aiohttp.ClientTimeout(total=command.timeout_seconds),
            ssl=tls.context if tls is not None else True,
            server_hostname=tls.server_name or None if tls is not None else None,
            allow_redirects=False,
        ) as response:
            body = await response.content.read(LARGEST_ANSWER)
            if response.status != 200:
                text = f"failed {command.verb} with extender at URL {command.url}, code {response.status}"
                return ExtenderAnswered(command.ticket, error=text)
            return ExtenderAnswered(command.ticket, body=body)
