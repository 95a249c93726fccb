"""What becomes of the problems that the engine reports."""

from __future__ import annotations

from typing import Any, cast

from scheduler.controller.carrying_out import CommandSink
from scheduler.controller.dispatch import Dispatcher
from scheduler.engine.commands import Command
from scheduler.messages.commands import ReportProblem


class Nothing:
    """Takes no command: none of these leaves the process."""

    def submit(self, command: Command) -> None:
        raise AssertionError(command)


def test_a_bug_is_logged_with_its_place_and_counted_and_another_problem_is_not(log_lines: list[dict[str, Any]]) -> None:
    dispatcher = Dispatcher(cast(CommandSink, Nothing()), (), lambda _: None, lambda _: None)
    dispatcher.dispatch(ReportProblem("a node was given up"))
    try:
        raise RuntimeError("a bug")
    except RuntimeError as error:
        dispatcher.dispatch(ReportProblem("a deadline broke off", error))
    assert dispatcher.errors == 1
    first, second = log_lines
    assert (first["log_level"], first["problem"]) == ("warning", "a node was given up")
    assert (second["log_level"], str(second["exc_info"])) == ("error", "a bug")
