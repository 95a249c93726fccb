"""PreScore: computes what scoring needs, once for all rows that fit."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.errors import PluginError
from scheduler.framework.class_run import PRE_SCORE, ClassRun, PluginPoint
from scheduler.framework.plugin import EMPTY_STATE, PreScorePlugin, Rows, ScorePlugin, State
from scheduler.messages.status import SKIP, Refusal, Skip


def pre_score(plugin: ScorePlugin | PreScorePlugin, run: ClassRun, rows: Rows) -> State | Skip:
    """One plugin's state for these rows; EMPTY_STATE if it has no PreScore. Raises PluginError on a refusal."""
    if not isinstance(plugin, PreScorePlugin):
        return EMPTY_STATE
    answer = run.pod_answers.get((plugin.name, PRE_SCORE)) if run.pod_answers else None
    if answer is None:
        answer = run.timed(plugin.pre_score, plugin.name, PRE_SCORE)(run.pod, run.view, rows)
    if isinstance(answer, Refusal):
        raise PluginError(plugin.name, "PreScore", ValueError(answer.message))
    return answer


def run_pre_score_only(plugins: Iterable[PreScorePlugin], run: ClassRun, rows: Rows) -> frozenset[PluginPoint]:
    """Runs PreScore plugins that do not score: kube-scheduler 1.36 does, and if one fails, so does the attempt.
    Returns those that did not skip. Raises PluginError."""
    said: set[PluginPoint] = set()
    for plugin in plugins:
        try:
            if pre_score(plugin, run, rows) is not SKIP:
                said.add((plugin.name, "PreScore"))
        except PluginError:
            raise
        except Exception as error:
            raise PluginError(plugin.name, "PreScore", error) from error
    return frozenset(said)
