"""Lists and watch lines as bytes become objects: at once where all is well, one by one where something is odd."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from scheduler.errors import InvalidObject
from scheduler.objects.kinds import KINDS, Kind, decode
from scheduler.objects.meta import ApiObject

RejectObject = Callable[[InvalidObject], None]
"""Told of each object that can't be read; it is skipped."""


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list. ``continue_token`` "" is the last one."""

    resource_version: str
    continue_token: str
    objects: list[ApiObject]


@dataclass(frozen=True, slots=True)
class WatchLine:
    """``type`` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR; for an ERROR ``code`` and ``message`` are set.

    A deleted object that can't be read is a bare ApiObject with its metadata.
    """

    type: str
    object: ApiObject
    code: int = 0
    message: str = ""


class _RawPage(msgspec.Struct, frozen=True):
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class _RawLine(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _ErrorObject(msgspec.Struct, frozen=True):
    code: int = 0
    reason: str = ""
    message: str = ""


class KindDecoder:
    """Decodes one kind's lists and watch streams. Raises msgspec.DecodeError for what is not JSON of that shape."""

    def __init__(self, kind: Kind, on_reject: RejectObject) -> None:
        self._kind = kind
        self._on_reject = on_reject
        type_ = KINDS[kind].type
        page = msgspec.defstruct("TypedPage", [("metadata", ListMeta, ListMeta()), ("items", list[type_])])  # type: ignore[valid-type]
        line = msgspec.defstruct("TypedLine", [("type", str), ("object", type_)], gc=False)
        self._pages: msgspec.json.Decoder[Any] = msgspec.json.Decoder(page)
        self._lines: msgspec.json.Decoder[Any] = msgspec.json.Decoder(line)
        self._raw_pages = msgspec.json.Decoder(_RawPage)
        self._raw_lines = msgspec.json.Decoder(_RawLine)

    def page(self, body: bytes) -> Page:
        try:
            typed = self._pages.decode(body)
        except msgspec.ValidationError:
            raw = self._raw_pages.decode(body)
            objects = [read for item in raw.items or () if (read := self._object(item)) is not None]
            return Page(raw.metadata.resource_version, raw.metadata.continue_, objects)
        return Page(typed.metadata.resource_version, typed.metadata.continue_, typed.items)

    def lines(self, data: bytes) -> Iterator[WatchLine]:
        """``data`` holds whole lines."""
        try:
            typed: list[Any] | None = self._lines.decode_lines(data)
        except msgspec.DecodeError:
            typed = None
        if typed is None or any(line.type == "ERROR" for line in typed):
            for text in data.splitlines():
                if text and (line := self._odd_line(text)) is not None:
                    yield line
            return
        for line in typed:
            yield WatchLine(line.type, line.object)

    def _odd_line(self, text: bytes) -> WatchLine | None:
        raw = self._raw_lines.decode(text)
        if raw.type == "ERROR":
            error = msgspec.json.decode(raw.object, type=_ErrorObject)
            return WatchLine("ERROR", ApiObject(), error.code, error.message or error.reason)
        read = self._object(raw.object)
        if read is None and raw.type == "DELETED":
            # Unreadable or not, it is gone: its name is enough to say so.
            read = msgspec.json.decode(raw.object, type=ApiObject)
        return None if read is None else WatchLine(raw.type, read)

    def _object(self, raw: msgspec.Raw) -> ApiObject | None:
        try:
            return decode(self._kind, raw)
        except InvalidObject as error:
            self._on_reject(error)
            return None
