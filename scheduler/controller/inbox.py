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
        self._waiting: deque[Stimulus] = deque()
        self._news = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._has_room = asyncio.Event()
        self._has_room.set()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, stimulus: Stimulus) -> None:
        self._waiting.append(stimulus)
        self._empty.clear()
        self._news.set()

    def put_all(self, stimuli: Iterable[Stimulus]) -> None:
        """Put several stimuli, in their order."""
        self._waiting.extend(stimuli)
        if self._waiting:
            self._empty.clear()
            if len(self._waiting) >= MAX_WAITING:
                self._has_room.clear()
        self._news.set()

    def wake(self) -> None:
        """Wake the loop: a condition that it checks before it takes a pod has changed."""
        self._news.set()

    async def emptied(self) -> None:
        """Wait until everything that was put here has been applied."""
        await self._empty.wait()

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
        self._empty.set()
        return None

    @property
    def has_news(self) -> bool:
        return self._news.is_set()

    def noted(self) -> None:
        """Reset the news flag, before the loop looks: only later changes count as news."""
        self._news.clear()

    async def news(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for news; returns whether there was any."""
        is_over = False

        def end() -> None:
            nonlocal is_over
            is_over = not self._news.is_set()
            self._news.set()

        timer = asyncio.get_running_loop().call_later(seconds, end)
        try:
            await self._news.wait()
        finally:
            timer.cancel()
        return not is_over
