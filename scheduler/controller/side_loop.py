"""An event loop in its own thread, for what must run, or may fail, independently of the scheduling loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

log = structlog.get_logger()


class SideLoop:
    """Runs one coroutine in a daemon thread. ``on_end`` is called there with its exception, or None."""

    def __init__(
        self,
        name: str,
        main: Callable[[], Coroutine[Any, Any, None]],
        on_end: Callable[[BaseException | None], None] = lambda _: None,
    ) -> None:
        self._name = name
        self._main = main
        self._on_end = on_end
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._is_up.wait()

    def call(self, callback: Callable[[], None]) -> None:
        """Schedule a call in the thread's loop; does nothing if the loop has ended."""
        if self._loop is not None:
            # The loop may close between the check and the call: then it has ended by itself.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(callback)

    async def stop(self, seconds: float) -> bool:
        """Cancel the coroutine and wait for the thread; returns whether it ended in time."""
        if self._task is not None:
            self.call(self.cancel)
        return await self.join(seconds)

    async def join(self, seconds: float) -> bool:
        """Wait for the end without cancelling."""
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, seconds)
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Cancel the coroutine; call it in the thread."""
        if self._task is not None:
            self._task.cancel()

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            with asyncio.Runner() as runner:
                runner.run(self._guarded())
        except asyncio.CancelledError:
            pass
        except Exception as error:
            failure = error
            log.exception("Side task failed", name=self._name)
        finally:
            self._is_up.set()
            self._on_end(failure)

    async def _guarded(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._is_up.set()
        await self._main()
