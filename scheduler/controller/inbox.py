"""The input queue of the scheduling loop: outside events are put here as stimuli and applied in that order.

It is made before every other part, so that a part needs to know neither the loop nor the engine. The loop empties it
in slices of time. What puts much (a page of a list, what a watch has sent at once) awaits ``room`` before it reads more
from the network; everything else puts one stimulus for each answer that it waits for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

from scheduler.messages.stimuli import Stimulus

MAX_WAITING: Final = 1000
"""Stimuli, two pages of a list: reading from the network goes on while fewer wait, so that there is always work."""


class Inbox:
    """A queue of stimuli. ``put`` from anywhere on the event loop."""

    def __init__(self) -> None:
        self.has_news = False
        """Whether there was any since ``noted``."""
        self._waiting: deque[Stimulus] = deque()
        self._is_applied = True
        self._applied = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._sleeper: asyncio.Future[None] | None = None
        """The loop, while it waits for news; it is woken at ``_wake_at`` at the latest."""
        self._wake_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        """Runs at ``_timer_at``. A sleep that news ends leaves it to the next one: to set and cancel one for each sleep
        costs more than to look at the time now and then."""
        self._timer_at = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, stimulus: Stimulus) -> None:
        self._waiting.append(stimulus)
        self._is_applied = False
        if not self.has_news:
            self.wake()

    def put_all(self, stimuli: Iterable[Stimulus]) -> None:
        """Put several stimuli, in their order."""
        self._waiting.extend(stimuli)
        if self._waiting:
            self._is_applied = False
            if len(self._waiting) >= MAX_WAITING:
                self._has_room.clear()
        if not self.has_news:
            self.wake()

    def wake(self) -> None:
        """Wake the loop: a condition that it checks before it takes a pod has changed."""
        self.has_news = True
        sleeper, self._sleeper = self._sleeper, None
        if sleeper is not None and not sleeper.done():
            sleeper.set_result(None)

    async def emptied(self) -> None:
        """Wait until everything that was put here has been applied."""
        if not self._is_applied:
            self._applied.clear()
            await self._applied.wait()

    async def room(self) -> None:
        """Wait until fewer than ``MAX_WAITING`` stimuli wait here."""
        await self._has_room.wait()

    # --- for the loop -------------------------------------------------------------------------------------------------

    def take(self) -> Stimulus | None:
        """Remove and return the oldest stimulus; None if there is none. Applying one may put another."""
        if self._waiting:
            if len(self._waiting) <= MAX_WAITING and not self._has_room.is_set():
                self._has_room.set()
            return self._waiting.popleft()
        if not self._is_applied:
            self._is_applied = True
            self._applied.set()
        return None

    def noted(self) -> None:
        """Reset the news flag, before the loop looks: only later changes count as news."""
        self.has_news = False

    async def news(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for news; returns whether there was any."""
        if self.has_news:
            return True
        loop = asyncio.get_running_loop()
        sleeper = self._sleeper = loop.create_future()
        self._wake_at = loop.time() + seconds
        if self._timer is None or self._timer_at > self._wake_at:
            self._set_timer()
        try:
            await sleeper
        except asyncio.CancelledError:
            self._cancel_timer()
            raise
        return self.has_news

    def _set_timer(self) -> None:
        self._cancel_timer()
        self._timer_at = self._wake_at
        self._timer = asyncio.get_running_loop().call_at(self._wake_at, self._look_at_time)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _look_at_time(self) -> None:
        self._timer = None
        sleeper = self._sleeper
        if sleeper is None or sleeper.done():
            return
        if asyncio.get_running_loop().time() < self._wake_at:
            self._set_timer()
        else:
            self._sleeper = None
            sleeper.set_result(None)
