"""Durations of the event loop's steps: during one, watches, probes and decisions wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
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
        self.longest_at = 0.0
        """When the longest step ended, as Unix time in seconds."""
        self.slow_steps = 0
        self._monotonic = monotonic
        self._is_inside = False

    def step(self, name: str) -> AbstractContextManager[None]:
        if self._is_inside:
            return nullcontext()
        return _Timed(self, name)

    def began(self) -> float:
        """The outermost step begins; returns the time for ``ended``."""
        self._is_inside = True
        return self._monotonic()

    def ended(self, began: float, name: str) -> None:
        self._is_inside = False
        self.took(self._monotonic() - began, name)

    def took(self, seconds: float, name: str, culprit: Callable[[], Mapping[str, object]] = dict) -> None:
        """Record a step's duration, for callers that read the clock anyway. ``culprit``: fields for the warning."""
        if seconds > self.longest_seconds:
            self.longest_seconds = seconds
            self.longest_at = time.time()
        if seconds > SLOW_STEP_SECONDS:
            self.slow_steps += 1
            log.warning(
                "Step was slow, everything else has waited for it", step=name, seconds=round(seconds, 3), **culprit()
            )


class _Timed(AbstractContextManager[None]):
    """One step. Not a generator: there are several a pod, and each would cost as much as what it watches."""

    __slots__ = ("_began", "_name", "_watch")

    def __init__(self, watch: StepWatch, name: str) -> None:
        self._watch = watch
        self._name = name
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = self._watch.began()

    def __exit__(self, *_: object) -> None:
        self._watch.ended(self._began, self._name)
