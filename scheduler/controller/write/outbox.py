"""Sends writes when ``Pacing`` allows: one task per request, one timer per retry, no polling."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, Self

import structlog

from scheduler.controller.write.pacing import Pacing, Rank, Slot

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of one request. ``retry_after``: seconds before it must be sent again; None: it has ended."""

    is_answered: bool = True
    retry_after: float | None = None


ANSWERED: Final = Sent()
UNANSWERED: Final = Sent(is_answered=False)


class Sendable(Protocol):
    """A write that can send itself; see ``Paced``."""

    @property
    def rank(self) -> Rank: ...

    @property
    def key(self) -> str: ...

    @property
    def is_continuation(self) -> bool: ...

    def folded_over(self, older: Self) -> Self | None: ...

    async def send(self) -> Sent:
        """Send the request once; the write reports its own outcome."""
        ...


class Outbox:
    """``submit`` writes from anywhere on the event loop; ``close`` drops those that have not been sent."""

    def __init__(self, places: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.pacing: Pacing[Sendable] = Pacing(places)
        self._monotonic = monotonic
        self._sending: set[asyncio.Task[None]] = set()
        self._retries: set[asyncio.TimerHandle] = set()
        self._settling: dict[asyncio.Future[None], tuple[Rank, ...]] = {}
        self._is_releasing = False
        self._is_leaving = False
        self._is_closed = False

    def submit(self, write: Sendable) -> None:
        """Queue a write; never blocks. Writes of one turn of the event loop are sent by rank, not by arrival."""
        self.pacing.offer(write, self._monotonic())
        self._release_soon()

    async def settle(self, seconds: float, *ranks: Rank) -> bool:
        """Wait at most ``seconds`` until no write of these classes is open; returns whether none is.

        Events that are settled are not limited to their share: the process is about to end.
        """
        if not self.pacing.open(*ranks):
            return True
        if Rank.SCHEDULED in ranks:
            self._is_leaving = True
            self._release()
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
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)

    def _release_soon(self) -> None:
        if not self._is_releasing:
            self._is_releasing = True
            asyncio.get_running_loop().call_soon(self._release)

    def _release(self) -> None:
        self._is_releasing = False
        while (slot := self._take()) is not None:
            task = asyncio.create_task(self._send_in_turn(slot))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    def _take(self) -> Slot[Sendable] | None:
        if self._is_closed:
            return None
        return self.pacing.take(math.inf if self._is_leaving else self._monotonic())

    async def _send_in_turn(self, first: Slot[Sendable]) -> None:
        """Send a write, then the write that takes its place; a new task only if there is room for more."""
        slot: Slot[Sendable] | None = first
        while slot is not None:
            await self._send(slot)
            slot = self._take()
            if slot is not None:
                self._release()

    async def _send(self, slot: Slot[Sendable]) -> None:
        try:
            sent = await slot.write.send()
        except Exception:
            log.exception("Write failed", rank=slot.write.rank.name)
            sent = ANSWERED
        if sent.retry_after is None:
            self.pacing.finished(slot, is_answered=sent.is_answered)
        else:
            self.pacing.postponed(slot, is_answered=sent.is_answered)
            self._resume_after(slot, sent.retry_after)
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
