"""Run a cycle, of a pod or of a group, that has no extender to wait for."""

from __future__ import annotations

from collections.abc import Generator

from scheduler.engine.extender_round import Answers, Calls
from scheduler.objects.steps import Ended, Result, Steps, run_to_end, signalling

PAUSE: Calls = ()
"""What a cycle yields where it only pauses."""


def pausing(steps: Steps[Result]) -> Generator[Calls, Answers, Result]:
    """Work in steps, as a part of a cycle that pauses where the steps do."""
    return signalling(steps, PAUSE)


def run_in_steps(cycle: Generator[Calls, Answers, Result]) -> Steps[Result]:
    """A cycle without extenders, as work in steps."""
    ended = Ended(cycle)
    for calls in ended:
        assert not calls, "a cycle without extenders asked one"
        yield
    return ended.result


def run_without_extenders(cycle: Generator[Calls, Answers, Result]) -> Result:
    """The result of a cycle, without pauses."""
    return run_to_end(run_in_steps(cycle))
