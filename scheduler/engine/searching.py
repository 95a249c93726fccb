"""Pauses of a cycle: in long searches of plugins, on all nodes or on the chosen one, and between the steps of a cycle
that takes long."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.pod_template import is_large
from scheduler.cluster.volumes.facts import Volumes
from scheduler.engine.cycle_context import CycleContext, Run
from scheduler.engine.driving import PAUSE, pausing
from scheduler.engine.extender_round import Answers, Calls
from scheduler.framework.class_run import Answers as FilterAnswers
from scheduler.framework.plugin import Rows
from scheduler.framework.profile import Profile
from scheduler.framework.stepwise import StepwisePlugin, answers_of, look_ahead, looks_of, read_of
from scheduler.messages.status import Skip


def takes_long(pod: PodInfo, volumes: Volumes) -> bool:
    """Whether an attempt at the pod may take long: the pod is large, or what its claims need is."""
    return is_large(pod) or (bool(pod.pod.spec.volumes) and volumes.has_long_selector(pod))


def parsed(context: CycleContext, profile: Profile, pod: PodInfo) -> Generator[Calls, Answers, None]:
    """Parse the terms of a large pod, with pauses, unless they are known from another pod of its template."""
    context.classes.recall(profile, pod)
    yield from pausing(read_of(profile.looking_plugins, pod))


def looked(run: Run, point: str) -> Generator[Calls, Answers, None]:
    """Ask the plugins about a large pod, with pauses, before the extension point calls each of them."""
    run.of_class.pod_answers = yield from pausing(looks_of(run.profile.looking_plugins, point, run.of_class))
    yield PAUSE


def searching_plugins(run: Run) -> Sequence[StepwisePlugin]:
    """The plugins that may search for this pod. For most pods none: they cost no generator."""
    found: list[StepwisePlugin] = []
    for one in run.profile.stepwise_plugins:
        state = run.filters.states.get(one.name)
        if state is not None and not isinstance(state, Skip):
            found.append(one)
    return found


def answers_in_steps(
    run: Run, plugins: Sequence[StepwisePlugin], rows: Rows
) -> Generator[Calls, Answers, FilterAnswers]:
    """The plugins' answers for the rows, worked out with pauses before the filters run."""
    return (yield from pausing(answers_of(plugins, run.filters.states, run.of_class, rows)))


def before_reserve(run: Run, node: str) -> Generator[Calls, Answers, None]:
    """The plugins search the node that the pod is about to get; and a pause where the pod is large."""
    if plugins := searching_plugins(run):
        yield from pausing(look_ahead(plugins, run.filters.states, run.pod, run.context.cache.view, node))
    if run.is_large:
        yield PAUSE
