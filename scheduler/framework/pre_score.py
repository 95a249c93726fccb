"""PreScore: what scoring needs to know is worked out once for all the rows that fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.errors import PluginError
from scheduler.framework.classes.filters import PluginPoint
from scheduler.framework.plugin import EMPTY_STATE, PreScorePlugin, Rows, ScorePlugin, State
from scheduler.framework.plugin_times import PluginTimes
from scheduler.messages.status import SKIP, Refusal, Skip

if TYPE_CHECKING:
    from scheduler.cluster.pod_info import PodInfo
    from scheduler.cluster.view import View
    from scheduler.framework.profile import Profile


def pre_score(
    plugin: ScorePlugin | PreScorePlugin, pod: PodInfo, view: View, rows: Rows, times: PluginTimes | None
) -> State | Skip:
    """What one plugin worked out; nothing where it has no PreScore. Raises PluginError where it answers a refusal."""
    if not isinstance(plugin, PreScorePlugin):
        return EMPTY_STATE
    ask = plugin.pre_score if times is None else times.timing(plugin.pre_score, plugin.name, "PreScore")
    answer = ask(pod, view, rows)
    if isinstance(answer, Refusal):
        raise PluginError(plugin.name, "PreScore", ValueError(answer.message))
    return answer


def run_pre_score_only(
    profile: Profile, pod: PodInfo, view: View, rows: Rows, times: PluginTimes | None
) -> frozenset[PluginPoint]:
    """Ask the PreScore plugins that do not score: kube-scheduler 1.36 does, and where one fails, so does the attempt.
    Those that had something to say. Raises PluginError."""
    said: set[PluginPoint] = set()
    for plugin in profile.pre_score_only_plugins if profile.score_plugins else ():
        try:
            if pre_score(plugin, pod, view, rows, times) is not SKIP:
                said.add((plugin.name, "PreScore"))
        except PluginError:
            raise
        except Exception as error:
            raise PluginError(plugin.name, "PreScore", error) from error
    return frozenset(said)
