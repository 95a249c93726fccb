"""Routes the engine's commands: attempts to the recorders, the others to the command sink."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from scheduler.controller.carrying_out import CommandSink
from scheduler.engine.attempt import Attempt
from scheduler.engine.commands import Command, RecordAttempt, RecordGroupAttempt
from scheduler.engine.group_attempt import GroupAttempt
from scheduler.messages.commands import ReportKnownObjects, ReportProblem, ReportRepairs, StopPlugins

log = structlog.get_logger()


class Dispatcher:
    """Routes commands; never raises and never awaits. ``recorders`` receive each completed attempt, ``of_groups`` each
    attempt at a group, ``reconcile`` the commands of a cache comparison, ``stop_plugins`` what ends plugins' calls.
    """

    def __init__(
        self,
        sink: CommandSink,
        recorders: tuple[Callable[[Attempt], None], ...],
        reconcile: Callable[[ReportKnownObjects | ReportRepairs], None],
        stop_plugins: Callable[[StopPlugins], None],
        of_groups: tuple[Callable[[GroupAttempt], None], ...] = (),
    ) -> None:
        self.errors = 0
        """Bugs that the engine has reported."""
        self._submit = sink.submit
        self._recorders = recorders
        self._of_groups = of_groups
        self._kept_here: dict[type, Callable[[Any], None]] = {
            RecordAttempt: self._record,
            RecordGroupAttempt: self._record_group,
            ReportKnownObjects: reconcile,
            ReportRepairs: reconcile,
            ReportProblem: self._report,
            StopPlugins: stop_plugins,
        }
        """By the type of the command; all others leave the process."""

    def dispatch(self, command: Command) -> None:
        self._kept_here.get(type(command), self._submit)(command)

    def _report(self, problem: ReportProblem) -> None:
        if problem.error is None:
            log.warning("Engine reports a problem", problem=problem.message)
            return
        self.errors += 1
        log.error("Engine reports a bug", problem=problem.message, exc_info=problem.error)

    def _record(self, command: RecordAttempt) -> None:
        attempt = command.attempt
        for recorder in self._recorders:
            try:
                recorder(attempt)
            except Exception:
                log.exception("Attempt could not be recorded", pod=attempt.pod)

    def _record_group(self, command: RecordGroupAttempt) -> None:
        attempt = command.attempt
        for recorder in self._of_groups:
            try:
                recorder(attempt)
            except Exception:
                log.exception("Attempt could not be recorded", group=attempt.group)
