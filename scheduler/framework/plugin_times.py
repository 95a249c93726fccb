"""Durations of plugins' calls in timed cycles: one cycle in ``TIMED_CYCLES``, as kube-scheduler 1.36 samples a tenth
for ``plugin_execution_duration_seconds`` (docs/kube-scheduler/cycle.md §16). Other cycles have no ``PluginTimes``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from scheduler.framework.plugin import Wait
from scheduler.framework.post_filter import PostFilterAnswer
from scheduler.messages.status import Code, Refusal, Skip
from scheduler.objects.steps import Result, Steps

TIMED_CYCLES: Final = 10

Call = TypeVar("Call", bound=Callable[..., object])


class PluginTime(msgspec.Struct, frozen=True):
    """One call of a plugin."""

    plugin: str
    point: str
    status: str
    """Name of kube-scheduler 1.36's status code. An answer for many nodes at once is a Success."""
    seconds: float


class PluginTimes:
    """The measurements of one attempt; ``stopwatch`` returns seconds, and no decision depends on it."""

    __slots__ = ("_samples", "_stopwatch")

    def __init__(self, stopwatch: Callable[[], float]) -> None:
        self._stopwatch = stopwatch
        self._samples: list[PluginTime] = []

    def timing(self, call: Call, plugin: str, point: str) -> Call:
        """The call, which is timed whether it returns or raises."""

        def timed(*args: object) -> object:
            begun = self._stopwatch()
            status = Code.ERROR.value
            try:
                answer = call(*args)
                status = _status_of(answer)
                return answer
            finally:
                self.took(plugin, point, status, self._stopwatch() - begun)

        return timed  # type: ignore[return-value]

    def timing_steps(self, steps: Steps[Result], plugin: str, point: str) -> Steps[Result]:
        """As ``timing``, for a call that pauses; the pauses do not count."""
        seconds, status = 0.0, Code.ERROR.value
        try:
            while True:
                begun = self._stopwatch()
                try:
                    next(steps)
                except StopIteration as done:
                    status = _status_of(done.value)
                    result: Result = done.value
                    return result
                finally:
                    seconds += self._stopwatch() - begun
                yield
        finally:
            self.took(plugin, point, status, seconds)

    def took(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self._samples.append(PluginTime(plugin, point, status, seconds))

    def take(self) -> list[PluginTime]:
        """Removes and returns the measurements since the last call, in order: attempts are kept for a long time."""
        taken, self._samples = self._samples, []
        return taken


def timed(times: PluginTimes | None, call: Call, plugin: str, point: str) -> Call:
    """The call itself if ``times`` is None, else a timed one."""
    return call if times is None else times.timing(call, plugin, point)


def _status_of(answer: object) -> str:
    if isinstance(answer, PostFilterAnswer):
        answer = answer.status
    if isinstance(answer, Refusal):
        return answer.code.value
    if isinstance(answer, Skip):
        return Code.SKIP.value
    return Code.WAIT.value if isinstance(answer, Wait) else Code.SUCCESS.value
