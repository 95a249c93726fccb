"""Durations of the event loop's steps: during one, watches, probes and decisions wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import structlog

SLOW_STEP_SECONDS: Final = 0.1
SECONDS_BETWEEN_MARKS: Final = 0.0005
"""Minimum seconds between two marks. A mark takes 0.4 µs; a step's CPU is overstated by no more than this and a
slice."""

Step = Callable[[str], AbstractContextManager[None]]
"""Times a named piece of work that does not await."""

log = structlog.get_logger()


def unwatched(_name: str) -> AbstractContextManager[None]:
    """A step that is not timed."""
    return nullcontext()


class StepWatch:
    """``step("…")`` around each piece of work; of nested ones only the outermost counts."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        thread_seconds: Callable[[], float] = time.thread_time,
    ) -> None:
        """``thread_seconds``: CPU of the calling thread."""
        self.longest_seconds = 0.0
        self.longest_at = 0.0
        """When the longest step ended, as Unix time in seconds."""
        self.longest_cpu_seconds = 0.0
        """CPU of the step that took most of it, or up to as much more as the steps before it took since ``mark``. What
        is above it in ``longest_seconds`` was not work: the thread waited for a processor."""
        self.slow_steps = 0
        self._thread_seconds = thread_seconds
        self._cpu_at_mark = thread_seconds()
        self._next_mark = 0.0
        self._outermost = _Outermost(self, monotonic)

    def step(self, name: str) -> AbstractContextManager[None]:
        """A context manager that times a step, to be entered at once."""
        outermost = self._outermost
        if outermost.is_inside:
            return nullcontext()
        outermost.name = name
        return outermost

    def mark(self, now: float) -> None:
        """Read the thread's CPU, unless that was a moment ago: it costs as much as a short step. ``now``: monotonic
        seconds."""
        if now >= self._next_mark:
            self._next_mark = now + SECONDS_BETWEEN_MARKS
            self._cpu_at_mark = self._thread_seconds()

    def took(self, seconds: float, name: str, culprit: Callable[[], Mapping[str, object]] = dict) -> None:
        """Record a step's duration, for callers that read the clock anyway. ``culprit``: fields for the warning."""
        if seconds > self.longest_seconds:
            self.longest_seconds = seconds
            self.longest_at = time.time()
        if seconds > self.longest_cpu_seconds:
            self.longest_cpu_seconds = max(self.longest_cpu_seconds, self._cpu_of(seconds))
        if seconds > SLOW_STEP_SECONDS:
            self.slow_steps += 1
            took = {"step": name, "seconds": round(seconds, 3), "cpu_seconds": round(self._cpu_of(seconds), 3)}
            log.warning("Step was slow, everything else has waited for it", **took, **culprit())

    def _cpu_of(self, seconds: float) -> float:
        """An upper bound of the CPU seconds of a step that has just ended and took these seconds."""
        return min(seconds, self._thread_seconds() - self._cpu_at_mark)


class _Outermost(AbstractContextManager[None]):
    """The step under way. One object for all of them, since none awaits: there are several a pod, and each would cost
    as much as what it watches."""

    __slots__ = ("_began", "_monotonic", "_watch", "is_inside", "name")

    def __init__(self, watch: StepWatch, monotonic: Callable[[], float]) -> None:
        self.name = ""
        self.is_inside = False
        self._watch = watch
        self._monotonic = monotonic
        self._began = 0.0

    def __enter__(self) -> None:
        self.is_inside = True
        self._began = self._monotonic()

    def __exit__(self, *_: object) -> None:
        self.is_inside = False
        self._watch.took(self._monotonic() - self._began, self.name)
