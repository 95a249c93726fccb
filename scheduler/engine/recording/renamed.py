"""The texts in a checkpoint, which is a pickle: read, and replaced.

API objects are given other names as the checkpoint is made (``checkpoint.pack``). All else that an engine keeps as text
(keys of maps, messages, stories of pods, templates as JSON) is replaced in the pickle's opcodes, so that what is shared
stays shared. Names of classes and fields are texts there, too: who renames must leave them.
"""

from __future__ import annotations

import pickle
import pickletools
from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from typing import Any, Final

import msgspec

_TEXTS: Final = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})
_BYTES: Final = frozenset({"SHORT_BINBYTES", "BINBYTES", "BINBYTES8"})
MAX_SHORT: Final = 0xFF
_JSON: Final = msgspec.json.Decoder(msgspec.Raw)


def texts_in(state: bytes) -> Iterator[str | bytes]:
    """Every text of a checkpoint, and all bytes in it that are JSON."""
    return (found for found, _ in _opcodes(state) if found is not None)


def with_texts(state: bytes, rename: Callable[[Any], Any]) -> bytes:
    """The checkpoint with ``rename(text)`` in place of each text. Frames, which only make reading quicker, are gone."""
    written = []
    for found, opcode in _opcodes(state):
        written.append(opcode if found is None else _opcode(rename(found)))
    return b"".join(written)


def _opcodes(state: bytes) -> Iterator[tuple[str | bytes | None, bytes]]:
    """Each opcode as it is written, with the text that it is about."""
    for (opcode, value, start), (_, _, end) in pairwise(chain(pickletools.genops(state), [(None, None, len(state))])):
        if opcode is None or opcode.name == "FRAME":
            continue
        is_text = opcode.name in _TEXTS or (opcode.name in _BYTES and isinstance(value, bytes) and _is_json(value))
        yield value if is_text else None, state[start:end]


def _opcode(value: str | bytes) -> bytes:
    is_text = isinstance(value, str)
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    if len(data) <= MAX_SHORT:
        return (pickle.SHORT_BINUNICODE if is_text else pickle.SHORT_BINBYTES) + bytes([len(data)]) + data
    return (pickle.BINUNICODE8 if is_text else pickle.BINBYTES8) + len(data).to_bytes(8, "little") + data


def _is_json(value: bytes) -> bool:
    """Whether it is a document. Bytes of numbers are none."""
    if value[:1] not in (b"{", b"["):
        return False
    try:
        _JSON.decode(value)
        value.decode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True
