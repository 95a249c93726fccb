"""Entries and beginnings of a recording as bytes."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from scheduler.engine.recording.codec import UnreadableInput, decode_stimulus, encode_stimulus
from scheduler.engine.recording.door import (
    Beginning,
    Checkpoint,
    Entry,
    FreshStart,
    Input,
    NewConfiguration,
    NextPod,
    StatedConfiguration,
)
from scheduler.engine.recording.outcome import encode_outcome, pod_in
from scheduler.engine.recording.replay import RecordedInput, source_of_chance
from scheduler.messages.now import Now
from scheduler.objects.salvage import DECODER_ERRORS

STIMULUS, NEXT_POD, CONFIGURATION = 0, 1, 2


MAX_WALL: Final = 2**63 - 1
"""Nanoseconds since 1970: a moment of the year 2262."""
_Wall = Annotated[int, msgspec.Meta(ge=0, le=MAX_WALL)]


class _Line(msgspec.Struct, frozen=True, array_like=True):
    code: int
    monotonic: float
    wall: _Wall
    payload: bytes
    outcome: bytes


class _Head(msgspec.Struct, frozen=True):
    at: Now
    number: int
    configurations: tuple[StatedConfiguration, ...]
    start: FreshStart | None
    has_state: bool


_encode: Final = msgspec.msgpack.Encoder().encode
_LINE: Final = msgspec.msgpack.Decoder(_Line)
_HEAD: Final = msgspec.msgpack.Decoder(_Head)
_CONFIGURATION: Final = msgspec.msgpack.Decoder(StatedConfiguration)


def encode_entry(entry: Entry) -> bytes:
    """An input with its time and outcome as bytes; ``decode_entry`` reads them."""
    return _encoded(entry.input, entry.now, encode_outcome(entry.outcome))


def encode_recorded(recorded: RecordedInput, outcome: bytes) -> bytes:
    """An input that was read from a recording, with another outcome."""
    return _encoded(recorded.input, recorded.now, outcome)


def _encoded(input_: Input, now: Now, outcome: bytes) -> bytes:
    if isinstance(input_, NextPod):
        code, payload = NEXT_POD, b""
    elif isinstance(input_, NewConfiguration):
        code, payload = CONFIGURATION, _encode(input_.stated)
    else:
        code, payload = STIMULUS, encode_stimulus(input_)
    return _encode((code, now.monotonic, now.wall, payload, outcome))


def decode_entry(data: bytes, number: int) -> RecordedInput:
    """The recorded input that these bytes stand for. ``number``: its place since the start, from 1. Raises
    UnreadableInput."""
    try:
        line = _LINE.decode(data)
        pod_in(line.outcome)
        return RecordedInput(number, _input_of(line), Now(line.monotonic, line.wall), line.outcome)
    except DECODER_ERRORS as error:
        raise UnreadableInput(f"input {number} can't be read: {error}") from error


def _input_of(line: _Line) -> Input:
    if line.code == NEXT_POD:
        return NextPod()
    if line.code == CONFIGURATION:
        return NewConfiguration(_CONFIGURATION.decode(line.payload))
    return decode_stimulus(line.payload)


def encode_beginning(beginning: Beginning) -> tuple[bytes, bytes]:
    """The head, and the state of a checkpoint (b"" for a fresh start)."""
    base = beginning.base
    start = base if isinstance(base, FreshStart) else None
    head = _Head(beginning.at, beginning.number, beginning.configurations, start, start is None)
    return _encode(head), bytes(base.state) if isinstance(base, Checkpoint) else b""


def decode_beginning(head: bytes, state: bytes) -> Beginning:
    """The beginning that ``encode_beginning`` has written. Raises UnreadableInput."""
    try:
        found = _HEAD.decode(head)
        if not 0 <= found.at.wall <= MAX_WALL:
            raise UnreadableInput(f"the head can't be read: its time {found.at.wall} is none")
        if found.start is not None:
            source_of_chance(found.start)
    except (*DECODER_ERRORS, ValueError) as error:
        raise UnreadableInput(f"the head can't be read: {error}") from error
    base = found.start if found.start is not None else Checkpoint(state)
    return Beginning(found.at, found.number, found.configurations, base)
