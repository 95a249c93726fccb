"""Attempts at groups of pods as log lines, metrics and lines of the journal."""

from __future__ import annotations

from typing import Any, Final

import structlog

from scheduler.controller.report.instruments import Instruments, exponential
from scheduler.engine.group_attempt import GroupAttempt, GroupResult

_WORDS: Final = {
    GroupResult.SCHEDULED: "Successfully scheduled a pod group",
    GroupResult.UNSCHEDULABLE: "Unable to schedule a pod group",
    GroupResult.WAITING_ON_PREEMPTION: "Pod group is waiting for preemption",
    GroupResult.ERROR: "Error scheduling pod group",
}
_VERBOSITY: Final = 2


class GroupLog:
    """Logs each attempt as one line, as kube-scheduler does from verbosity 2 on; errors always. Create it after
    ``configure_logs``."""

    def __init__(self, verbosity: int) -> None:
        self._is_on = verbosity >= _VERBOSITY
        self._log = structlog.get_logger().bind()

    def write(self, attempt: GroupAttempt) -> None:
        """Logs one attempt at a group."""
        fields: dict[str, Any] = {
            "podGroup": attempt.group,
            "profile": attempt.scheduler_name,
            "message": attempt.message,
            "scheduledPods" if attempt.result is GroupResult.SCHEDULED else "fittingPods": len(attempt.placed),
            "unschedulablePods": len(attempt.failed),
            "placements": attempt.placements,
            "placement": attempt.placement,
            "repeats": attempt.repeats,
            "microseconds": round(attempt.duration_seconds * 1e6),
        }
        shown = {name: value for name, value in fields.items() if value}
        if attempt.result is GroupResult.ERROR:
            self._log.error(_WORDS[attempt.result], **shown)
        elif self._is_on:
            self._log.info(_WORDS[attempt.result], **shown)


class GroupMetrics:
    """kube-scheduler's metrics of groups; they exist while the gate GenericWorkload is on."""

    def __init__(self, instruments: Instruments) -> None:
        bounds = exponential(0.001, 2, 15)
        self._attempts = instruments.counter(
            "scheduler_podgroup_schedule_attempts",
            "Number of attempts to schedule pod groups, by the result.",
            ("result", "profile"),
        )
        self._duration = instruments.histogram(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "Pod group scheduling attempt latency in seconds.",
            bounds,
            ("result", "profile"),
        )
        self._algorithm = instruments.histogram(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "Pod group scheduling algorithm latency in seconds.",
            bounds,
        ).child()

    def observe(self, attempt: GroupAttempt) -> None:
        labels = (attempt.result.value, attempt.scheduler_name)
        self._attempts.child(*labels).add()
        self._duration.child(*labels).observe(attempt.duration_seconds)
        self._algorithm.observe(attempt.algorithm_seconds)


def group_line(attempt: GroupAttempt) -> dict[str, Any]:
    """The journal's entry: ``group`` in place of ``pod``. The members have lines of their own."""
    line: dict[str, Any] = {
        "time": attempt.started_wall,
        "group": attempt.group,
        "result": attempt.result.value,
        "tried": attempt.tried,
        "found": len(attempt.placed),
    }
    if attempt.message:
        line["message"] = attempt.message
    if attempt.placement:
        line["placement"] = attempt.placement
    return line
