"""Reads the reviews of ``kubectl auth``, which are sent as protobuf and not repeated as JSON after a 415.

The wire format is read by tables of field numbers; of the fields, all texts and messages of these kinds are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from scheduler.simulate.apiserver import failures
from scheduler.simulate.apiserver.kinds import SELF_ACCESS_REVIEWS, SELF_REVIEWS, SELF_RULES_REVIEWS, Kind

Object = dict[str, Any]
Message = dict[int, "str | tuple[str, Message]"]
"""Field number → the name of a text, or the name and the fields of a message."""

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_RAW: Final = 2
"""The field of the envelope that holds the object."""
_VARINT: Final = 0
_DELIMITED: Final = 2
_FIXED_BYTES: Final = {1: 8, 5: 4}

_RESOURCE: Final[Message] = {
    1: "namespace", 2: "verb", 3: "group", 4: "version", 5: "resource", 6: "subresource", 7: "name",
}  # fmt: skip
_MESSAGES: Final[dict[Kind, Message]] = {
    SELF_ACCESS_REVIEWS: {
        2: ("spec", {1: ("resourceAttributes", _RESOURCE), 2: ("nonResourceAttributes", {1: "path", 2: "verb"})})
    },
    SELF_RULES_REVIEWS: {2: ("spec", {1: "namespace"})},
    SELF_REVIEWS: {},
}
READABLE: Final = frozenset(_MESSAGES)


def decode(kind: Kind, body: bytes) -> Object:
    """The object in the body; raises 400 if it is not in protobuf's format."""
    if not body.startswith(_MAGIC):
        raise _malformed(kind)
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        return _object(_MESSAGES[kind], envelope.get(_RAW, b""))
    except (IndexError, UnicodeDecodeError) as error:
        raise _malformed(kind) from error


def _malformed(kind: Kind) -> failures.Failure:
    return failures.bad_request(f"the body is not a {kind.kind} in protobuf's format")


def _object(message: Message, raw: bytes) -> Object:
    found: Object = {}
    for number, content in _fields(raw):
        match message.get(number):
            case str() as name:
                found[name] = content.decode()
            case (name, inner):
                found[name] = _object(inner, content)
    return found


def _fields(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of texts and messages, by number; numbers are skipped. Raises IndexError if the body is cut off."""
    place = 0
    while place < len(raw):
        tag, place = _varint(raw, place)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            _, place = _varint(raw, place)
        elif wire_type == _DELIMITED:
            length, place = _varint(raw, place)
            if place + length > len(raw):
                raise IndexError(number)
            yield number, raw[place : place + length]
            place += length
        elif wire_type in _FIXED_BYTES:
            place += _FIXED_BYTES[wire_type]
        else:
            raise IndexError(wire_type)


def _varint(raw: bytes, place: int) -> tuple[int, int]:
    """The number at this place, and the place after it."""
    value = shift = 0
    while True:
        byte = raw[place]
        place += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, place
