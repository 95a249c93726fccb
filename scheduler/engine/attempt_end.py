"""Completes an Attempt with its outcome and records it. The outcome's fields are set nowhere else."""

from __future__ import annotations

from scheduler.engine.attempt import ERROR, SCHEDULED, UNSCHEDULABLE, Attempt
from scheduler.engine.commands import RecordAttempt
from scheduler.engine.outcome import NotPlaced


def was_placed(attempt: Attempt) -> RecordAttempt:
    """Complete the attempt of a bound pod."""
    attempt.result = SCHEDULED
    return RecordAttempt(attempt)


def was_not_placed(attempt: Attempt, failure: NotPlaced) -> RecordAttempt:
    """Complete the attempt of a pod without a node: none was found, or its binding failed."""
    attempt.result = ERROR if failure.is_error else UNSCHEDULABLE
    attempt.node = ""
    attempt.message = failure.message
    attempt.rejectors = tuple(sorted(failure.unschedulable_plugins | failure.pending_plugins))
    attempt.nomination_mode = failure.nomination.mode
    attempt.nominated_node = failure.nomination.node_name
    return RecordAttempt(attempt)
