"""Work that must find no cycle under way. It is tried before each pod is taken: for pods in a queue one cycle follows
the other at once, so that a task which looks now and then may find one under way whenever it looks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

Work = Callable[[], bool]
"""Does the work and returns True; returns False if that is not possible now, and changes nothing then."""


class BetweenCycles:
    """``add`` work from the event loop; the loop that takes pods calls ``try_all`` before each."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], Work] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, work: Work) -> asyncio.Future[None]:
        """Ends once the work is done, with what it raised. Cancel it to give it up."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[done] = work
        done.add_done_callback(self._waiting.pop)
        return done

    def try_all(self) -> None:
        """Try what waits. Never raises."""
        if self._waiting:
            for done, work in list(self._waiting.items()):
                _try(work, done)


def _try(work: Work, done: asyncio.Future[None]) -> None:
    try:
        if not done.done() and work():
            done.set_result(None)
    except Exception as error:  # noqa: BLE001 - for those who wait for it: the loop, which asks here, has to go on
        done.set_exception(error)
