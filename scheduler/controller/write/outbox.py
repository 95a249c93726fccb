"""Sends writes when ``Pacing`` allows: no task of its own, one timer per retry, no polling."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, Protocol, Self

import structlog
from msgspec import Struct

from scheduler.controller.write.pacing import Pacing, Rank, Slot, State

log = structlog.get_logger()


class Sent(Struct, frozen=True):
    """The result of one request. ``retry_after``: seconds before it must be sent again; None: it has ended."""

    is_answered: bool = True
    retry_after: float | None = None


ANSWERED: Final = Sent()
UNANSWERED: Final = Sent(is_answered=False)


class Cancellable(Protocol):
    """A request under way."""

    def cancel(self) -> object:
        """Give it up: its end is not reported any more."""
        ...


class Sendable(Protocol):
    """A write that can send itself; see ``Paced``."""

    @property
    def rank(self) -> Rank: ...

    @property
    def key(self) -> str: ...

    @property
    def is_continuation(self) -> bool: ...

    def folded_over(self, older: Self) -> Self | None: ...

    def begin(self, on_sent: Callable[[Sent], None]) -> Cancellable | None:
        """Send the request once; the write reports its own outcome, and then calls ``on_sent``, perhaps before this
        returns. None: there is nothing to cancel."""
        ...


def in_a_task(send: Coroutine[Any, Any, Sent], on_sent: Callable[[Sent], None]) -> Cancellable:
    """Send a write that is a coroutine, in a task; see ``Sendable.begin``."""

    def ended(task: asyncio.Task[Sent]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            log.error("Write failed", exc_info=error)
        on_sent(ANSWERED if error is not None else task.result())

    made = asyncio.create_task(send)
    made.add_done_callback(ended)
    return made


class Outbox:
    """``submit`` writes from anywhere on the event loop; ``close`` drops those that have not been sent."""

    def __init__(self, places: int) -> None:
        self.pacing: Pacing[Sendable] = Pacing(places)
        self._sending: dict[int, Cancellable] = {}
        """By the slot's number."""
        self._retries: set[asyncio.TimerHandle] = set()
        self._settling: dict[asyncio.Future[None], tuple[Rank, ...]] = {}
        self._is_due = False
        self._is_leaving = False
        self._is_closed = False

    def submit(self, write: Sendable) -> None:
        """Queue a write; never blocks. Writes of one turn of the event loop are sent by rank, not by arrival."""
        self.pacing.offer(write, time.monotonic())
        self._release_soon()

    async def settle(self, seconds: float, *ranks: Rank) -> bool:
        """As ``wait_for``, for a process that is about to end: its ``Scheduled`` events are not limited to their
        share."""
        if Rank.SCHEDULED in ranks and self.pacing.open(*ranks):
            self._is_leaving = True
            self._release()
        return await self.wait_for(seconds, *ranks)

    async def wait_for(self, seconds: float, *ranks: Rank) -> bool:
        """Wait at most ``seconds`` until no write of these classes is open; returns whether none is."""
        if not self.pacing.open(*ranks):
            return True
        settled = asyncio.get_running_loop().create_future()
        self._settling[settled] = ranks
        try:
            async with asyncio.timeout(seconds):
                await settled
        except TimeoutError:
            return False
        finally:
            del self._settling[settled]
        return True

    async def close(self) -> None:
        self._is_closed = True
        for timer in self._retries:
            timer.cancel()
        sending = tuple(self._sending.values())
        self._sending.clear()
        for request in sending:
            request.cancel()
        tasks = [request for request in sending if isinstance(request, asyncio.Task)]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _release_soon(self) -> None:
        """``_release`` once in this turn of the event loop, when all that it has received is read."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._release_due)

    def _release_due(self) -> None:
        self._is_due = False
        self._release()

    def _release(self) -> None:
        """Send what may be sent."""
        now = math.inf if self._is_leaving else time.monotonic()
        while not self._is_closed and (slot := self.pacing.take(now)) is not None:
            self._begin(slot)

    def _begin(self, slot: Slot[Sendable]) -> None:
        try:
            request = slot.write.begin(partial(self._ended, slot))
        except Exception:
            log.exception("Write failed", rank=slot.write.rank.name)
            self._ended(slot, ANSWERED)
            return
        if request is not None and slot.state is State.UNDER_WAY:
            self._sending[slot.number] = request

    def _ended(self, slot: Slot[Sendable], sent: Sent) -> None:
        self._sending.pop(slot.number, None)
        if sent.retry_after is None:
            self.pacing.finished(slot, is_answered=sent.is_answered)
        else:
            self.pacing.postponed(slot, is_answered=sent.is_answered)
            self._resume_after(slot, sent.retry_after)
        if self._settling:
            self._note_settled()
        if self.pacing.ready:
            self._release_soon()

    def _note_settled(self) -> None:
        for settled, ranks in self._settling.items():
            if not settled.done() and not self.pacing.open(*ranks):
                settled.set_result(None)

    def _resume_after(self, slot: Slot[Sendable], seconds: float) -> None:
        def resume() -> None:
            self._retries.discard(timer)
            self.pacing.resume(slot)
            self._release()

        timer = asyncio.get_running_loop().call_later(seconds, resume)
        self._retries.add(timer)
