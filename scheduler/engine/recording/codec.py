"""Stimuli as bytes and back: one codec, made from the types' own declarations.

A new type of stimulus is recorded without code here; ``tests/engine/recording/test_codec.py`` fails for one whose
fields can't be. A field that holds an object of any kind is written with its kind beside it.

Objects are written as the engine was given them, decoded: with the fields that decisions read and no others, so that
no environment variable or argument of a container gets into a recording.
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec

from scheduler.errors import SchedulerError
from scheduler.messages import stimuli
from scheduler.messages.stimuli import Stimulus
from scheduler.objects.kinds import Kind, PerKind, kind_of
from scheduler.objects.meta import ApiObject
from scheduler.objects.salvage import DECODER_ERRORS


class UnreadableInput(SchedulerError):
    """Bytes that are no stimulus of this version; the text says what is wrong."""


class _Form:
    """How one type of stimulus is written: each field in order, an object of any kind with its kind before it."""

    __slots__ = ("_decoders", "_fields", "_objects", "_type")

    def __init__(self, type_: type[Any]) -> None:
        self._type = type_
        hints = get_type_hints(type_, vars(stimuli))
        self._fields = type_.__struct_fields__
        self._objects = tuple([_is_object_of_any_kind(hints[name], type_, name) for name in self._fields])
        self._decoders: list[Callable[[Any], Any]] = [
            msgspec.msgpack.Decoder(hints[name]).decode if not is_object else _object_in
            for name, is_object in zip(self._fields, self._objects, strict=True)
        ]

    def values(self, stimulus: Any) -> list[Any]:
        found = [getattr(stimulus, name) for name in self._fields]
        for place, is_object in enumerate(self._objects):
            if is_object and found[place] is not None:
                found[place] = (kind_of(found[place]), found[place])
        return found

    def read(self, values: list[msgspec.Raw]) -> Any:
        """Fields that a newer version has added at the end get their defaults. Raises msgspec.MsgspecError."""
        if len(values) > len(self._fields):
            raise msgspec.DecodeError(f"{self._type.__name__} has {len(values)} fields here")
        names = self._fields[: len(values)]
        return self._type(
            **{name: decode(raw) for name, decode, raw in zip(names, self._decoders, values, strict=False)}
        )


def _is_object_of_any_kind(hint: Any, owner: type, name: str) -> bool:
    """Raises TypeError for a field that holds objects of any kind in some other way: their kinds would be lost."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if ApiObject in members:
        if set(members) - {ApiObject, NoneType}:
            raise TypeError(f"{owner.__name__}.{name}: an object of any kind, or nothing, is all that can be recorded")
        return True
    if any(_mentions_any_object(member) for member in members):
        raise TypeError(f"{owner.__name__}.{name}: a collection of objects of any kind can't be recorded")
    return False


def _mentions_any_object(hint: Any) -> bool:
    return hint is ApiObject or any(_mentions_any_object(part) for part in get_args(hint))


_OBJECT: Final = msgspec.msgpack.Decoder(tuple[Kind, msgspec.Raw] | None)
_OF_KIND: Final = PerKind[msgspec.msgpack.Decoder[Any]](lambda kind: msgspec.msgpack.Decoder(kind.entry.type))


def _object_in(raw: msgspec.Raw) -> ApiObject | None:
    found = _OBJECT.decode(raw)
    return None if found is None else _OF_KIND[found[0]].decode(found[1])


def stimulus_types() -> tuple[type[Any], ...]:
    """All types of stimuli."""
    return get_args(Stimulus)


_FORMS: Final = {type_.__name__: _Form(type_) for type_ in stimulus_types()}
_ENVELOPE: Final = msgspec.msgpack.Decoder(tuple[str, list[msgspec.Raw]])
_encode: Final = msgspec.msgpack.Encoder().encode


def encode_stimulus(stimulus: Stimulus) -> bytes:
    """The stimulus as bytes; ``decode_stimulus`` reads them."""
    name = type(stimulus).__name__
    return _encode((name, _FORMS[name].values(stimulus)))


def decode_stimulus(data: bytes | msgspec.Raw) -> Stimulus:
    """The stimulus that these bytes stand for. Raises UnreadableInput."""
    try:
        name, values = _ENVELOPE.decode(data)
        form = _FORMS.get(name)
        if form is None:
            raise UnreadableInput(f"this version knows no stimulus {name}")
        stimulus: Stimulus = form.read(values)
        return stimulus
    except DECODER_ERRORS as error:
        raise UnreadableInput(f"a stimulus can't be read: {error}") from error
