"""Faults injected into a simulated cluster: delays, refusals, lost answers."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from scheduler.messages.stimuli import WriteFinished
from scheduler.simulate.world_facts import Refused

Range = tuple[float, float]


class Trouble(Struct, frozen=True):
    """Delays in seconds, drawn between two bounds, and how often a write goes wrong (0 to 1)."""

    write_seconds: Range = (0.002, 0.05)
    watch_seconds: Range = (0.001, 0.05)
    start_seconds: Range = (0.1, 2.0)
    """Seconds from the binding until the kubelet says Running."""
    stop_seconds: Range = (0.05, 3.0)
    """Seconds from the deletion of a bound pod until it is gone."""
    refused: float = 0.0
    """Answered with a conflict or a server error; nothing is done."""
    unanswered: float = 0.0
    """No answer: such a write is never done, or done all the same; a bind may also be done after its time-out has been
    reported."""
    timeout_seconds: float = 5.0
    """Seconds after which an unanswered write is reported."""
    late_seconds: Range = (0.0, 20.0)
    """From the report of an unanswered bind until the API server commits it after all."""
    provision_seconds: Range = (0.01, 1.0)
    """From a change of a claim or a volume until the volume controller has looked at it."""
    extender_fails: float = 0.0
    """An extender has no answer, a wrong one, or half of one."""


CALM = Trouble()
ROUGH = Trouble(refused=0.05, unanswered=0.05, extender_fails=0.1)


class WriteFate(Enum):
    """What becomes of a write."""

    ANSWERED = "answered"
    REFUSED = "refused"
    LOST = "lost"
    """It never arrives, and there is no answer."""
    UNHEARD = "unheard"
    """It is done, and there is no answer."""
    LATE = "late"
    """There is no answer, and it is done after the time-out."""


NO_ANSWER = Refused(0, "", "no answer from the API server")
REFUSALS = (
    Refused(409, "Conflict", "the object has been modified; please apply your changes to the latest version"),
    Refused(500, "InternalError", "etcdserver: request timed out"),
)


def outcome_of(ticket: int, refused: Refused | None) -> WriteFinished:
    if refused is None:
        return WriteFinished(ticket, True, 200)
    return WriteFinished(ticket, False, refused.status, refused.reason, refused.message)
