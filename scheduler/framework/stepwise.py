"""Plugins that search, and pause while they do: a pod that is hard to place is not one long step of the event loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.cluster.affinity_terms import parse_in_steps
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.class_run import PRE_FILTER, PRE_SCORE, Answers, ClassRun, PluginPoint, PodAnswers
from scheduler.framework.plugin import FilterPlugin, Plugin, Rows, State, Verdicts
from scheduler.messages.status import Refusal, Skip
from scheduler.objects.steps import Steps, run_to_end

__all__ = [
    "PRE_FILTER",
    "PRE_SCORE",
    "LookingPlugin",
    "StepwisePlugin",
    "answers_of",
    "look_ahead",
    "looks_of",
    "read_of",
]


class StepwisePlugin(FilterPlugin):
    """A filter whose answer may take long. While it pauses nothing changes that it may read, but others may ask."""

    def filter_in_steps(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Steps[Verdicts | None]:
        """What ``filter`` returns."""
        raise NotImplementedError

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        return run_to_end(self.filter_in_steps(state, pod, view, rows))

    def look_ahead(self, state: State, pod: PodInfo, view: View, node: str) -> Steps[None]:
        """Work out what ``reserve`` will need on the node; it is asked next."""
        raise NotImplementedError


class LookingPlugin(Plugin):
    """A plugin whose PreFilter or PreScore may take long for a large pod."""

    def read_in_steps(self, pod: PodInfo) -> Steps[None] | None:
        """Parse what the plugin reads of the pod, and remember it there, before ``fragment`` is asked; None where it
        does not take long."""
        return None

    def look_in_steps(self, point: str, pod: PodInfo, view: View) -> Steps[State | Skip | Refusal] | None:
        """What ``pre_filter`` or ``pre_score`` returns, as ``point`` says; None where it does not take long."""
        raise NotImplementedError


def looks_of(plugins: Sequence[LookingPlugin], point: str, run: ClassRun) -> Steps[PodAnswers]:
    """The plugins' answers for the pod at this extension point. One that raises has none: it raises again there."""
    found: dict[PluginPoint, State | Skip | Refusal] = {}
    for plugin in plugins:
        try:
            steps = plugin.look_in_steps(point, run.pod, run.view)
            if steps is not None:
                if run.times is not None:
                    steps = run.times.timing_steps(steps, plugin.name, point)
                found[plugin.name, point] = yield from steps
        except Exception:  # noqa: BLE001 - a plugin may raise anything; see above
            continue
    return found


def read_of(plugins: Sequence[LookingPlugin], pod: PodInfo) -> Steps[None]:
    """Parse the terms of a large pod, and let the plugins parse what they read of it. One that raises will raise again
    where it is asked."""
    yield from parse_in_steps(pod)
    for plugin in plugins:
        try:
            steps = plugin.read_in_steps(pod)
            if steps is not None:
                yield from steps
        except Exception:  # noqa: BLE001 - a plugin may raise anything; see above
            continue


def answers_of(
    plugins: Sequence[StepwisePlugin], states: Mapping[str, State | Skip], run: ClassRun, rows: Rows
) -> Steps[Answers]:
    """The plugins' answers for these rows; none of them has skipped the pod. One that raises has none: it raises again
    when the filters run."""
    found: dict[str, Verdicts | None] = {}
    for plugin in plugins:
        state = states[plugin.name]
        assert not isinstance(state, Skip)
        steps = plugin.filter_in_steps(state, run.pod, run.view, rows)
        if run.times is not None:
            steps = run.times.timing_steps(steps, plugin.name, "Filter")
        try:
            found[plugin.name] = yield from steps
        except Exception:  # noqa: BLE001 - a plugin may raise anything; see above
            continue
    return found


def look_ahead(
    plugins: Sequence[StepwisePlugin], states: Mapping[str, State | Skip], pod: PodInfo, view: View, node: str
) -> Steps[None]:
    """Let the plugins search the node that the pod is about to get. One that raises will raise again in Reserve."""
    for plugin in plugins:
        state = states[plugin.name]
        assert not isinstance(state, Skip)
        try:
            yield from plugin.look_ahead(state, pod, view, node)
        except Exception:  # noqa: BLE001 - a plugin may raise anything; see above
            continue
