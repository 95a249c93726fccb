"""SIGTERM and SIGINT as a value to wait for; a second signal ends the process at once."""

from __future__ import annotations

import asyncio
import os
import signal

import structlog

IMPATIENT_EXIT_CODE = 1

log = structlog.get_logger()


class StopSignals:
    """Signal handlers on the running loop's main thread; ``wait`` returns the first signal's name."""

    def __init__(self) -> None:
        self._received: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def install(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._receive, number)

    def remove(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    async def wait(self) -> str:
        return await asyncio.shield(self._received)

    def _receive(self, number: signal.Signals) -> None:
        if self._received.done():
            log.warning("Second signal, leaving at once", signal=number.name)
            os._exit(IMPATIENT_EXIT_CODE)
        self._received.set_result(number.name)
