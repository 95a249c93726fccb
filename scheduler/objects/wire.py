"""Lists and watches on the wire: pages and lines to objects. One unreadable object never holds up the others."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

import msgspec

from scheduler.errors import ApiError, InvalidObject
from scheduler.objects.kinds import KINDS, Kind, decode
from scheduler.objects.meta import ApiObject, ApiStruct

Payload = TypeVar("Payload")

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
ERROR = "ERROR"


class ListMeta(ApiStruct, frozen=True):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class Status(ApiStruct, frozen=True):
    """The API server's answer in place of an object."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0

    def as_error(self) -> ApiError:
        return ApiError(self.code, self.reason, self.message)


class ListPage(msgspec.Struct, frozen=True):
    """A page of a list. `faults` are the objects that can't be read. `continue_token` is "" on the last page.

    `documents`: the JSON of each object, where it was asked for.
    """

    resource_version: str
    continue_token: str
    objects: tuple[ApiObject, ...]
    faults: tuple[InvalidObject, ...] = ()
    documents: tuple[bytes, ...] = ()


class WatchEvent(msgspec.Struct, frozen=True):
    """A line of a watch. `type` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.

    `object`: None for ERROR, which has an `error`, and for an object that can't be read, which has a `fault`; of a
    BOOKMARK only the resource version counts. `resource_version` is where a new watch may begin; "" for ERROR.
    `document`: the object's JSON, where it was asked for.
    """

    type: str
    object: ApiObject | None = None
    resource_version: str = ""
    fault: InvalidObject | None = None
    error: ApiError | None = None
    document: bytes = b""


class _Page(msgspec.Struct, Generic[Payload], frozen=True):
    metadata: ListMeta = ListMeta()
    items: tuple[Payload, ...] | None = None


class _Line(msgspec.Struct, Generic[Payload], frozen=True):
    type: str
    object: Payload


_PAGES: dict[Kind, msgspec.json.Decoder[Any]] = {k: msgspec.json.Decoder(_Page[e.type]) for k, e in KINDS.items()}  # type: ignore[name-defined]
_LINES: dict[Kind, msgspec.json.Decoder[Any]] = {k: msgspec.json.Decoder(_Line[e.type]) for k, e in KINDS.items()}  # type: ignore[name-defined]
_RAW_PAGE = msgspec.json.Decoder(_Page[msgspec.Raw])
_RAW_LINE = msgspec.json.Decoder(_Line[msgspec.Raw])
_STATUS = msgspec.json.Decoder(Status)
_METADATA_ONLY = msgspec.json.Decoder(ApiObject)


def decode_list(kind: Kind, data: bytes, *, with_documents: bool = False) -> ListPage:
    """A page of a list. Raises `InvalidObject` only if the page itself can't be read."""
    if with_documents:
        return _decode_list_one_by_one(kind, data, with_documents=True)
    try:
        page = cast("_Page[ApiObject]", _PAGES[kind].decode(data))
        return ListPage(page.metadata.resource_version, page.metadata.continue_token, page.items or ())
    except msgspec.DecodeError:
        return _decode_list_one_by_one(kind, data)


def decode_watch_line(kind: Kind, line: bytes, *, with_document: bool = False) -> WatchEvent:
    """A line of a watch. Raises `InvalidObject` only if the line itself can't be read."""
    if with_document:
        return _decode_odd_line(kind, line, with_document=True)
    try:
        event = cast("_Line[ApiObject]", _LINES[kind].decode(line))
    except msgspec.DecodeError:
        return _decode_odd_line(kind, line)
    if event.type == ERROR:
        return _decode_odd_line(kind, line)
    return WatchEvent(event.type, event.object, event.object.metadata.resource_version)


def decode_status(data: bytes) -> Status | None:
    """The Status in a response's body, or None if there is none."""
    try:
        return _STATUS.decode(data)
    except msgspec.DecodeError:
        return None


def _decode_list_one_by_one(kind: Kind, data: bytes, *, with_documents: bool = False) -> ListPage:
    try:
        page = _RAW_PAGE.decode(data)
    except msgspec.DecodeError as error:
        raise InvalidObject(f"{KINDS[kind].name}List", "", str(error)) from error
    objects: list[ApiObject] = []
    documents: list[bytes] = []
    faults: list[InvalidObject] = []
    for item in page.items or ():
        try:
            objects.append(decode(kind, item))
            if with_documents:
                documents.append(bytes(item))
        except InvalidObject as fault:
            faults.append(fault)
    place = page.metadata
    return ListPage(place.resource_version, place.continue_token, tuple(objects), tuple(faults), tuple(documents))


def _decode_odd_line(kind: Kind, line: bytes, *, with_document: bool = False) -> WatchEvent:
    try:
        event = _RAW_LINE.decode(line)
    except msgspec.DecodeError as error:
        raise InvalidObject(KINDS[kind].name, "", str(error)) from error
    if event.type == ERROR:
        status = decode_status(bytes(event.object)) or Status(message="the watch failed without saying why")
        return WatchEvent(ERROR, error=status.as_error())
    try:
        decoded = decode(kind, event.object)
    except InvalidObject as fault:
        return WatchEvent(event.type, None, _resource_version(event.object), fault)
    document = bytes(event.object) if with_document else b""
    return WatchEvent(event.type, decoded, decoded.metadata.resource_version, document=document)


def _resource_version(data: msgspec.Raw) -> str:
    try:
        return _METADATA_ONLY.decode(data).metadata.resource_version
    except msgspec.DecodeError:
        return ""
