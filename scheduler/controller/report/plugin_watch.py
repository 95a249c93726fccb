"""What user plugins' code does to the others: exceptions with their tracebacks, and calls that hold up everything.

Calls in a scheduling cycle, and coroutines that block instead of awaiting, run on the one event loop: while they do, no
other pod is tried, no watch is read and no probe is answered.
"""

from __future__ import annotations

import time
import types
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final

import structlog

from scheduler.controller.step_watch import SLOW_STEP_SECONDS

REPEAT_SECONDS: Final = 60.0
"""Minimum seconds between two reports of the same line of a plugin."""
MAX_PLACES: Final = 1_000
"""Lines of plugins whose last report is remembered."""

log = structlog.get_logger()


class PluginWatch:
    """One for all plugins of the process. Used on the event loop only."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.slow_calls: Counter[tuple[str, str]] = Counter()
        """Plugin and point → calls, or stretches of a coroutine, of more than ``SLOW_STEP_SECONDS``."""
        self.errors: Counter[tuple[str, str]] = Counter()
        """Plugin and point → exceptions."""
        self._monotonic = monotonic
        self._reported: dict[object, float] = {}
        """Place → monotonic second of its last report."""
        self._depth = 0
        """How many calls are under way, each within the one before."""
        self._seen: BaseException | None = None
        """The exception reported last: calls that enclose the one that raised see it, too. It is not kept longer, since
        its traceback holds all that the calls were given, forks of the cluster among it."""

    def begin(self) -> float:
        """A call begins; returns what ``end`` wants."""
        self._depth += 1
        return self._monotonic()

    def end(self, began: float, plugin: str, point: str, pod: str) -> None:
        """The call has ended; reports one that took too long."""
        self._depth -= 1
        if not self._depth:
            self._seen = None
        seconds = self._monotonic() - began
        if seconds <= SLOW_STEP_SECONDS:
            return
        self.slow_calls[plugin, point] += 1
        if self._is_due(("slow", plugin, point)):
            log.warning(
                "Plugin held up everything",
                plugin=plugin,
                point=point,
                pod=pod,
                seconds=round(seconds, 3),
                calls=self.slow_calls[plugin, point],
            )

    def raised(self, error: BaseException, plugin: str, point: str, pod: str, **more: object) -> None:
        """Report an exception with its traceback; the line in the log has ``more``, too."""
        if error is self._seen:
            return
        self._seen = error if self._depth else None
        self.errors[plugin, point] += 1
        if self._is_due((plugin, point, type(error), *_place(error))):
            log.error("Plugin failed", plugin=plugin, point=point, pod=pod, **more, exc_info=error)

    def _is_due(self, place: object) -> bool:
        now = self._monotonic()
        last = self._reported.get(place)
        if last is not None and now - last < REPEAT_SECONDS:
            return False
        if len(self._reported) >= MAX_PLACES:
            self._reported.clear()
        self._reported[place] = now
        return True


PLUGIN_WATCH: Final = PluginWatch()


async def watched(call: Coroutine[Any, Any, Any], plugin: str, point: str, pod: str) -> Any:
    """The call's answer; reports each stretch between two awaits that takes too long."""
    return await _stretches(call, plugin, point, pod)


@types.coroutine
def _stretches(call: Coroutine[Any, Any, Any], plugin: str, point: str, pod: str) -> Generator[Any, Any, Any]:
    value: Any = None
    error: BaseException | None = None
    while True:
        began = PLUGIN_WATCH.begin()
        try:
            awaited = call.send(value) if error is None else call.throw(error)
        except StopIteration as end:
            return end.value
        finally:
            PLUGIN_WATCH.end(began, plugin, point, pod)
        value, error = None, None
        try:
            value = yield awaited
        except BaseException as thrown:  # noqa: BLE001 - passed on to the call, cancellation included
            error = thrown


def _place(error: BaseException) -> tuple[str, int]:
    """File and line where the exception was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (trace.tb_frame.f_code.co_filename, trace.tb_lineno) if trace is not None else ("", 0)
