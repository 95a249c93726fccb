"""A tolerant parser for JSON that the typed decoders refuse: identifies the object, and the other items of a list.

This is the slow path (some 30 ms per megabyte), for input that no API server should send: text that is not UTF-8,
numbers without a value, or nesting too deep for a recursive decoder.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

MAX_DEPTH: Final = 200
"""Nesting of arrays and objects. Objects of Kubernetes need about 30; decoders fail at about 1,000."""

TOO_DEEP: Final = f"nested more than {MAX_DEPTH} deep"
"""Replaces, as a JSON string, what is nested deeper."""

DECODER_ERRORS: Final = (
    msgspec.MsgspecError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, AssertionError,
    RuntimeError, SystemError,
)  # fmt: skip
"""The errors that a decoder may raise for bad input, including RecursionError and UnicodeDecodeError."""

_MAX_DIGITS: Final = 400


class Identity(msgspec.Struct, frozen=True):
    """The identity of a document's object; each field is "" if missing."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> str:
        """The object's key, as `ApiObject.key`."""
        return f"{self.namespace}/{self.name}" if self.namespace and self.name else self.name


def salvage(data: bytes) -> Any:
    """The JSON document as plain values. Bytes that are not UTF-8 become U+FFFD, and `TOO_DEEP` replaces what is nested
    too deep. Raises ValueError if it still is no JSON."""
    try:
        return json.loads(_pruned(data).decode("utf-8", "replace"), strict=False, parse_int=_integer)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deep") from error


def identity_of(document: Any) -> Identity:
    """The identity in a document that `salvage` has read."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict):
        return Identity()
    fields = ("name", "namespace", "uid", "resourceVersion")
    texts = (metadata.get(field) for field in fields)
    # Half of a surrogate pair is legal in JSON, but can't be encoded for the log.
    return Identity(*(text.encode("utf-8", "replace").decode() if isinstance(text, str) else "" for text in texts))


def identity_in(data: bytes | str | msgspec.Raw) -> Identity:
    """As `identity_of`, from JSON; an empty identity if that can't be read at all."""
    try:
        return identity_of(salvage(data.encode() if isinstance(data, str) else bytes(data)))
    except ValueError:
        return Identity()


def reason_of(error: Exception) -> str:
    """A decoder's exception as a text for users."""
    if isinstance(error, RecursionError):
        return "the JSON is nested too deep"
    return str(error) or type(error).__name__


def _integer(digits: str) -> int | float:
    # Python refuses to parse integers of thousands of digits; no field takes one of hundreds.
    return int(digits) if len(digits) < _MAX_DIGITS else float("inf")


def _pruned(data: bytes) -> bytes:
    """The same JSON with a string in place of each array and object that is nested deeper than `MAX_DEPTH`.

    Vectorised: a Python loop over the brackets of a megabyte would block the event loop for a second.
    """
    # Imported here: commands that ask a scheduler decode objects, too, and a third of their start would be numpy's.
    import numpy as np

    # Escapes are blanked out in pairs, from the left as a parser reads them: each remaining quote delimits a string.
    plain = np.frombuffer(data.replace(rb"\\", b"__").replace(rb"\"", b"__"), np.uint8)
    is_inside = np.bitwise_xor.accumulate(plain == ord('"'))
    # "[" and "{" differ from each other, and "]" and "}", in one bit only.
    folded = plain | 0x20
    steps = (folded == ord("{")).astype(np.int32) - (folded == ord("}"))
    steps[is_inside] = 0
    places = np.flatnonzero(steps)
    depths = np.cumsum(steps[places])
    opens = places[(steps[places] > 0) & (depths == MAX_DEPTH + 1)]
    closes = places[(steps[places] < 0) & (depths == MAX_DEPTH)]
    pieces: list[bytes] = []
    end = 0
    for begin, last in zip(opens.tolist(), closes.tolist(), strict=False):
        pieces += [data[end:begin], json.dumps(TOO_DEEP).encode()]
        end = last + 1
    return b"".join([*pieces, data[end:]]) if pieces else data
