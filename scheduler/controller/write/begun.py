"""A write that was begun without a coroutine, from its request to its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, cast

from scheduler.controller.write.answers import Answer, no_answer, refused
from scheduler.controller.write.credentials import Credentials
from scheduler.controller.write.direct import DirectWay, Outgoing
from scheduler.controller.write.fence import Departure
from scheduler.controller.write.http_exchange import Exchange, HttpAnswer, HttpEnd
from scheduler.errors import ApiError

WriteEnd = Answer | Exception


class Sender(Protocol):
    """What a write asks of the client that began it."""

    def note(self, method: str, status: int, seconds: float) -> None:
        """Report a request to the observer."""

    async def send_again(self, known: Credentials | None, write: Outgoing, departure: Departure) -> Answer:
        """A write that was refused with a 401, once more with the credentials loaded again."""
        ...


class BegunWrite:
    """A write from ``ApiClient.begin`` to its end."""

    __slots__ = ("_began", "_client", "_credentials", "_current", "_departure", "_on_end", "_write")

    def __init__(
        self, client: Sender, write: Outgoing, departure: Departure, on_end: Callable[[WriteEnd], None]
    ) -> None:
        self._client = client
        self._write = write
        self._departure = departure
        self._on_end: Callable[[WriteEnd], None] | None = on_end
        self._began = 0.0
        self._credentials: Credentials | None = None
        self._current: Exchange | asyncio.Task[Answer] | None = None

    def send(self, way: DirectWay, credentials: Credentials | None) -> None:
        """Send it now, with these credentials."""
        self._credentials, self._began = credentials, time.monotonic()
        try:
            exchange = way.start(self._write, self._departure, self._ended)
        except ValueError as error:
            self._end(error)
            return
        if self._current is None and self._on_end is not None:
            self._current = exchange

    @property
    def is_over(self) -> bool:
        """Whether its end has been reported."""
        return self._on_end is None

    def wait_for(self, answer: Coroutine[Any, Any, Answer]) -> None:
        """Its end is that of the coroutine."""
        self._current = task = asyncio.create_task(answer)
        task.add_done_callback(self._task_ended)

    def cancel(self) -> None:
        """Its end is not reported any more."""
        if self._current is not None:
            self._current.cancel()

    def _ended(self, end: HttpEnd) -> None:
        status = end.status if isinstance(end, HttpAnswer) else 0
        self._client.note(self._write.method, status, time.monotonic() - self._began)
        if status == 401:
            self.wait_for(self._client.send_again(self._credentials, self._write, self._departure))
        elif isinstance(end, HttpAnswer):
            try:
                answer: WriteEnd = answer_of(end)
            except ApiError as error:
                answer = error
            self._end(answer)
        else:
            self._end(no_answer(end) if isinstance(end, OSError) else end)

    def _task_ended(self, task: asyncio.Task[Answer]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        self._end(task.result() if error is None else cast(Exception, error))

    def _end(self, end: WriteEnd) -> None:
        """Report it. What it leads to is forgotten: references in a circle would wait for the garbage collector."""
        on_end, self._on_end, self._current = self._on_end, None, None
        if on_end is not None:
            on_end(end)


def answer_of(answer: HttpAnswer) -> Answer:
    """Raises ApiError unless it is a success."""
    if not 200 <= answer.status < 300:
        raise refused(answer.status, answer.reason, answer.retry_after, answer.body)
    return Answer(answer.status, answer.body)
