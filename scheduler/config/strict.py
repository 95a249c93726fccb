"""Strict decoding of plain values into Structs: unknown fields, wrong types, bad values, all found with their paths.

msgspec's own ``convert`` stops at the first error; a configuration's author wants to see all of them.
"""

from __future__ import annotations

import base64
import binascii
import enum
from collections.abc import Hashable, Mapping
from functools import cache
from itertools import zip_longest
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import inspect

from scheduler.config.documents import kind_of
from scheduler.config.durations import Duration, parse_duration
from scheduler.config.field_faults import child, invalid, not_supported, required
from scheduler.config.suggestions import did_you_mean
from scheduler.errors import Fault

T = TypeVar("T")


class DurationOrZero(Duration):
    """A duration whose zero may be written as a bare ``0``."""

    __slots__ = ()


class _Nothing(enum.Enum):
    """Stands for a value that could not be decoded."""

    NOTHING = enum.auto()


_NOTHING: Final = _Nothing.NOTHING


class Decoded(msgspec.Struct, frozen=True):
    """The result of decoding.

    ``value`` is None if nothing could be made of it; a faulty field that has a default shows its default, so that the
    rest can still be checked. ``unknown`` holds the paths of unknown fields, ``faults`` everything else.
    """

    value: Any
    faults: tuple[Fault, ...]
    unknown: tuple[str, ...]
    meant: tuple[str, ...] = ()
    """Of each unknown field, what it was probably meant to be; see ``did_you_mean``."""


_type_info: Final = cache(inspect.type_info)
"""Takes 1 ms: three quarters of making a profile, where each plugin's arguments are decoded."""


def decode_strictly(value: object, expected: type[T], path: str = "") -> Decoded:
    """Decode plain values (dicts, lists, text, numbers) as ``expected``, a Struct or any type msgspec can describe.

    Null counts as absent. An integer must be an integer, a duration Go's text; bytes are base64 text.
    """
    walk = _Walk()
    decoded = walk.value(value, _type_info(cast(Hashable, expected)), path)
    return Decoded(None if decoded is _NOTHING else decoded, tuple(walk.faults), tuple(walk.unknown), tuple(walk.meant))


def strict_decoding_error(
    unknown: tuple[str, ...], duplicates: tuple[str, ...] = (), meant: tuple[str, ...] = ()
) -> str:
    """kube-scheduler's text for unknown and duplicate fields: ``strict decoding error: unknown field "a"``, with what
    the unknown ones were meant to be."""
    texts = [f'duplicate field "{path}"' for path in duplicates]
    texts += [f'unknown field "{path}"{word}' for path, word in zip_longest(unknown, meant, fillvalue="")]
    return f"strict decoding error: {', '.join(texts)}"


class _Walk:
    """One walk over a value and its type, collecting faults."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.unknown: list[str] = []
        self.meant: list[str] = []

    def value(self, value: object, expected: inspect.Type, path: str) -> Any:
        """The decoded value, or NOTHING after a fault was noted."""
        match expected:
            case inspect.Metadata():
                return self.value(value, expected.type, path)
            case inspect.StructType():
                return self._struct(value, expected, path)
            case inspect.UnionType():
                return self._union(value, expected, path)
            case inspect.VarTupleType() | inspect.ListType() | inspect.SetType() | inspect.FrozenSetType():
                return self._collection(value, expected, path)
            case inspect.DictType():
                return self._mapping(value, expected, path)
            case inspect.AnyType():
                return value
            case _:
                return self._scalar(value, expected, path)

    def _struct(self, value: object, expected: inspect.StructType, path: str) -> Any:
        if value is None:
            value = {}
        if not isinstance(value, Mapping):
            return self._wrong(path, value, "a mapping")
        known = {field.encode_name: field for field in expected.fields}
        members: dict[str, Any] = {}
        whole = True
        for key, member in value.items():
            field = known.get(key)
            if field is None:
                self.unknown.append(child(path, key))
                self.meant.append(did_you_mean(key, known))
            elif member is not None:
                decoded = self.value(member, field.type, child(path, key))
                if decoded is not _NOTHING:
                    members[field.name] = decoded
                elif field.required:
                    whole = False
        for field in expected.fields:
            if field.required and value.get(field.encode_name) is None:
                self.faults.append(required(child(path, field.encode_name)))
                whole = False
        if not whole:
            return _NOTHING
        try:
            return expected.cls(**members)
        except ValueError as error:
            # A Struct may check itself in __post_init__; plugin authors do.
            self.faults.append(Fault(path, str(error)))
            return _NOTHING

    def _union(self, value: object, expected: inspect.UnionType, path: str) -> Any:
        choices = [choice for choice in expected.types if not isinstance(choice, inspect.NoneType)]
        if value is None and len(choices) < len(expected.types):
            return None
        if len(choices) == 1:
            return self.value(value, choices[0], path)
        for choice in choices:
            attempt = _Walk()
            decoded = attempt.value(value, choice, path)
            if not attempt.faults and not attempt.unknown:
                return decoded
        return self._wrong(path, value, "another type")

    def _collection(
        self,
        value: object,
        expected: inspect.VarTupleType | inspect.ListType | inspect.SetType | inspect.FrozenSetType,
        path: str,
    ) -> Any:
        if not isinstance(value, list | tuple):
            return self._wrong(path, value, "a list")
        items: list[Any] = []
        for index, item in enumerate(value):
            place = f"{path}[{index}]"
            decoded = self.value(item, expected.item_type, place)
            # A stand-in keeps the places of the items after it.
            items.append(_blank(expected.item_type) if decoded is _NOTHING else decoded)
        if any(item is _NOTHING for item in items):
            return _NOTHING
        match expected:
            case inspect.VarTupleType():
                return tuple(items)
            case inspect.SetType():
                return set(items)
            case inspect.FrozenSetType():
                return frozenset(items)
            case _:
                return items

    def _mapping(self, value: object, expected: inspect.DictType, path: str) -> Any:
        if not isinstance(value, Mapping):
            return self._wrong(path, value, "a mapping")
        members: dict[Any, Any] = {}
        for key, member in value.items():
            decoded = self.value(member, expected.value_type, child(path, str(key)))
            if decoded is not _NOTHING:
                members[key] = decoded
        return members

    def _scalar(self, value: object, expected: inspect.Type, path: str) -> Any:
        match expected:
            case inspect.BoolType():
                return value if isinstance(value, bool) else self._wrong(path, value, "a boolean")
            case inspect.StrType():
                return value if isinstance(value, str) else self._wrong(path, value, "a string")
            case inspect.IntType():
                return self._integer(value, expected, path)
            case inspect.FloatType():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    return float(value)
                return self._wrong(path, value, "a number")
            case inspect.BytesType():
                return self._bytes(value, path)
            case inspect.LiteralType():
                return self._choice(value, expected, path)
            case inspect.EnumType():
                return self._enumerated(value, expected.cls, path)
            case inspect.CustomType() if issubclass(expected.cls, Duration):
                return self._duration(value, expected.cls, path)
            case inspect.CustomType() if expected.cls is object:
                return value
            case _:
                return self._by_msgspec(value, expected, path)

    def _integer(self, value: object, expected: inspect.IntType, path: str) -> Any:
        if not isinstance(value, int) or isinstance(value, bool):
            return self._wrong(path, value, "an integer")
        low = -(2**63) if expected.ge is None else expected.ge
        high = 2**63 - 1 if expected.le is None else expected.le
        if not low <= value <= high:
            self.faults.append(invalid(path, value, f"must be between {low} and {high}"))
            return _NOTHING
        return value

    def _duration(self, value: object, duration: type[Duration], path: str) -> Any:
        if issubclass(duration, DurationOrZero) and value == 0 and isinstance(value, int) and value is not False:
            return duration(0)
        if not isinstance(value, str):
            return self._wrong(path, value, 'a duration such as "1m30s"')
        try:
            return duration(parse_duration(value))
        except ValueError as error:
            self.faults.append(invalid(path, value, str(error)))
            return _NOTHING

    def _bytes(self, value: object, path: str) -> Any:
        if not isinstance(value, str):
            return self._wrong(path, value, "base64 text")
        try:
            return base64.b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError):
            # The value may be a private key: it is not repeated.
            self.faults.append(Fault(path, "Invalid value: not valid base64"))
            return _NOTHING

    def _choice(self, value: object, expected: inspect.LiteralType, path: str) -> Any:
        if value in expected.values and not isinstance(value, bool):
            return value
        self.faults.append(not_supported(path, value, [str(choice) for choice in expected.values]))
        return _NOTHING

    def _enumerated(self, value: object, choices: type[enum.Enum], path: str) -> Any:
        for choice in choices:
            if choice.value == value:
                return choice
        self.faults.append(not_supported(path, value, [str(choice.value) for choice in choices]))
        return _NOTHING

    def _by_msgspec(self, value: object, expected: inspect.Type, path: str) -> Any:
        cls = getattr(expected, "cls", None)
        if cls is None:
            return self._wrong(path, value, "another type")
        try:
            return msgspec.convert(value, cls, strict=True)
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            self.faults.append(invalid(path, value, str(error)))
            return _NOTHING

    def _wrong(self, path: str, value: object, wanted: str) -> _Nothing:
        self.faults.append(invalid(path, value, f"expected {wanted}, got {kind_of(value)}"))
        return _NOTHING


def _blank(expected: inspect.Type) -> Any:
    """A stand-in for an item that could not be decoded: the Struct of all defaults, or empty text, or NOTHING."""
    if isinstance(expected, inspect.StructType) and not any(field.required for field in expected.fields):
        return expected.cls()
    return "" if isinstance(expected, inspect.StrType) else _NOTHING
