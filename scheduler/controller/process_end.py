"""The end of the process: what ignores its cancellation, such as a coroutine or a thread of a plugin, can't put it off.

All of the scheduler's own has been closed by then, and the Lease given back.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from scheduler.controller.calls.background import STOP_SECONDS
from scheduler.controller.threads import Threads

log = structlog.get_logger()


def run_in_process(
    main: Coroutine[Any, Any, int], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> int:
    """Run in an event loop of its own; returns the exit code, or ends the process with it where something remains that
    Python would wait for."""
    executor = Threads()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.get_loop().set_default_executor(executor)
        code = runner.run(main)
        if left := runner.run(_left_behind(executor)):
            log.warning("Leaving without what does not end", left=left)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return code


async def _left_behind(executor: Threads) -> list[str]:
    """The names of tasks and threads that do not end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=STOP_SECONDS)
    # In a thread that ends with the process: a wait for the executor's threads has no limit of time.
    closing = threading.Thread(target=executor.shutdown, kwargs={"cancel_futures": True}, daemon=True)
    closing.start()
    closing.join(STOP_SECONDS)
    threads = ["threads"] if closing.is_alive() else []
    return sorted(task.get_name() for task in others if not task.done()) + threads
