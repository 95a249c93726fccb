"""The scheduler's long-lived tasks, restarted after exceptions, which are logged and counted.

A failed task is logged, counted and started again after a growing wait. Readiness names it until it has run well
for a while. A vital task that fails again and again, or ends without a reason, ends the scheduler: a new process, or
the other replica, begins with a clean state.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog
from msgspec import Struct, field

from scheduler.controller.report.instruments import Counter
from scheduler.controller.watch.backoff import Backoff

RESTART_SECONDS: Final = (1.0, 60.0)
STEADY_SECONDS: Final = 60.0
"""Seconds without a failure after which a task counts as healthy again."""
MAX_VITAL_FAILURES: Final = 5
"""Failures in a row, without being steady in between: some ten seconds."""

Main = Callable[[], Coroutine[Any, Any, None]]
"""Makes a new coroutine for each start."""

log = structlog.get_logger()


class _Record(Struct):
    """``failed_at`` is monotonic, 0.0 for a task that is well; ``in_a_row`` counts failures since it was steady."""

    is_vital: bool
    in_a_row: int = 0
    failed_at: float = 0.0
    error: str = ""
    began: float = field(default_factory=time.monotonic)


class Tasks:
    """``start`` tasks on the event loop; ``close`` cancels them all. ``end`` ends the scheduler, with a reason;
    ``counter`` counts failures by the task's name."""

    def __init__(
        self,
        end: Callable[[str], None],
        counter: Counter,
        backoff: Callable[[], Backoff] = lambda: Backoff(*RESTART_SECONDS),
    ) -> None:
        self._end = end
        self._counter = counter
        self._backoff = backoff
        self._records: dict[str, _Record] = {}
        self._running: set[asyncio.Task[None]] = set()

    def start(self, name: str, main: Main, *, is_vital: bool = True) -> None:
        """Start a task. A vital one must never end. Another one may return; then it is not started again."""
        record = self._records.setdefault(name, _Record(is_vital))
        # Exported from the start: a series that begins with its first failure has no increase.
        self._counter.child(name)
        task = asyncio.create_task(self._keep(name, main, record), name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def trouble(self) -> str:
        """The tasks that have failed and are not steady again, for ``/readyz``; "" where there are none."""
        now = time.monotonic()
        return "; ".join(
            f"{name} failed {now - record.failed_at:.0f} s ago: {record.error}"
            for name, record in self._records.items()
            if record.failed_at and not _is_steady(record, now)
        )

    async def _keep(self, name: str, main: Main, record: _Record) -> None:
        backoff = self._backoff()
        while True:
            record.began = time.monotonic()
            try:
                await main()
            except (Exception, asyncio.CancelledError) as error:
                if _is_cancelled(error):
                    raise
                log.exception("Task failed, it is started again", name=name, error=f"{type(error).__name__}: {error}")
                if _is_steady(record, time.monotonic()):
                    backoff.reset()
                    record.in_a_row = 0
                self._note(name, record, error)
            else:
                record.failed_at = 0.0
                if record.is_vital:
                    self._end(f"{name} ended")
                return
            if record.is_vital and record.in_a_row >= MAX_VITAL_FAILURES:
                self._end(f"{name} failed {record.in_a_row} times: {record.error}")
                return
            await asyncio.sleep(backoff.next_seconds())

    def _note(self, name: str, record: _Record, error: BaseException) -> None:
        self._counter.child(name).add()
        record.in_a_row += 1
        record.failed_at = time.monotonic()
        record.error = f"{type(error).__name__}: {error}"[:200]


def _is_cancelled(error: BaseException) -> bool:
    """Whether this task was cancelled; a cancellation that leaks out of something it awaited is a failure."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def _is_steady(record: _Record, now: float) -> bool:
    """Whether the present start is steady; a task that waits for its next start is not."""
    return record.began > record.failed_at and now - record.began >= STEADY_SECONDS
