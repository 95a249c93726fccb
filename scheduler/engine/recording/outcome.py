"""What an input led to, in a form that two runs can be compared by: the commands, and each attempt's decision."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.commands import Command, RecordAttempt
from scheduler.framework.post_filter import NominationMode
from scheduler.messages.commands import ReportProblem

MAX_BYTES: Final = 4096
"""An outcome that takes more, such as a call of an extender with all nodes, is kept as a digest."""


class Decision(msgspec.Struct, frozen=True, array_like=True):
    """An attempt, without durations and evidence: what was decided."""

    pod: str
    uid: str
    number: int
    result: str
    node: str
    message: str
    nominated_node: str | None
    """None: the nomination stays as it is."""
    victims: tuple[str, ...]


Outcome = Sequence[Any] | str | None
"""The commands, with a Decision for each attempt; None where no pod was ready; the name of an error of the engine."""

_DECISION: Final = "Decision"
_DIGEST: Final = "sha256"


def decision_of(attempt: Attempt) -> Decision:
    """The decided part of an attempt: without durations and evidence."""
    is_kept = attempt.nomination_mode is NominationMode.KEEP
    return Decision(
        attempt.pod,
        attempt.uid,
        attempt.number,
        attempt.result,
        attempt.node,
        attempt.message,
        None if is_kept else attempt.nominated_node,
        attempt.victims,
    )


def outcome_of(commands: Sequence[Command] | None) -> list[Command | Decision] | None:
    """What an input led to, in a form that stays: an attempt is mutable, and its evidence is reduced later. Cheap."""
    if commands is None:
        return None
    return [decision_of(each.attempt) if type(each) is RecordAttempt else each for each in commands]


def encode_outcome(outcome: Outcome) -> bytes:
    """Comparable bytes: equal for equal commands, in any process."""
    if outcome is None or isinstance(outcome, str):
        return _ENCODER.encode(outcome)
    if not outcome:
        return _NOTHING
    data = _ENCODER.encode([_named(each) for each in outcome])
    if len(data) <= MAX_BYTES:
        return data
    names = [type(each).__name__ for each in outcome]
    return _ENCODER.encode([_DIGEST, hashlib.sha256(data).hexdigest(), names[:20]])


def plain_outcome(commands: Sequence[Command]) -> Any:
    """The whole of an outcome as plain values, however much it is."""
    return msgspec.msgpack.decode(_ENCODER.encode([_named(each) for each in outcome_of(commands) or ()]))


def _named(said: Any) -> tuple[str, Any]:
    """A problem's text is for people and may name addresses of memory."""
    return type(said).__name__, None if isinstance(said, ReportProblem) else said


def _plain(value: Any) -> Any:
    """A value for which msgpack has no form, as one for which it has."""
    if isinstance(value, PodInfo):
        return [value.key, value.uid, value.node_name]
    if isinstance(value, frozenset | set):
        return sorted(value)
    raise NotImplementedError(f"{type(value).__name__} has no form in a recording")


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_plain, order="deterministic")
_NOTHING: Final = msgspec.msgpack.encode([])


def is_digest(outcome: bytes) -> bool:
    """Whether an encoded outcome is only a digest of what was said."""
    found = msgspec.msgpack.decode(outcome)
    return isinstance(found, list) and found[:1] == [_DIGEST]


def shown(outcome: bytes) -> Any:
    """An encoded outcome as plain values, for people."""
    return msgspec.msgpack.decode(outcome)


def decisions_in(outcome: bytes) -> list[Decision]:
    """The attempts among what was said; none in a digest."""
    found = msgspec.msgpack.decode(outcome)
    if not isinstance(found, list):
        return []
    return [
        msgspec.convert(each[1], Decision)
        for each in found
        if isinstance(each, list) and len(each) == 2 and each[0] == _DECISION
    ]


def pod_in(outcome: bytes) -> str:
    """The pod that an outcome is about, "" for none."""
    for decision in decisions_in(outcome):
        return decision.pod
    found = msgspec.msgpack.decode(outcome)
    for each in found if isinstance(found, list) else ():
        pod = each[1].get("pod", each[1].get("regarding")) if isinstance(each, list) and _is_map(each) else None
        if isinstance(pod, dict) and pod.get("name"):
            return f"{pod.get('namespace', '')}/{pod['name']}"
    return ""


def _is_map(each: list[Any]) -> bool:
    return len(each) == 2 and isinstance(each[1], dict)
