"""``/debug/live``: what changes, as server-sent events, until a stream's time is over and the client asks again.

A stream holds nothing but the number of the last decision that it has sent: who reads slowly, or connects again, gets
the newest decisions and the number of those that were left out. That a stream ends by itself lets rights be checked
again, and lets a connection's deadline stand (``ConnectionLimits.request_seconds``).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import msgspec
from aiohttp import web
from msgspec import Struct

from scheduler.controller.report.decisions import Decisions
from scheduler.controller.serve.authorization import ASKER, Asker, refusal
from scheduler.controller.serve.names import seen, without_names
from scheduler.controller.serve.reviews import TooManyReviews
from scheduler.engine.engine import Engine
from scheduler.errors import ApiError

MAX_STREAMS: Final = 32
MAX_STREAMS_OF_USER: Final = 8
"""Open streams of one user, who may have several tabs and windows; behind ``tandem ui`` all users are one account."""
STREAM_SECONDS: Final = 45.0
LOOK_SECONDS: Final = 0.5
SEND_SECONDS: Final = 5.0
"""Seconds until a client that does not read is cut off."""
RETRY_MILLISECONDS: Final = 500
MAX_DECISIONS_AT_ONCE: Final = 100
MAX_STREAM_BYTES: Final = 16 * 2**20
MAX_DIGITS: Final = 15


class LiveLimits(Struct, frozen=True):
    """Numbers of streams, seconds and bytes."""

    streams: int = MAX_STREAMS
    streams_of_user: int = MAX_STREAMS_OF_USER
    stream_seconds: float = STREAM_SECONDS
    look_seconds: float = LOOK_SECONDS
    send_seconds: float = SEND_SECONDS
    stream_bytes: int = MAX_STREAM_BYTES


class Live:
    """The streams of one server."""

    def __init__(
        self, engine: Engine, decisions: Decisions, limits: LiveLimits | None, is_leading: Callable[[], bool]
    ) -> None:
        self._engine = engine
        self._decisions = decisions
        self._limits = limits or LiveLimits()
        self._is_leading = is_leading
        self._streams: Counter[str] = Counter()

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return self._streams.total()

    async def page(self, request: web.Request) -> web.StreamResponse:
        """Events ``copy`` (whether this copy leads), ``queue`` (the counts) and ``decisions``; an event's id is the
        number of its last decision, and ``Last-Event-ID`` or ``?after=`` the one to go on from. Without it a stream
        begins with the newest decisions."""
        asker: Asker | None = request.get(ASKER)
        user = asker.who.name if asker is not None else request.remote or ""
        limits = self._limits
        if self.streams >= limits.streams or self._streams[user] >= limits.streams_of_user:
            late = refusal(429, "TooManyRequests", "too many streams are open")
            late.headers["Retry-After"] = "5"
            return late
        self._streams[user] += 1
        try:
            return await self._stream(request)
        finally:
            self._streams[user] -= 1
            if not self._streams[user]:
                del self._streams[user]

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"})
        answer.content_type = "text/event-stream"
        # The connection ends with the stream, so that a proxy in between does not hold it either.
        answer.force_close()
        await answer.prepare(request)
        stream = _Stream(answer, self._limits.send_seconds)
        end = time.monotonic() + self._limits.stream_seconds
        number = _start(request, self._decisions.last)
        counts: dict[str, int] = {}
        was_leading: bool | None = None
        try:
            await stream.send(f"retry: {RETRY_MILLISECONDS}\n\n".encode())
            while time.monotonic() < end and stream.bytes < self._limits.stream_bytes:
                if (is_leading := self._is_leading()) is not was_leading:
                    was_leading = is_leading
                    await stream.send(_event("copy", msgspec.json.encode({"isLeading": is_leading})))
                now = self._engine.queue.pending_counts()
                if now != counts:
                    counts = dict(now)
                    await stream.send(_event("queue", msgspec.json.encode(counts)))
                if self._decisions.last > number:
                    number, body = await self._new_decisions(request, number)
                    await stream.send(_event("decisions", body, number))
                if request.transport is None or request.transport.is_closing():
                    break
                await asyncio.sleep(self._limits.look_seconds)
            async with asyncio.timeout(self._limits.send_seconds):
                await answer.write_eof()
        except (ConnectionError, TimeoutError, ApiError, TooManyReviews):
            # The status is sent already: breaking the connection is the only way left to report the failure.
            if request.transport is not None:
                request.transport.abort()
        return answer

    async def _new_decisions(self, request: web.Request, number: int) -> tuple[int, bytes]:
        last = self._decisions.last
        newest, left_out = self._decisions.after(number, MAX_DECISIONS_AT_ONCE)
        return last, await decisions_body(request, list(newest), left_out)


class _Stream:
    """Sends with a time-out and counts the bytes."""

    def __init__(self, answer: web.StreamResponse, seconds: float) -> None:
        self.bytes = 0
        self._answer = answer
        self._seconds = seconds

    async def send(self, data: bytes) -> None:
        """Raises TimeoutError for a client that does not read."""
        self.bytes += len(data)
        async with asyncio.timeout(self._seconds):
            await self._answer.write(data)


def _event(name: str, data: bytes, number: int | None = None) -> bytes:
    """An event of a stream. JSON has no line breaks but escaped ones, so its data is one line."""
    identity = f"id: {number}\n" if number is not None else ""
    return f"event: {name}\n{identity}data: ".encode() + data + b"\n\n"


def _start(request: web.Request, last: int) -> int:
    """The number to go on from. One that is not ours, as after a restart of the scheduler, is none."""
    stated = request.headers.get("Last-Event-ID", "") or request.query.get("after", "")
    is_number = stated.isascii() and stated.isdecimal() and len(stated) <= MAX_DIGITS
    return int(stated) if is_number and int(stated) <= last else 0


async def decisions_body(request: web.Request, decisions: list[Any], left_out: int) -> bytes:
    """The decisions as JSON, those about pods that the user may not see as a number."""
    kept, hidden, allowed = await seen(request, decisions, lambda one: one.pod)
    body = msgspec.json.encode({"decisions": kept, "leftOut": left_out, "hidden": hidden})
    return body if allowed is None else without_names(body, allowed)


def live_routes(
    engine: Engine,
    decisions: Decisions,
    limits: LiveLimits | None = None,
    is_leading: Callable[[], bool] = lambda: True,
) -> tuple[web.RouteDef, ...]:
    """The routes ``/debug/live`` and ``/debug/decisions?limit=N&after=NUMBER``: the newest decisions, the oldest first.

    ``decisions`` must observe the attempts."""

    async def page(request: web.Request) -> web.Response:
        numbers = []
        for name, default in (("after", 0), ("limit", MAX_DECISIONS_AT_ONCE)):
            stated = request.query.get(name, "")
            if stated and not (stated.isascii() and stated.isdecimal() and len(stated) <= MAX_DIGITS):
                return refusal(400, "BadRequest", f"{name} must be a number")
            numbers.append(int(stated) if stated else default)
        newest, left_out = decisions.after(*numbers)
        body = await decisions_body(request, list(newest), left_out)
        return web.Response(body=body, content_type="application/json")

    return web.get("/debug/live", Live(engine, decisions, limits, is_leading).page), web.get("/debug/decisions", page)
