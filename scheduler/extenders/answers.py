"""Decoding of extenders' answers: JSON of a peer that is not trusted, into values of the expected types.

Field names are matched in any case, as Go's decoder does. Types are checked as strictly: ``null`` is the zero value,
any other wrong type is an error. Only fields that are read are decoded: of whole nodes just their names, so that 45 MB
of nodes cost 0.5 s instead of 5 s.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeVar

import msgspec

from scheduler.errors import SchedulerError
from scheduler.objects.salvage import reason_of

MAX_TEXT_CHARACTERS: Final = 1024
"""Texts of extenders become messages of events, which the API server limits to 1,024 bytes; longer ones are cut."""

Answered = TypeVar("Answered")


class ExtenderError(SchedulerError):
    """An extender failed, or sent an invalid answer."""


class Metadata(msgspec.Struct, frozen=True):
    name: str | None = None


class NamedItem(msgspec.Struct, frozen=True):
    """An API object of which only the name is read."""

    metadata: Metadata | None = None


Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

TEXT: Final[msgspec.json.Decoder[str | None]] = msgspec.json.Decoder(str | None)
WHOLE: Final[msgspec.json.Decoder[int | None]] = msgspec.json.Decoder(Int64 | None)
NAMES: Final[msgspec.json.Decoder[list[str | None] | None]] = msgspec.json.Decoder(list[str | None] | None)
NODES: Final[msgspec.json.Decoder[list[NamedItem | None] | None]] = msgspec.json.Decoder(list[NamedItem | None] | None)
TEXTS: Final[msgspec.json.Decoder[dict[str, str | None] | None]] = msgspec.json.Decoder(dict[str, str | None] | None)
LIST: Final[msgspec.json.Decoder[list[msgspec.Raw] | None]] = msgspec.json.Decoder(list[msgspec.Raw] | None)
OBJECT: Final[msgspec.json.Decoder[dict[str, msgspec.Raw] | None]] = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)

_NULL: Final = msgspec.Raw(b"null")
_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")
"""What msgspec says where a value ends before its document; it counts from 1."""


class Fields:
    """The members of one JSON object, by their names in lower case. ``extender`` is named in every error."""

    __slots__ = ("_extender", "_values")

    def __init__(self, document: bytes | msgspec.Raw, extender: str) -> None:
        """Raises ExtenderError unless the document is an object, or null, which has no members: Go encodes an answer
        that is a nil pointer so."""
        members = decode(OBJECT, document, extender, "what is not a JSON object")
        self._extender = extender
        self._values = {name.lower(): value for name, value in (members or {}).items()}

    def of(self, name: str, decoder: msgspec.json.Decoder[Answered], fault: str) -> Answered:
        """The member's value; an absent member reads as null. Raises ExtenderError, with ``fault`` in its text."""
        return decode(decoder, self._values.get(name, _NULL), self._extender, f"{fault} as {name!r}")

    def object(self, name: str) -> Fields | None:
        """The member as an object; None if it is absent or null."""
        value = self._values.get(name, _NULL)
        return None if bytes(value) == b"null" else Fields(value, self._extender)

    def text(self, name: str) -> str:
        """The member as a text; empty if it is absent."""
        return shortened(self.of(name, TEXT, "what is not a text"))

    def whole(self, name: str) -> int:
        """The member as a whole number; 0 if it is absent."""
        return self.of(name, WHOLE, "what is not a whole number") or 0


def decode(
    decoder: msgspec.json.Decoder[Answered], document: bytes | msgspec.Raw, extender: str, fault: str
) -> Answered:
    """Decodes JSON. Raises ExtenderError for invalid JSON or UTF-8, wrong types, and too deep nesting."""
    try:
        return _first_value(decoder, document)
    except (ValueError, RecursionError, OverflowError, MemoryError) as error:
        # msgspec's errors and UnicodeDecodeError are ValueErrors.
        raise ExtenderError(f'extender "{extender}" answers {fault}: {shortened(reason_of(error))}') from error


def _first_value(decoder: msgspec.json.Decoder[Answered], document: bytes | msgspec.Raw) -> Answered:
    """The value that the document begins with; like kube-scheduler's decoder it does not look at what follows."""
    try:
        return decoder.decode(document)
    except msgspec.DecodeError as error:
        end = _TRAILING.search(str(error))
        if end is None:
            raise
        return decoder.decode(bytes(document)[: int(end[1]) - 1])


def shortened(text: str | None) -> str:
    """The text, cut to MAX_TEXT_CHARACTERS; "" for None."""
    return (text or "")[:MAX_TEXT_CHARACTERS]
