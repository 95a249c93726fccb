"""PostFilter: the plugins that may make room are asked in turn (reference cycle.md §9, preemption.md §1.3)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.engine.error_texts import text_of
from scheduler.engine.extender_round import Answers, Calls, ExtenderRound
from scheduler.engine.preempt_round import Preempting, ask_about_victims
from scheduler.errors import PluginError
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.plugin import PostFilterPlugin, State
from scheduler.framework.plugin_times import PluginTimes
from scheduler.framework.post_filter import (
    KEEP_NOMINATION,
    Nomination,
    NominationMode,
    PostFilterAnswer,
    PostFilterContext,
)
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.messages.status import Code, Skip

if TYPE_CHECKING:
    from scheduler.engine.scheduling_cycle import CycleContext


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """What all PostFilter plugins together came to. ``message`` is what they add to the fit error."""

    message: str
    nomination: Nomination
    evidence: Any = None
    victims: tuple[str, ...] = ()
    writes: tuple[Any, ...] = ()


def run_post_filters(
    context: CycleContext,
    profile: Profile,
    pod: PodInfo,
    view: View,
    diagnosis: Diagnosis,
    states: dict[str, State | Skip],
    extenders: ExtenderRound,
    now: Now,
    times: PluginTimes | None,
) -> Generator[Calls, Answers, RoundAnswer | None]:
    """None where the profile has no PostFilter plugin: the nomination is then cleared."""
    if not profile.post_filter_plugins:
        return None
    asked = PostFilterContext(
        pod=pod,
        view=view,
        diagnosis=diagnosis,
        states=states,
        profile=profile,
        rng=context.rng,
        now_nanoseconds=now.wall,
        nominated_pods=context.nominator.pods_for_node,
    )
    reasons: list[str] = []
    nomination = KEEP_NOMINATION
    evidence: Any = None
    writes: tuple[Any, ...] = ()
    for plugin in profile.post_filter_plugins:
        try:
            answer = yield from _ask(plugin, asked, extenders, times)
            victims = tuple(victim.key for victim in getattr(answer.evidence, "victims", ()))
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own fault, and is named
            return RoundAnswer(
                text_of(PluginError(plugin.name, "PostFilter", error)), KEEP_NOMINATION, evidence, writes=writes
            )
        writes += answer.writes
        if answer.evidence is not None:
            evidence = answer.evidence
        if answer.status is None:
            return RoundAnswer("", answer.nomination, evidence, victims, writes)
        if not answer.status.code.is_rejection:
            return RoundAnswer(answer.status.message, KEEP_NOMINATION, evidence, writes=writes)
        if answer.status.code is not Code.UNSCHEDULABLE:
            return RoundAnswer(answer.status.message, answer.nomination, evidence, writes=writes)
        reasons.extend(answer.status.reasons)
        if answer.nomination.mode is not NominationMode.KEEP:
            nomination = answer.nomination
    return RoundAnswer(", ".join(reasons), nomination, evidence, writes=writes)


def _ask(
    plugin: PostFilterPlugin, asked: PostFilterContext, extenders: ExtenderRound, times: PluginTimes | None
) -> Generator[Calls, Answers, PostFilterAnswer]:
    if extenders.preempters and isinstance(plugin, Preempting):
        return (yield from ask_about_victims(plugin, asked, extenders))
    ask = plugin.post_filter if times is None else times.timing(plugin.post_filter, plugin.name, "PostFilter")
    answer: PostFilterAnswer = ask(asked)
    return answer
