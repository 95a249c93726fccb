"""What deadlines that are due lead to: each by itself, so that an error of one takes nothing from the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from scheduler.engine.commands import Command
from scheduler.engine.deadlines import BindAgain, Deadline, PermitDeadline, PreBindPoll
from scheduler.engine.error_texts import cause_of
from scheduler.engine.internal import CancelBinding, Step
from scheduler.errors import type_and_message
from scheduler.messages.commands import ReportProblem

Handle = Callable[[], Sequence[Step]]
Drain = Callable[[Sequence[Step]], list[Command]]


def commands_of_due(due: Iterable[tuple[Deadline, Handle]], drain: Drain) -> list[Command]:
    """The commands that the deadlines lead to, in their order. A bug that one of them meets is reported, and ends the
    binding that waited for it, or puts off its bind: no other deadline would."""
    commands: list[Command] = []
    for deadline, handle in due:
        error = _carry_out(handle, drain, commands)
        if error is None:
            continue
        commands.append(_report(deadline, error))
        if isinstance(deadline, PermitDeadline | PreBindPoll | BindAgain):
            cancel = CancelBinding(deadline.uid, cause_of(error))
            error = _carry_out(partial(tuple, (cancel,)), drain, commands)
            commands += [_report(cancel, error)] if error is not None else []
    return commands


def _carry_out(handle: Handle, drain: Drain, commands: list[Command]) -> BaseException | None:
    """Add the commands of each step as soon as it is done; returns the error that ended it early."""
    try:
        for step in handle():
            commands += drain((step,))
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - our own fault: all other deadlines go on
        return error
    return None


def _report(what: Deadline | CancelBinding, error: BaseException) -> ReportProblem:
    return ReportProblem(f"{what} broke off: {type_and_message(error)}", error)
