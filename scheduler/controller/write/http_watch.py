"""One HTTP/1.1 request whose answer has no end, on a connection of its own: a watch.

llhttp reads the answer, whose body is handed on as it comes. Reading from the socket pauses while much waits for the
reader, so that a slow one has the server wait.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from scheduler.controller.write.http_exchange import MAX_ANSWER_BYTES, AnswerTooLong, HttpAnswer

MAX_HEAD_BYTES: Final = 64 * 2**10
MAX_UNREAD_BYTES: Final = 2**19
"""As much as aiohttp keeps before it pauses, with the buffer that watches have there."""


class WatchAnswer(asyncio.Protocol):
    """The answer to one request. Make it inside the event loop, as the protocol of a new connection; ``close`` it."""

    def __init__(self, request: bytes, idle_seconds: float) -> None:
        """A silence of ``idle_seconds`` is a TimeoutError."""
        self.status = 0
        """0 until the head is there."""
        self._request = request
        self._idle_seconds = idle_seconds
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = HttpResponseParser(self)
        self._reason = self._retry_after = b""
        self._has_length = False
        self._head_bytes = 0
        self._parts: list[bytes] = []
        self._unread = 0
        self._is_paused = False
        self._end: Exception | None = None
        self._is_over = False
        self._reader: asyncio.Future[None] | None = None
        self._heard_at = self._loop.time()
        self._timer = self._loop.call_later(idle_seconds, self._end_if_silent)

    # --- for the reader -----------------------------------------------------------------------------------------------

    async def head(self) -> None:
        """Wait for the status. Raises TimeoutError and OSError."""
        while not self.status:
            if self._is_over:
                raise self._end or ConnectionError("the server closed the connection without an answer")
            await self._news()

    async def read(self) -> bytes:
        """The bytes of the body that are there, after a wait for some; b"" is its end. Raises TimeoutError and OSError
        where the body has no proper one."""
        while not self._parts:
            if self._end is not None:
                raise self._end
            if self._is_over:
                return b""
            await self._news()
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._unread = 0
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._heard_at = self._loop.time()
            self._transport.resume_reading()
        return data

    async def whole(self) -> HttpAnswer:
        """The answer with its body, which has an end. Raises AnswerTooLong, TimeoutError and OSError."""
        parts, size = [], 0
        while part := await self.read():
            parts.append(part)
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                raise AnswerTooLong(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
        reason, after = self._reason.decode("latin-1"), self._retry_after.decode("latin-1")
        return HttpAnswer(self.status, reason, after, b"".join(parts))

    def close(self) -> None:
        """Close the connection at once."""
        self._finish(ConnectionError("the watch is closed"))

    async def _news(self) -> None:
        self._reader = self._loop.create_future()
        try:
            await self._reader
        finally:
            self._reader = None

    # --- asyncio ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        self._heard_at = self._loop.time()
        if not self.status:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._finish(ConnectionError(f"the answer is not HTTP: {error}"))
            return
        if not self.status and self._head_bytes > MAX_HEAD_BYTES:
            self._finish(ConnectionError(f"the answer's head has more than {MAX_HEAD_BYTES} bytes"))
            return
        if self._unread > MAX_UNREAD_BYTES and not self._is_paused and not self._is_over:
            assert self._transport is not None
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """The server's end is closed: the end of a body without a length, or one that is not whole."""
        is_whole = self.status and not self._has_length
        self._finish(None if is_whole else ConnectionError("the server closed the connection in its answer"))

    def connection_lost(self, error: Exception | None) -> None:
        self._finish(ConnectionError(str(error) if error else "the connection is closed"))

    # --- llhttp -------------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if not self.status:
            self._reason = self._retry_after = b""
            self._has_length = False

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        lower = name.lower()
        if lower == b"retry-after":
            self._retry_after = value
        elif lower in (b"content-length", b"transfer-encoding"):
            self._has_length = True

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:
            self.status = status

    def on_body(self, part: bytes) -> None:
        if not self._is_over:
            self._parts.append(part)
            self._unread += len(part)

    def on_message_complete(self) -> None:
        if self.status:
            self._finish(None)

    # --- its end ------------------------------------------------------------------------------------------------------

    def _end_if_silent(self) -> None:
        """One timer for all reads: it runs again for as long as bytes have come, or the reader keeps the server
        waiting."""
        now = self._loop.time()
        due = now + self._idle_seconds if self._is_paused else self._heard_at + self._idle_seconds
        if due > now:
            self._timer = self._loop.call_at(due, self._end_if_silent)
        else:
            self._finish(TimeoutError())

    def _finish(self, error: Exception | None) -> None:
        """End, once. The parts that are there can still be read."""
        if self._is_over:
            return
        self._is_over, self._end = True, error
        self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
