"""PostFilter: the plugins that may make room are asked in turn.

Source: docs/kube-scheduler/cycle.md §9, preemption.md §1.3.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from scheduler.engine.driving import pausing
from scheduler.engine.error_texts import text_of
from scheduler.engine.extender_round import Answers, Calls, ExtenderRound
from scheduler.engine.preempt_round import ask_about_victims
from scheduler.errors import PluginError
from scheduler.framework.plugin_times import PluginTimes
from scheduler.framework.post_filter import (
    CLEAR_NOMINATION,
    KEEP_NOMINATION,
    Nomination,
    NominationMode,
    PostFilterAnswer,
    PostFilterContext,
    PostFilterPlugin,
    Remove,
    Room,
)
from scheduler.messages.claim_commands import ClaimCommand
from scheduler.messages.status import Code
from scheduler.preemption.plugin import PreemptionPlugin


class RoundAnswer(Struct, frozen=True):
    """What all PostFilter plugins together came to. ``message`` is what they add to the fit error; ``code`` what they
    count as in the metrics."""

    message: str
    nomination: Nomination
    code: Code
    room: Room | None = None
    evidence: object = None
    writes: tuple[ClaimCommand, ...] = ()

    @property
    def victims(self) -> tuple[str, ...]:
        """namespace/name of the pods to be removed, most important first."""
        return tuple(victim.key for victim in self.room.victims) if isinstance(self.room, Remove) else ()


NOT_ASKED: Final = RoundAnswer("", CLEAR_NOMINATION, Code.UNSCHEDULABLE)
"""The answer where there is no such plugin."""


def run_post_filters(
    plugins: tuple[PostFilterPlugin, ...],
    asked: PostFilterContext,
    extenders: ExtenderRound,
    times: PluginTimes | None,
) -> Generator[Calls, Answers, RoundAnswer]:
    """The answer of all PostFilter plugins together. The round ends with the first answer other than UNSCHEDULABLE; the
    reasons of the plugins before it are joined."""
    reasons: list[str] = []
    so_far = RoundAnswer("", KEEP_NOMINATION, Code.UNSCHEDULABLE)
    for plugin in plugins:
        try:
            answer = yield from _ask(plugin, asked, extenders, times)
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own fault, and is named
            text = text_of(PluginError(plugin.name, "PostFilter", error))
            return replace(so_far, message=text, nomination=KEEP_NOMINATION, code=Code.ERROR, room=None)
        evidence = so_far.evidence if answer.evidence is None else answer.evidence
        writes = so_far.writes + answer.writes
        if answer.status is None:
            return RoundAnswer("", answer.nomination, Code.SUCCESS, answer.room, evidence, writes)
        code = answer.status.code
        if not code.is_rejection:
            return RoundAnswer(answer.status.message, KEEP_NOMINATION, Code.ERROR, None, evidence, writes)
        if code is not Code.UNSCHEDULABLE:
            return RoundAnswer(answer.status.message, answer.nomination, code, answer.room, evidence, writes)
        reasons.extend(answer.status.reasons)
        so_far = RoundAnswer(
            ", ".join(reasons),
            so_far.nomination if answer.nomination.mode is NominationMode.KEEP else answer.nomination,
            Code.UNSCHEDULABLE,
            so_far.room if answer.room is None else answer.room,
            evidence,
            writes,
        )
    return so_far


def _ask(
    plugin: PostFilterPlugin,
    asked: PostFilterContext,
    extenders: ExtenderRound,
    times: PluginTimes | None,
) -> Generator[Calls, Answers, PostFilterAnswer]:
    if isinstance(plugin, PreemptionPlugin):
        if extenders.preempters:
            return (yield from ask_about_victims(plugin, asked, extenders))
        steps = plugin.whole_in_steps(asked)
        return (yield from pausing(steps if times is None else times.timing_steps(steps, plugin.name, "PostFilter")))
    ask = plugin.post_filter if times is None else times.timing(plugin.post_filter, plugin.name, "PostFilter")
    answer: object = ask(asked)
    if not isinstance(answer, PostFilterAnswer):
        raise TypeError(f"answered {type(answer).__name__}; a PostFilterAnswer is wanted")
    return answer
