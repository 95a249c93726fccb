"""Where a cycle may pause: in what plugins search for at length, on all nodes and on the one that is taken, and between
the steps of a cycle whose pod is large."""

from __future__ import annotations

from collections.abc import Generator

from scheduler.cluster.pod_template import is_large
from scheduler.engine.cycle_context import Run
from scheduler.engine.driving import PAUSE, pausing
from scheduler.engine.extender_round import Answers, Calls
from scheduler.engine.outcome import CycleOutcome
from scheduler.engine.reservation import assume_and_reserve
from scheduler.framework.classes.run import NO_ANSWERS
from scheduler.framework.classes.run import Answers as FilterAnswers
from scheduler.framework.plugin import Rows
from scheduler.framework.stepwise import answers_of, look_ahead


def rest(run: Run) -> Generator[Calls, Answers, None]:
    """A pause before the next step where the pod is large: ten thousand terms take long in each step."""
    if is_large(run.pod):
        yield PAUSE


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
    yield from rest(run)
    return assume_and_reserve(run, node)
