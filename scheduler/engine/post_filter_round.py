"""PostFilter: the plugins that may make room are asked in turn (reference cycle.md §9, preemption.md §1.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.errors import PluginError
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.now import Now
from scheduler.framework.plugin import State
from scheduler.framework.post_filter import KEEP_NOMINATION, Nomination, NominationMode, PostFilterContext
from scheduler.framework.profile import Profile
from scheduler.framework.status import Code, Skip

if TYPE_CHECKING:
    from scheduler.engine.scheduling_cycle import CycleContext


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """What all PostFilter plugins together came to. ``message`` is what they add to the fit error."""

    message: str
    nomination: Nomination
    evidence: Any = None
    victims: tuple[str, ...] = ()


def run_post_filters(
    context: CycleContext,
    profile: Profile,
    pod: PodInfo,
    diagnosis: Diagnosis,
    states: dict[str, State | Skip],
    now: Now,
) -> RoundAnswer | None:
    """None where the profile has no PostFilter plugin: the nomination is then cleared."""
    if not profile.post_filter_plugins:
        return None
    asked = PostFilterContext(
        pod=pod,
        view=context.cache.view,
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
    for plugin in profile.post_filter_plugins:
        try:
            answer = plugin.post_filter(asked)
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own fault, and is named
            return RoundAnswer(str(PluginError(plugin.name, "PostFilter", error)), KEEP_NOMINATION, evidence)
        if answer.evidence is not None:
            evidence = answer.evidence
        if answer.status is None:
            return RoundAnswer("", answer.nomination, evidence, _victims(evidence))
        if answer.status.code is not Code.UNSCHEDULABLE:
            return RoundAnswer(answer.status.message, answer.nomination, evidence)
        reasons.extend(answer.status.reasons)
        if answer.nomination.mode is not NominationMode.KEEP:
            nomination = answer.nomination
    return RoundAnswer(", ".join(reasons), nomination, evidence)


def _victims(evidence: Any) -> tuple[str, ...]:
    return tuple(victim.key for victim in getattr(evidence, "victims", ()))
