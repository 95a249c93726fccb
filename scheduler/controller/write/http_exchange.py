"""One request and its answer on one HTTP/1.1 connection; ``http_connections`` keeps the connections.

llhttp reads the answer. What is rarely asked of it (the reason, the headers) is parsed once more where it is
needed, from the bytes of the head, so that a common answer costs no call for each header.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, Protocol, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from msgspec import Struct

MAX_ANSWER_BYTES: Final = 16 * 2**20
"""Maximum of an answer's bytes, head included. Objects in etcd have at most 1.5 MB, a few times that as JSON."""


class AnswerTooLong(ConnectionError):
    """The answer has more bytes than its limit."""


class Fence(Protocol):
    """Asked right before a request's bytes are passed to the connection."""

    def leave(self) -> None:
        """Let the request leave. Raises an exception if it may not be sent."""


class Answer(Struct, frozen=True):
    """An answer of any status, its body unparsed. ``reason`` and ``retry_after``, the header as sent, are "" for a
    status below 300."""

    status: int
    body: bytes
    reason: str = ""
    retry_after: str = ""


HttpEnd = Answer | Exception
"""The answer; or TimeoutError, OSError without a whole answer, or what the fence raised."""


class Pool(Protocol):
    """What keeps the connections."""

    def give_back(self, connection: Connection) -> None:
        """Take a connection on which no exchange is any more."""

    def forget(self, exchange: Exchange) -> None:
        """Drop an exchange that ends without having had a connection."""

    def lost_one(self, connection: Connection) -> None:
        """Free the place of a connection that is closed."""


class Exchange(Struct, eq=False):
    """One request and its answer, from ``HttpConnections.start`` to its end. A subclass is what waits for the end: no
    further object is needed for a request that knows where it comes from."""

    fence: Fence | None
    request: bytes = b""
    is_stream: bool = False
    """Whether ``begun`` and ``took`` are called for a success, whose answer then has no body."""
    deadline: float = 0.0
    pool: Pool | None = None
    connection: Connection | None = None
    """The connection on which it has been sent."""

    def end(self, end: HttpEnd) -> None:
        """Take how the exchange ended. Only the first call counts."""
        raise NotImplementedError

    def begun(self, status: int) -> None:
        """Take the head of a stream."""
        raise NotImplementedError

    def took(self, part: bytes) -> None:
        """Take a part of a stream's body."""
        raise NotImplementedError

    def fail(self, error: Exception) -> None:
        """End it now. A connection that it was sent on is closed, since its answer may still come."""
        connection = self.connection
        if connection is None:
            if self.pool is not None:
                self.pool.forget(self)
            self.end(error)
        elif connection.exchange is self:
            connection.fail(error)


class Connection(asyncio.Protocol):
    """One connection with at most one request under way. llhttp calls the ``on_…`` methods."""

    def __init__(self, pool: Pool) -> None:
        self.idle_since = 0.0
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.exchange: Exchange | None = None
        """The exchange under way; None: no byte is expected."""
        self.is_spoilt = False
        """Whether something has happened after which no further request may be sent on it."""
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._parser = HttpResponseParser(self)
        self._clear()

    @property
    def is_clean(self) -> bool:
        """Whether the next answer can only be that of the next request."""
        transport = self._transport
        return (
            self.exchange is None
            and not self.is_spoilt
            and transport is not None
            and not transport.is_closing()
            and not transport.get_write_buffer_size()
        )

    def begin(self, exchange: Exchange) -> None:
        """Send the request. Raises what the fence raises: then nothing has been sent, and the connection is free."""
        assert self._transport is not None and self.exchange is None
        if exchange.fence is not None:
            exchange.fence.leave()
        self.exchange, exchange.connection = exchange, self
        try:
            self._transport.write(exchange.request)
        except Exception as error:  # noqa: BLE001 - asyncio's and uvloop's transports raise different ones
            self.fail(ConnectionError(f"the connection takes no bytes: {error}"))

    def pause(self) -> None:
        """Take no more bytes from the socket."""
        if self._transport is not None:
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Take bytes from the socket again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close the connection at once; a request under way ends with ConnectionError."""
        self.is_spoilt = True
        if self._transport is not None:
            self._transport.abort()

    def fail(self, error: Exception) -> None:
        """Close the connection at once; a request under way ends with this error."""
        self.abort()
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            self._pool.give_back(self)
            exchange.end(error)

    # --- asyncio ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.exchange is None:
            self.fail(ConnectionError("bytes came that no request had asked for"))
            return
        self._size += len(data)
        if self._size > MAX_ANSWER_BYTES:
            self.fail(AnswerTooLong(f"the answer has more than {MAX_ANSWER_BYTES} bytes"))
            return
        if not self._is_headed:
            self._head.append(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if self._is_whole:
                # The answer was complete; what follows it in the same bytes is not a valid one.
                self.is_spoilt = True
            else:
                self.fail(ConnectionError(f"the answer is not HTTP: {error}"))
                return
        if self._is_whole:
            self._finish()

    def eof_received(self) -> None:
        """The server's end of the connection is closed: the end of a body without a length, or no answer."""
        if self._is_headed and not _Head(self._head).has_length:
            self._finish()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)
        self._pool.lost_one(self)
        self.fail(ConnectionError(str(error) if error else "the server closed the connection without an answer"))
        # The parser and a stream lead back here, and a transport of TLS holds 300 KB: all of it goes now, and not when
        # the garbage collector looks at what has lived for long.
        self._clear()
        self._transport = None
        del self._parser

    # --- llhttp -------------------------------------------------------------------------------------------------------

    def _clear(self) -> None:
        self._size = 0
        self._status = 0
        self._is_headed = self._is_whole = False
        self._stream: Exchange | None = None
        """Takes the body as it comes."""
        self._head: list[bytes] = []
        """The bytes up to the end of the head, and some of the body."""
        self._body: list[bytes] = []

    def on_message_begin(self) -> None:
        if self._is_whole:
            # A second answer to one request.
            self.is_spoilt = True

    def on_headers_complete(self) -> None:
        if not self._is_whole:
            self._status = self._parser.get_status_code()
            self._is_headed = self._status >= 200
            exchange = self.exchange
            if exchange is not None and exchange.is_stream and 200 <= self._status < 300:
                self._stream = exchange
                exchange.begun(self._status)

    def on_body(self, part: bytes) -> None:
        if self._stream is not None:
            self._size = 0
            self._stream.took(part)
        elif not self._is_whole:
            self._body.append(part)

    def on_message_complete(self) -> None:
        if self._is_headed and not self._is_whole:
            self._is_whole = True
            self._stream = None
            if not self._parser.should_keep_alive():
                self.is_spoilt = True

    def _finish(self) -> None:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        if self._status < 300:
            answer = Answer(self._status, body)
        else:
            head = _Head(self._head)
            answer = Answer(self._status, body, head.reason.decode("latin-1"), head.retry_after.decode("latin-1"))
        assert self._transport is not None
        if not self._is_whole or self._transport.get_write_buffer_size():
            # Not to be used again: the answer goes on, or the server answered before it had the whole request.
            self.is_spoilt = True
        self._clear()
        exchange, self.exchange = self.exchange, None
        # The connection is free before the end is reported: what that leads to may need it.
        self._pool.give_back(self)
        if exchange is not None:
            exchange.end(answer)


class _Head:
    """What is rarely asked of an answer's head, from its bytes, which are parsed once more for it."""

    def __init__(self, parts: list[bytes]) -> None:
        self.reason = b""
        self.retry_after = b""
        self.has_length = False
        """Without it the end of the connection is the end of the body."""
        self._is_over = False
        self._parser = HttpResponseParser(self)
        with suppress(HttpParserError, HttpParserUpgrade):
            self._parser.feed_data(b"".join(parts))

    def on_message_begin(self) -> None:
        if not self._is_over:
            self.reason = self.retry_after = b""
            self.has_length = False

    def on_status(self, reason: bytes) -> None:
        if not self._is_over:
            self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        lower = name.lower()
        if self._is_over:
            return
        if lower == b"retry-after":
            self.retry_after = value
        elif lower in (b"content-length", b"transfer-encoding"):
            self.has_length = True

    def on_headers_complete(self) -> None:
        self._is_over = self._is_over or self._parser.get_status_code() >= 200
