"""Carries out the engine's extender calls; each answer returns as a stimulus. A call that binds is a write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from scheduler.controller.calls.connection_limit import MAX_CONNECTIONS
from scheduler.controller.calls.extender_tls import ExtenderTLS
from scheduler.controller.late_imports import ONE_AT_A_TIME
from scheduler.controller.write.fence import Departure, fenced
from scheduler.controller.write.leadership import Leadership, LeadershipLost
from scheduler.extenders.answers import shortened
from scheduler.messages.commands import CallExtender
from scheduler.messages.stimuli import ExtenderAnswered

log = structlog.get_logger()


class Session(Protocol):
    """What is used of an ``ExtenderSession``, whose module imports aiohttp."""

    async def close(self) -> None:
        """Close the connections."""
        ...

    async def ask(self, command: CallExtender) -> ExtenderAnswered:
        """Send a call and return its answer. Raises TimeoutError, OSError, and what the fence raises."""


class ExtenderCalls:
    """The calls of all extenders. ``tls`` by the extender's number; none: the system's authorities. ``environment``:
    its proxies."""

    def __init__(
        self,
        on_answer: Callable[[ExtenderAnswered], None],
        leadership: Leadership,
        tls: Mapping[int, ExtenderTLS] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._on_answer = on_answer
        self._leadership = leadership
        self._tls = tls or {}
        self._environment = environment or {}
        self._session: Session | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._binding: set[asyncio.Task[None]] = set()
        """The calls that bind, with those that wait for a connection."""
        self._connections = asyncio.Semaphore(MAX_CONNECTIONS)

    def load(self) -> None:
        """Import what calls need, before the first of them: 0.1 s, which no scheduler without extenders pays."""
        self._opened_session()

    def submit(self, command: CallExtender) -> None:
        call = asyncio.create_task(self._call(command), name=f"extender {command.extender} {command.verb}")
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        if command.binds is not None:
            self._binding.add(call)
            call.add_done_callback(self._binding.discard)

    @property
    def open_writes(self) -> int:
        """Calls that bind, under way or waiting for a connection."""
        return len(self._binding)

    def has_room_for(self, binds: int) -> bool:
        """Whether this many further calls that bind would each have a connection."""
        return len(self._binding) + binds <= MAX_CONNECTIONS

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
        if command.binds is None:
            answer = await self._answer(command, None)
        else:
            # Pods that leave Permit together may be more than there are connections. Those that wait for one do so
            # outside of their own time: behind a slow extender's binds theirs would fail unsent.
            async with self._connections:
                answer = await self._answer(command, Departure(self._leadership))
        self._on_answer(answer)

    async def _answer(self, command: CallExtender, departure: Departure | None) -> ExtenderAnswered:
        try:
            async with asyncio.timeout(command.timeout_seconds):
                with fenced(departure):
                    answer = await self._opened_session().ask(command)
        except LeadershipLost as error:
            answer = ExtenderAnswered(command.ticket, error=str(error))
        except TimeoutError:
            answer = ExtenderAnswered(
                command.ticket, error=f"{_asked(command)}: no answer within {command.timeout_seconds:g}s"
            )
        except OSError as error:
            answer = ExtenderAnswered(command.ticket, error=f"{_asked(command)}: {error or type(error).__name__}")
        except Exception as error:
            log.exception("Extender call failed", url=command.url)
            answer = ExtenderAnswered(command.ticket, error=f"{_asked(command)}: {type(error).__name__}: {error}")
        if answer.error:
            return ExtenderAnswered(command.ticket, error=shortened(answer.error))
        return answer

    def _opened_session(self) -> Session:
        if self._session is None:
            with ONE_AT_A_TIME:
                from scheduler.controller.calls.extender_session import ExtenderSession

            self._session = ExtenderSession(self._tls, self._environment)
        return self._session


def _asked(command: CallExtender) -> str:
    """The call as kube-scheduler's messages show it where it had no answer."""
    return f'Post "{command.url}"'
