"""Objects in Kubernetes' binary form: sent back as they came, but for a field that is added.

A driver's parameters in a claim (``opaque``) are stored byte by byte as their author wrote them. Within JSON the API
server formats them again, and then takes a patch of anything else in the object for a change of what is immutable:
parameters with blanks between them, as Python's json writes them, suffice. Only in this form they stay as they are.

Nothing is decoded but the envelope and the object's identity. Fields are appended: a reader of protobuf merges a
message that comes twice, and repeated fields follow one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from scheduler.errors import SchedulerError

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

_MAGIC: Final = b"k8s\x00"
_RAW: Final = 2
"""The object within the envelope."""
_METADATA, _UID, _RESOURCE_VERSION = 1, 5, 6
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}


class NotBinary(SchedulerError):
    """The bytes are no object in binary form."""


class Identity(NamedTuple):
    uid: str
    resource_version: str


def identity_of(document: bytes) -> Identity:
    """The UID and the resource version of the object in these bytes. Raises NotBinary."""
    metadata = b"".join(value for number, value in _fields(_object_in(document)) if number == _METADATA)
    texts = {number: value.decode(errors="replace") for number, value in _fields(metadata)}
    return Identity(texts.get(_UID, ""), texts.get(_RESOURCE_VERSION, ""))


def with_added(document: bytes, addition: bytes) -> bytes:
    """The object with the fields of ``addition`` behind its own. Raises NotBinary."""
    envelope = [
        field(number, value + addition if number == _RAW else value)
        for number, value in _fields(document[len(_MAGIC) :])
    ]
    return _MAGIC + b"".join(envelope)


def field(number: int, value: bytes | str) -> bytes:
    """A field of a message: text, bytes or another message."""
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def integer(number: int, value: int) -> bytes:
    """A field with an integer of 0 or more."""
    return _varint(number << 3 | _VARINT) + _varint(value)


def _object_in(document: bytes) -> bytes:
    if not document.startswith(_MAGIC):
        raise NotBinary("the answer is not in Kubernetes' binary form")
    return b"".join(value for number, value in _fields(document[len(_MAGIC) :]) if number == _RAW)


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of the fields that are text, bytes or messages, in their order; others are passed over."""
    place = 0
    while place < len(message):
        key, place = _read_varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            _, place = _read_varint(message, place)
            continue
        if kind == _BYTES:
            size, place = _read_varint(message, place)
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise NotBinary(f"a field of the unknown wire type {kind}")
        if place + size > len(message):
            raise NotBinary("a field ends behind its message")
        if kind == _BYTES:
            yield number, message[place : place + size]
        place += size


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            break
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise NotBinary("a number does not end")
