"""An extender of a simulated cluster: how it answers, and how its answers fail."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec

from scheduler.messages.commands import CallExtender
from scheduler.messages.stimuli import ExtenderAnswered

Extender = Callable[[str, dict[str, Any]], Any]
"""``extender(verb, arguments)`` returns what is sent back as JSON; None refuses the connection."""

FAULTS: Final = ("no answer", "half", "not JSON", "another type", "an error of its own")


def no_extender(verb: str, arguments: dict[str, Any]) -> Any:
    """An extender that is down."""
    return None


def extender_answer(command: CallExtender, extender: Extender, fails: float, random: Random) -> ExtenderAnswered:
    """What the engine hears from the extender; with probability ``fails`` (0 to 1) one of ``FAULTS``."""
    answer = extender(command.verb, msgspec.json.decode(command.body))
    if answer is None:
        return ExtenderAnswered(command.ticket, error="connection refused")
    body = msgspec.json.encode(answer)
    if random.random() >= fails:
        return ExtenderAnswered(command.ticket, body)
    match random.choice(FAULTS):
        case "half":
            return ExtenderAnswered(command.ticket, body[: len(body) // 2])
        case "not JSON":
            return ExtenderAnswered(command.ticket, b"<html>\xff</html>")
        case "another type":
            return ExtenderAnswered(command.ticket, b'{"nodenames": {"a": 1}}')
        case "an error of its own":
            return ExtenderAnswered(command.ticket, b'{"error": "busy"}')
    return ExtenderAnswered(command.ticket, error="no answer within 5 s")
