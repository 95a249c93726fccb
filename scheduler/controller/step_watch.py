"""Durations of the event loop's steps: during one, watches, probes and decisions wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

import structlog

SLOW_STEP_SECONDS: Final = 0.1

Step = Callable[[str], AbstractContextManager[None]]
"""Times a named piece of work that does not await."""

log = structlog.get_logger()


def unwatched(_name: str) -> AbstractContextManager[None]:
    """A step that is not timed."""
    return nullcontext()


class StepWatch:
    """``step("…")`` around each piece of work; of nested ones only the outermost counts."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.longest_seconds = 0.0
        self.slow_steps = 0
        self._monotonic = monotonic
        self._is_inside = False

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        if self._is_inside:
            yield
            return
        self._is_inside = True
        began = self._monotonic()
        try:
            yield
        finally:
            self._is_inside = False
            self.took(self._monotonic() - began, name)

    def took(self, seconds: float, name: str, culprit: Callable[[], Mapping[str, object]] = dict) -> None:
        """Record a step's duration, for callers that read the clock anyway. ``culprit``: fields for the warning."""
        if seconds > self.longest_seconds:
            self.longest_seconds = seconds
        if seconds > SLOW_STEP_SECONDS:
            self.slow_steps += 1
            log.warning(
                "Step was slow, everything else has waited for it", step=name, seconds=round(seconds, 3), **culprit()
            )
