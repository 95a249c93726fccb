"""Driving a cycle, of a pod or of a group, that has no extender to wait for."""

from __future__ import annotations

from collections.abc import Generator

from scheduler.engine.extender_round import Answers, Calls
from scheduler.objects.steps import Result, Steps, run_to_end

PAUSE: Calls = ()
"""What a cycle yields where it only pauses."""


def pausing(steps: Steps[Result]) -> Generator[Calls, Answers, Result]:
    """Work that pauses, as a part of a cycle."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: Result = done.value
            return result
        yield PAUSE


def run_in_steps(cycle: Generator[Calls, Answers, Result]) -> Steps[Result]:
    """Yields at each pause of the cycle."""
    while True:
        try:
            calls = next(cycle)
        except StopIteration as done:
            result: Result = done.value
            return result
        assert not calls, "a cycle without extenders asked one"
        yield


def run_without_extenders(cycle: Generator[Calls, Answers, Result]) -> Result:
    """The result of a cycle, without pauses."""
    return run_to_end(run_in_steps(cycle))
