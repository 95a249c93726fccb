"""Why nodes refused a pod of a question."""

from __future__ import annotations

from typing import Final

from scheduler.engine.attempt_memory import refused_nodes
from scheduler.engine.questions.answers import Refused
from scheduler.engine.questions.trial import Trial, Tried
from scheduler.messages.status import Refusal

MAX_REASONS: Final = 20


def refusals_of(trial: Trial, tried: Tried) -> tuple[Refused, ...]:
    """Why nodes refused a pod, the most frequent reason first."""
    attempt = tried.attempt
    if attempt is None or attempt.diagnosis is None:
        return ()
    if attempt.diagnosis.pre_filter is not None:
        refusal: Refusal = attempt.diagnosis.pre_filter
        return (Refused(refusal.plugin, refusal.reasons, attempt.total_nodes),)
    found = refused_nodes(attempt.diagnosis, trial.cache.table.names, attempt.total_nodes)
    entries = [Refused(one.refusal.plugin, tuple(one.refusal.reasons), one.count) for one in found]
    return tuple(sorted(entries, key=lambda one: -one.count)[:MAX_REASONS])
