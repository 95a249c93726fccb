"""The threads of an event loop's blocking calls (``asyncio.to_thread``, the resolution of names): plugins' calls have
their own, so that those that do not return leave the scheduler's free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
Result = TypeVar("Result")

RUNS_PLUGIN: Final[ContextVar[bool]] = ContextVar("runs_plugin", default=False)
"""Whether the task runs a plugin's coroutine. Set it in a task of its own."""


async def in_thread(call: Callable[P, Result], /, *args: P.args, **kwargs: P.kwargs) -> Result:
    """``asyncio.to_thread``, but for a cancellation, which waits for the call's end: the thread can't be stopped, and
    what limits the callers limits the threads, too."""
    work = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.gather(work, return_exceptions=True)
        raise


class Threads(ThreadPoolExecutor):
    """The executor of an event loop. Each of its two parts has as many threads as that of asyncio."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="asyncio")
        self._of_plugins = ThreadPoolExecutor(thread_name_prefix="plugins")

    def submit(self, fn: Callable[P, Result], /, *args: P.args, **kwargs: P.kwargs) -> Future[Result]:
        if RUNS_PLUGIN.get():
            return self._of_plugins.submit(fn, *args, **kwargs)
        return super().submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait, cancel_futures=cancel_futures)
        self._of_plugins.shutdown(wait, cancel_futures=cancel_futures)
