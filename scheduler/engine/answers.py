"""Finds the machine that waits for an answer, by the owner of the answer's ticket."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scheduler.engine.deadlines import Deadlines, ExtenderDeadline
from scheduler.engine.internal import Step
from scheduler.engine.tickets import Tickets
from scheduler.messages.now import Now
from scheduler.messages.stimuli import ExtenderAnswered, PluginFinished, WriteFinished

Answer = WriteFinished | PluginFinished | ExtenderAnswered
AnswerHandlers = Mapping[tuple[type, type], Callable[[Any, Any, Now], Sequence[Step]]]
"""Handlers by the types of the answer and of its owner, called with both."""


class Answers:
    """Passes each answer to the machine that waits for it; one that no machine waits for any more is dropped."""

    def __init__(self, tickets: Tickets, deadlines: Deadlines, handlers: AnswerHandlers) -> None:
        self._tickets = tickets
        self._deadlines = deadlines
        self._handlers = handlers

    def take(self, answer: Answer, now: Now) -> Sequence[Step]:
        owner = self._tickets.take(answer.ticket)
        handler = self._handlers.get((type(answer), type(owner)))
        return () if handler is None else handler(owner, answer, now)

    def of_extender(self, answer: ExtenderAnswered, now: Now) -> Sequence[Step]:
        self._deadlines.drop(ExtenderDeadline(answer.ticket))
        return self.take(answer, now)

    def extender_overdue(self, deadline: ExtenderDeadline, now: Now) -> Sequence[Step]:
        return self.take(ExtenderAnswered(deadline.ticket, error="no answer in time"), now)
