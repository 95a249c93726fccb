"""The parts of a cycle that may pause: what plugins search for at length, on all nodes and on the one that is taken."""

from __future__ import annotations

from collections.abc import Generator

from scheduler.engine.cycle_context import Run
from scheduler.engine.driving import pausing
from scheduler.engine.extender_round import Answers, Calls
from scheduler.engine.outcome import CycleOutcome
from scheduler.engine.reservation import assume_and_reserve
from scheduler.framework.classes.run import NO_ANSWERS
from scheduler.framework.classes.run import Answers as FilterAnswers
from scheduler.framework.plugin import Rows
from scheduler.framework.stepwise import answers_of, look_ahead


def answers_in_steps(run: Run, rows: Rows) -> Generator[Calls, Answers, FilterAnswers]:
    """What the plugins that may take long say to these rows; they are asked before the filters, and remember it."""
    plugins = run.profile.stepwise_plugins
    if not plugins:
        return NO_ANSWERS
    return (yield from pausing(answers_of(plugins, run.filters.states, run.of_class, rows)))


def reserved(run: Run, node: str) -> Generator[Calls, Answers, CycleOutcome]:
    """``assume_and_reserve``, once the plugins have searched the node."""
    if run.profile.stepwise_plugins:
        view = run.context.cache.view
        yield from pausing(look_ahead(run.profile.stepwise_plugins, run.filters.states, run.pod, view, node))
    return assume_and_reserve(run, node)
