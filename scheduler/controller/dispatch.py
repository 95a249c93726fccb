"""Routes the engine's commands: attempts to the recorders, the others to the command sink."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from scheduler.controller.carrying_out import CommandSink
from scheduler.engine.attempt import Attempt
from scheduler.engine.commands import Command, RecordAttempt, RecordGroupAttempt
from scheduler.engine.group_attempt import GroupAttempt
from scheduler.messages.commands import ReportProblem, ReportRepairs, TellBelieved

_OF_COMPARISONS: Final = (TellBelieved, ReportRepairs)

log = structlog.get_logger()


class Dispatcher:
    """Routes commands; never raises and never awaits. ``recorders`` receive each completed attempt, ``of_groups`` each
    attempt at a group, ``reconcile`` the commands of a cache comparison.
    """

    def __init__(
        self,
        sink: CommandSink,
        recorders: tuple[Callable[[Attempt], None], ...],
        reconcile: Callable[[TellBelieved | ReportRepairs], None],
        of_groups: tuple[Callable[[GroupAttempt], None], ...] = (),
    ) -> None:
        self._sink = sink
        self._recorders = recorders
        self._reconcile = reconcile
        self._of_groups = of_groups

    def dispatch(self, command: Command) -> None:
        if isinstance(command, RecordAttempt):
            self._record(command.attempt)
        elif isinstance(command, RecordGroupAttempt):
            self._record_group(command.attempt)
        elif isinstance(command, _OF_COMPARISONS):
            self._reconcile(command)
        elif isinstance(command, ReportProblem):
            log.warning("Engine reports a problem", problem=command.message)
        else:
            self._sink.submit(command)

    def _record(self, attempt: Attempt) -> None:
        for recorder in self._recorders:
            try:
                recorder(attempt)
            except Exception:
                log.exception("Attempt could not be recorded", pod=attempt.pod)

    def _record_group(self, attempt: GroupAttempt) -> None:
        for recorder in self._of_groups:
            try:
                recorder(attempt)
            except Exception:
                log.exception("Attempt could not be recorded", group=attempt.group)
