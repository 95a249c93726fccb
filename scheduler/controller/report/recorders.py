"""The recorders of finished attempts, at pods and at groups of pods."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.controller.report.logs import AttemptLog
from scheduler.engine.attempt import SCHEDULED, Attempt
from scheduler.engine.group_attempt import GroupAttempt

Recorder = Callable[[Attempt], None]
GroupRecorder = Callable[[GroupAttempt], None]


def attempt_log(verbosity: int, *, is_shadow: bool) -> Recorder:
    """A log line for each attempt. In shadow mode placements are left out: the shadow logs their outcome itself."""
    attempts = AttemptLog(verbosity)
    if not is_shadow:
        return attempts.write

    def write_failures(attempt: Attempt) -> None:
        if attempt.result != SCHEDULED:
            attempts.write(attempt)

    return write_failures
