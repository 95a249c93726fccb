"""Decodes pages of lists and lines of watches. One unreadable object never affects the others.

Each is decoded in up to three ways: as a whole; object by object; and, if even that fails, with a slower, tolerant
parser (`salvage.py`). Any error that a decoder raises for one object is that object's fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from scheduler.errors import ApiError, InvalidObject
from scheduler.objects.kinds import Kind, PerKind, decode
from scheduler.objects.meta import ApiObject, ApiStruct
from scheduler.objects.salvage import DECODER_ERRORS, TOO_DEEP, identity_in, reason_of, salvage
from scheduler.objects.status import Status, decode_status

Payload = TypeVar("Payload")

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
ERROR = "ERROR"

PART_SIZE: Final = 100

_CHANGES = frozenset((ADDED, MODIFIED, DELETED))


class ListMeta(ApiStruct, frozen=True):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct, frozen=True):
    """A page of a list. `faults` are the unreadable objects. `continue_token` is "" on the last page.

    `documents`: the JSON of each object, if requested.
    """

    resource_version: str
    continue_token: str
    objects: tuple[ApiObject, ...]
    faults: tuple[InvalidObject, ...] = ()
    documents: tuple[bytes, ...] = ()


class WatchEvent(msgspec.Struct, frozen=True):
    """A line of a watch. `type` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.

    `object`: None for ERROR, which has an `error`; for an unreadable object or an unknown type of event, which have a
    `fault`; and for a BOOKMARK, which has only a resource version. `resource_version` is where a new watch may start;
    "" for ERROR.
    `document`: the object's JSON, if requested.
    """

    type: str
    object: ApiObject | None = None
    resource_version: str = ""
    fault: InvalidObject | None = None
    error: ApiError | None = None
    document: bytes = b""


class _Page(msgspec.Struct, Generic[Payload], frozen=True):
    kind: str = ""
    metadata: ListMeta = ListMeta()
    items: tuple[Payload, ...] | None = None


class _Line(msgspec.Struct, Generic[Payload], frozen=True):
    type: str
    object: Payload


_PAGES: Final = PerKind[msgspec.json.Decoder[Any]](lambda kind: msgspec.json.Decoder(_Page[kind.entry.type]))  # type: ignore[name-defined]
_LINES: Final = PerKind[msgspec.json.Decoder[Any]](lambda kind: msgspec.json.Decoder(_Line[kind.entry.type]))  # type: ignore[name-defined]
COMPRESSED: Final = "it is compressed, though it was asked for uncompressed; by a proxy before the API server?"
_GZIP: Final = b"\x1f\x8b"
_RAW_PAGE = msgspec.json.Decoder(_Page[msgspec.Raw])
_RAW_LINE = msgspec.json.Decoder(_Line[msgspec.Raw])


def is_compressed(data: bytes) -> bool:
    """Whether this is the beginning of something that gzip has made, and so no JSON."""
    return data.startswith(_GZIP)


def decode_list(kind: Kind, data: bytes, *, with_documents: bool = False) -> ListPage:
    """Decodes a page of a list. Raises `InvalidObject` only if the page is unreadable or is no list of this kind."""
    if not with_documents:
        try:
            page = cast("_Page[ApiObject]", _PAGES[kind].decode(data))
        except DECODER_ERRORS:
            return _decode_list_one_by_one(kind, data)
        if all(map(_is_named, page.items or ())):
            _check_page(kind, page)
            return ListPage(page.metadata.resource_version, page.metadata.continue_token, page.items or ())
    return _decode_list_one_by_one(kind, data, with_documents=with_documents)


def decode_watch_line(kind: Kind, line: bytes, *, with_document: bool = False) -> WatchEvent:
    """Decodes a line of a watch. Raises `InvalidObject` only if not even its object can be identified."""
    if with_document:
        return _decode_odd_line(kind, line, with_document=True)
    try:
        event = cast("_Line[ApiObject]", _LINES[kind].decode(line))
    except DECODER_ERRORS:
        return _decode_odd_line(kind, line)
    if event.type not in _CHANGES or not _is_named(event.object):
        return _decode_odd_line(kind, line)
    return WatchEvent(event.type, event.object, event.object.metadata.resource_version)


def _is_named(read: ApiObject) -> bool:
    return bool(read.metadata.name)


def _decode_named(kind: Kind, data: bytes | msgspec.Raw) -> ApiObject:
    read = decode(kind, data)
    if not _is_named(read):
        raise InvalidObject(kind.entry.name, "", "it has no name", uid=read.metadata.uid)
    return read


# --- pages ------------------------------------------------------------------------------------------------------------


def _check_page(kind: Kind, page: _Page[Payload]) -> None:
    """Raises InvalidObject for a body that is no list (a Status, a proxy's empty object): it is not an empty list."""
    name = f"{kind.entry.name}List"
    if page.kind not in ("", name, "List"):
        raise InvalidObject(name, "", f"the answer is a {page.kind[:100]}")
    if not page.metadata.resource_version:
        raise InvalidObject(name, "", "the answer has no resourceVersion")


def _decode_list_one_by_one(kind: Kind, data: bytes, *, with_documents: bool = False) -> ListPage:
    parts = list(decode_list_in_parts(kind, data, with_documents=with_documents))
    return ListPage(
        parts[0].resource_version,
        parts[0].continue_token,
        tuple([read for part in parts for read in part.objects]),
        tuple([fault for part in parts for fault in part.faults]),
        tuple([document for part in parts for document in part.documents]),
    )


def decode_list_in_parts(kind: Kind, data: bytes, *, with_documents: bool = False) -> Iterator[ListPage]:
    """Decodes a page of a list object by object: at least one part, each of at most `PART_SIZE` objects, which takes
    some 2 ms for pods. Raises `InvalidObject` only before the first."""
    try:
        page = _RAW_PAGE.decode(data)
        items: Sequence[bytes | msgspec.Raw] = page.items or ()
    except DECODER_ERRORS:
        page, items = _salvaged_page(kind, data)
    _check_page(kind, page)
    for start in range(0, max(len(items), 1), PART_SIZE):
        yield _decode_part(kind, page.metadata, items[start : start + PART_SIZE], with_documents)


def _decode_part(kind: Kind, place: ListMeta, items: Sequence[bytes | msgspec.Raw], with_documents: bool) -> ListPage:
    objects: list[ApiObject] = []
    documents: list[bytes] = []
    faults: list[InvalidObject] = []
    for item in items:
        try:
            if isinstance(item, bytes):
                _check_depth(kind, item)
            objects.append(_decode_named(kind, item))
            if with_documents:
                documents.append(bytes(item))
        except InvalidObject as fault:
            faults.append(fault)
    return ListPage(place.resource_version, place.continue_token, tuple(objects), tuple(faults), tuple(documents))


def _salvaged_page(kind: Kind, data: bytes) -> tuple[_Page[msgspec.Raw], list[bytes]]:
    """The page without its items, and each item's JSON. Raises InvalidObject."""
    name = f"{kind.entry.name}List"
    try:
        document = salvage(data)
        items = document.pop("items", None)
        items = [] if items is None else items
        if not isinstance(items, list):
            raise ValueError("its items are no array")
        page = msgspec.convert(document, _Page[msgspec.Raw])
        return page, [json.dumps(item).encode() for item in items]
    except DECODER_ERRORS as error:
        raise InvalidObject(name, "", COMPRESSED if is_compressed(data) else reason_of(error)) from error


def _check_depth(kind: Kind, salvaged: bytes) -> None:
    if TOO_DEEP.encode() in salvaged:
        found = identity_in(salvaged)
        raise InvalidObject(kind.entry.name, found.key, TOO_DEEP, uid=found.uid)


# --- lines ------------------------------------------------------------------------------------------------------------


def _decode_odd_line(kind: Kind, line: bytes, *, with_document: bool = False) -> WatchEvent:
    data: bytes | msgspec.Raw
    try:
        event = _RAW_LINE.decode(line)
        type_, data = event.type, event.object
    except DECODER_ERRORS:
        type_, data = _salvaged_line(kind, line)
    if type_ == ERROR:
        status = decode_status(bytes(data)) or Status(message="the watch failed without saying why")
        return WatchEvent(ERROR, error=status.as_error())
    if type_ == BOOKMARK:
        return WatchEvent(BOOKMARK, None, identity_in(data).resource_version)
    try:
        if type_ not in _CHANGES:
            raise InvalidObject(kind.entry.name, "", f"unknown type of event {type_[:100]!r}")
        if isinstance(data, bytes):
            _check_depth(kind, data)
        read = _decode_named(kind, data)
    except InvalidObject as fault:
        return WatchEvent(type_, None, identity_in(data).resource_version, fault)
    document = bytes(data) if with_document else b""
    return WatchEvent(type_, read, read.metadata.resource_version, document=document)


def _salvaged_line(kind: Kind, line: bytes) -> tuple[str, bytes]:
    """The type of the event, and the object's JSON. Raises InvalidObject."""
    try:
        document = salvage(line)
        if not (isinstance(document, dict) and isinstance(document.get("type"), str)):
            raise ValueError("it is no watch event")
        return document["type"], json.dumps(document.get("object")).encode()
    except DECODER_ERRORS as error:
        raise InvalidObject(kind.entry.name, "", reason_of(error)) from error
