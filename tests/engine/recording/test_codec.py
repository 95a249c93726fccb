"""Every type of stimulus can be recorded, and is read as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from random import Random
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

from scheduler.engine.recording.codec import (
    UnreadableInput,
    _Form,
    decode_stimulus,
    encode_stimulus,
    stimulus_types,
)
from scheduler.engine.recording.door import Beginning, Entry, FreshStart, NextPod
from scheduler.engine.recording.entries import (
    MAX_WALL,
    decode_beginning,
    decode_entry,
    encode_beginning,
    encode_entry,
    encode_recorded,
)
from scheduler.engine.recording.replay import RecordedInput
from scheduler.messages import stimuli
from scheduler.messages.now import Now
from scheduler.objects.kinds import READ_KINDS, Kind
from scheduler.objects.meta import ApiObject, ObjectMeta
from scheduler.objects.pod import Pod

NOW = Now(0.0, 0)
A_POD = Pod(metadata=ObjectMeta(name="p", namespace="n", uid="u", labels={"a": "b"}, annotations={"c": "d"}))


def sample_of(hint: Any) -> Any:
    """A value of the type that differs from every default."""
    if get_origin(hint) is None and isinstance(hint, type):
        if hint is ApiObject or hint is Pod:
            return A_POD
        if issubclass(hint, ApiObject):
            return hint(metadata=ObjectMeta(name="x", uid="u"))
        if issubclass(hint, Enum):
            return list(hint)[-1]
        if issubclass(hint, msgspec.Struct):
            hints = get_type_hints(hint)
            return hint(**{name: sample_of(hints[name]) for name in hint.__struct_fields__})
        return {int: 7, float: 1.5, str: "text", bytes: b"bytes", bool: True}[hint]
    arguments = get_args(hint)
    if get_origin(hint) in (tuple, list, Sequence):
        made = [sample_of(arguments[0])]
        return tuple(made) if get_origin(hint) is tuple else made
    if get_origin(hint) in (dict, Mapping):
        return {sample_of(arguments[0]): sample_of(arguments[1])}
    return sample_of(next(each for each in arguments if each is not NoneType))


@pytest.mark.parametrize("type_", stimulus_types(), ids=lambda type_: type_.__name__)
def test_every_stimulus_is_read_as_it_was_written(type_: type[Any]) -> None:
    """A new type of stimulus that can't be recorded fails here, or when the codec is imported."""
    hints = get_type_hints(type_, vars(stimuli))
    stimulus = type_(**{name: sample_of(hints[name]) for name in type_.__struct_fields__})
    assert decode_stimulus(encode_stimulus(stimulus)) == stimulus


@pytest.mark.parametrize("kind", READ_KINDS)
def test_an_object_is_read_as_one_of_its_own_kind(kind: Kind) -> None:
    stimulus = stimuli.ObjectDeleted(kind, kind.entry.type(metadata=ObjectMeta(name="x")), is_stale=True)
    read = decode_stimulus(encode_stimulus(stimulus))
    assert isinstance(read, stimuli.ObjectDeleted)
    assert type(read.object) is kind.entry.type
    assert read == stimulus


def test_a_field_whose_kinds_would_be_lost_is_refused_when_the_program_starts() -> None:
    class Wrong(msgspec.Struct):
        objects: tuple[ApiObject, ...]

    Wrong.__annotations__ = {"objects": tuple[ApiObject, ...]}
    with pytest.raises(TypeError, match=r"Wrong\.objects"):
        _Form(Wrong)


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", msgspec.msgpack.encode(("Unknown", [])), msgspec.msgpack.encode(("Tick", [1]))],
    ids=["empty", "no msgpack", "an unknown type", "a field too many"],
)
def test_what_is_no_stimulus_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableInput):
        decode_stimulus(data)


def test_a_stimulus_nested_too_deep_is_refused() -> None:
    with pytest.raises(UnreadableInput):
        decode_stimulus(b"\x92\xa4Tick\x91" + b"\x91" * 100_000 + b"\xc0")


LATE = Now(0.0, 10**18 * 10)
CHANCE = Random(1).getstate()


@pytest.mark.parametrize(
    "beginning",
    [
        Beginning(LATE, 0, (), FreshStart(NOW, CHANCE)),
        Beginning(NOW, 0, (), FreshStart(NOW, ())),
        Beginning(NOW, 0, (), FreshStart(NOW, (3, (1, 2), None))),
        Beginning(NOW, 0, (), FreshStart(NOW, (3, (-1,) * 625, None))),
    ],
    ids=["time", "no chance", "short", "negative"],
)
def test_a_beginning_that_nothing_can_begin_with_is_refused(beginning: Beginning) -> None:
    head, state = encode_beginning(beginning)
    with pytest.raises(UnreadableInput, match="the head can't be read"):
        decode_beginning(head, state)


def test_an_input_of_a_time_that_can_not_be_shown_is_refused() -> None:
    data = encode_entry(Entry(NextPod(), Now(0.0, MAX_WALL + 1), []))
    with pytest.raises(UnreadableInput, match="input 1 can't be read"):
        decode_entry(data, 1)


@pytest.mark.parametrize(
    "outcome",
    [b"", b"\xa1\xff", msgspec.msgpack.encode([("Decision", ["a pod", "and no more"])])],
    ids=["empty", "no Unicode", "half a decision"],
)
def test_an_input_whose_outcome_can_not_be_read_is_refused(outcome: bytes) -> None:
    data = encode_recorded(RecordedInput(1, NextPod(), NOW, b""), outcome)
    with pytest.raises(UnreadableInput, match="input 1 can't be read"):
        decode_entry(data, 1)
