"""An answer whose body is read as it comes, on a connection of ``http_connections``: a watch's."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import field

from scheduler.controller.write.http_exchange import Answer, Exchange, HttpEnd

MAX_UNREAD_BYTES: Final = 2**18
"""Bytes of a body that may wait to be read: with more of them no more is taken from the socket."""


class Stream(Exchange, kw_only=True):
    """A request whose answer has no end. Make it inside the event loop, ``HttpConnections.start`` it, and await
    ``headed``. Only a success is a stream; any other answer is ``whole``.

    ``idle_seconds``: after such a silence the next ``read`` is a TimeoutError.
    """

    is_stream: bool = True
    idle_seconds: float
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    status: int = 0
    parts: list[bytes] = field(default_factory=list)
    unread_bytes: int = 0
    is_paused: bool = False
    last: HttpEnd | None = None
    """How it ended."""
    waiter: asyncio.Future[None] | None = None

    # --- for its reader -----------------------------------------------------------------------------------------------

    async def headed(self) -> None:
        """Wait for the answer's head. Raises what there is instead."""
        while not self.status and self.last is None:
            await self._news()
        self._raise_error()

    async def read(self) -> bytes:
        """The bytes of the body that are there, after a wait for some; b"" is its end."""
        while not self.parts and self.last is None:
            await self._news()
        if not self.parts:
            self._raise_error()
            return b""
        body = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
        self.parts.clear()
        self.unread_bytes = 0
        if self.is_paused and self.connection is not None:
            self.is_paused = False
            self.deadline = self.loop.time() + self.idle_seconds
            self.connection.go_on()
        return body

    async def whole(self) -> Answer:
        """The answer, where it is not a success and so not a stream."""
        assert isinstance(self.last, Answer)
        return self.last

    def fail(self, error: Exception) -> None:
        """End it now, but for a silence of our own making: while nothing is taken from the socket."""
        if self.is_paused and isinstance(error, TimeoutError):
            self.deadline = self.loop.time() + self.idle_seconds
        else:
            super().fail(error)

    def close(self) -> None:
        """Nothing more of it is read. Its connection is closed, unless the answer is over."""
        if self.last is None:
            self.fail(ConnectionError("closed"))

    def _raise_error(self) -> None:
        if isinstance(self.last, Exception):
            # An error that has been raised leads, by its traceback, back to what holds it: a circle that has lived for
            # long, which the garbage collector seldom looks for.
            error, self.last = self.last, ConnectionError("the stream has ended")
            try:
                raise error
            finally:
                del error

    async def _news(self) -> None:
        self.waiter = self.loop.create_future()
        try:
            await self.waiter
        finally:
            self.waiter = None

    def _wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    # --- for its connection -------------------------------------------------------------------------------------------

    def begun(self, status: int) -> None:
        self.status = status
        self._wake()

    def took(self, part: bytes) -> None:
        self.parts.append(part)
        self.unread_bytes += len(part)
        self.deadline = self.loop.time() + self.idle_seconds
        if self.unread_bytes > MAX_UNREAD_BYTES and self.connection is not None and not self.is_paused:
            self.is_paused = True
            self.connection.pause()
        self._wake()

    def end(self, end: HttpEnd) -> None:
        if self.last is not None:
            return
        self.last = end
        if isinstance(end, Answer):
            self.status = end.status
        if self.is_paused and self.connection is not None:
            # It may serve another request now.
            self.is_paused = False
            self.connection.go_on()
        self._wake()
