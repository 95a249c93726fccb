"""A write that was begun without a coroutine, from its request to its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, cast

from scheduler.controller.write.answers import no_answer, refused
from scheduler.controller.write.credentials import Credentials
from scheduler.controller.write.direct import DirectWay, Outgoing
from scheduler.controller.write.fence import Departure
from scheduler.controller.write.http_exchange import Answer, Exchange, HttpEnd
from scheduler.controller.write.leadership import LeadershipLost

WriteEnd = Answer | Exception
"""A success, or what there is instead."""


class Sender(Protocol):
    """What a write asks of the client that began it."""

    def note(self, method: str, status: int, seconds: float) -> None:
        """Report a request to the observer."""

    async def send_again(self, known: Credentials | None, write: Outgoing, departure: Departure) -> Answer:
        """A write that was refused with a 401, once more with the credentials loaded again."""
        ...


class BegunWrite(Exchange, kw_only=True):
    """A write from ``ApiClient.begin`` to its end."""

    client: Sender
    write: Outgoing
    on_end: Callable[[WriteEnd], None] | None
    """None once its end has been reported, or is of no interest any more."""
    began: float = 0.0
    credentials: Credentials | None = None
    task: asyncio.Task[Answer] | None = None

    def send(self, way: DirectWay, credentials: Credentials | None) -> None:
        """Send it now, with these credentials."""
        self.credentials, self.began = credentials, time.monotonic()
        try:
            self.request = way.request_of(self.write)
        except ValueError as error:
            self._report(error)
            return
        way.connections.start(self, self.write.seconds)

    @property
    def is_over(self) -> bool:
        """Whether nothing is reported any more."""
        return self.on_end is None

    def wait_for(self, answer: Coroutine[Any, Any, Answer]) -> None:
        """Its end is that of the coroutine."""
        self.task = asyncio.create_task(answer)
        self.task.add_done_callback(self._task_ended)

    def cancel(self) -> None:
        """Its end is not reported any more."""
        if self.on_end is None:
            return
        self.on_end = None
        if self.task is not None:
            self.task.cancel()
        else:
            self.fail(ConnectionError("cancelled"))

    def end(self, end: HttpEnd) -> None:
        """The request has ended."""
        if self.on_end is None:
            return
        status = end.status if isinstance(end, Answer) else 0
        if not isinstance(end, LeadershipLost):
            self.client.note(self.write.method, status, time.monotonic() - self.began)
        if 200 <= status < 300:
            self._report(end)
        elif status == 401:
            departure = cast(Departure, self.fence)
            self.wait_for(self.client.send_again(self.credentials, self.write, departure))
        else:
            self._report(failure_of(end))

    def _task_ended(self, task: asyncio.Task[Answer]) -> None:
        if not task.cancelled():
            error = task.exception()
            self._report(task.result() if error is None else cast(Exception, error))

    def _report(self, end: WriteEnd) -> None:
        """What it leads to is forgotten: references in a circle would wait for the garbage collector."""
        on_end, self.on_end, self.task = self.on_end, None, None
        if on_end is not None:
            on_end(end)


def failure_of(end: HttpEnd) -> Exception:
    """The error that an end other than a success is."""
    if isinstance(end, Answer):
        return refused(end.status, end.reason, end.retry_after, end.body)
    return no_answer(end) if isinstance(end, OSError) else end


def answer_of(answer: Answer) -> Answer:
    """The answer, if it is a success. Raises ApiError for any other."""
    if not 200 <= answer.status < 300:
        raise refused(answer.status, answer.reason, answer.retry_after, answer.body)
    return answer
