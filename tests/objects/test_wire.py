from __future__ import annotations

import pytest

from scheduler.errors import InvalidObject
from scheduler.objects.kinds import Kind
from scheduler.objects.wire import decode_list, decode_status, decode_watch_line

GOOD = b'{"metadata":{"name":"a","namespace":"n","resourceVersion":"7"}}'
BAD = b'{"metadata":{"name":"b","namespace":"n","resourceVersion":"8"},"spec":{"priority":"high"}}'
NULLED = b'{"metadata":{"name":"c","namespace":"n","labels":null}}'


def line(type_: bytes, obj: bytes) -> bytes:
    return b'{"type":"' + type_ + b'","object":' + obj + b"}"


def test_a_page_tells_its_version_and_how_to_go_on() -> None:
    page = decode_list(Kind.POD, b'{"metadata":{"resourceVersion":"9","continue":"x"},"items":[' + GOOD + b"]}")
    assert (page.resource_version, page.continue_token) == ("9", "x")
    assert [pod.key for pod in page.objects] == ["n/a"]
    assert page.faults == ()


def test_an_empty_page_may_have_no_items_at_all() -> None:
    assert decode_list(Kind.POD, b'{"metadata":{"resourceVersion":"9"},"items":null}').objects == ()
    assert decode_list(Kind.POD, b'{"metadata":{"resourceVersion":"9"}}').continue_token == ""


def test_one_bad_object_does_not_spoil_a_page() -> None:
    items = b",".join((GOOD, BAD, NULLED))
    page = decode_list(Kind.POD, b'{"metadata":{"resourceVersion":"9"},"items":[' + items + b"]}")
    assert [pod.key for pod in page.objects] == ["n/a", "n/c"]
    assert [fault.name for fault in page.faults] == ["n/b"]
    assert "$.spec.priority" in page.faults[0].reason


def test_documents_come_along_where_they_are_asked_for() -> None:
    items = b",".join((GOOD, BAD, NULLED))
    page = decode_list(Kind.POD, b'{"metadata":{"resourceVersion":"9"},"items":[' + items + b"]}", with_documents=True)
    assert [pod.key for pod in page.objects] == ["n/a", "n/c"]
    assert page.documents == (GOOD, NULLED)
    event = decode_watch_line(Kind.POD, line(b"ADDED", GOOD), with_document=True)
    assert (event.type, event.resource_version, event.document) == ("ADDED", "7", GOOD)
    assert decode_watch_line(Kind.POD, line(b"ADDED", GOOD)).document == b""


def test_a_broken_page_is_refused() -> None:
    with pytest.raises(InvalidObject):
        decode_list(Kind.POD, b'{"metadata":{"resourceVersion":"9"},"items":[')


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"])
def test_a_line_has_an_object_and_a_version(type_: str) -> None:
    event = decode_watch_line(Kind.POD, line(type_.encode(), GOOD))
    assert (event.type, event.resource_version) == (type_, "7")
    assert event.object is not None and event.object.key == "n/a"


def test_a_line_with_nulls_is_read_all_the_same() -> None:
    event = decode_watch_line(Kind.POD, line(b"ADDED", NULLED))
    assert event.object is not None and event.object.key == "n/c"


def test_a_bad_object_in_a_line_is_a_fault_and_the_watch_can_go_on_after_it() -> None:
    event = decode_watch_line(Kind.POD, line(b"MODIFIED", BAD))
    assert event.object is None
    assert event.resource_version == "8"
    assert event.fault is not None and event.fault.name == "n/b"


@pytest.mark.parametrize("kind", [Kind.POD, Kind.NAMESPACE])
def test_an_error_line_is_the_api_servers_error(kind: Kind) -> None:
    status = b'{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"too old","metadata":{}}'
    error = decode_watch_line(kind, line(b"ERROR", status)).error
    assert error is not None and error.is_gone
    assert (error.reason, str(error)) == ("Expired", "too old")


def test_a_broken_line_is_refused() -> None:
    with pytest.raises(InvalidObject):
        decode_watch_line(Kind.POD, b'{"type":"ADDED","obj')


def test_a_status_is_found_in_a_body_only_if_there_is_one() -> None:
    status = decode_status(b'{"kind":"Status","code":409,"reason":"Conflict","message":"taken"}')
    assert status is not None and status.as_error().is_conflict
    assert decode_status(b"upstream connect error") is None
