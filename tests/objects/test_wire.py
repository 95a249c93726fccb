from __future__ import annotations

import gzip

import pytest

from scheduler.errors import InvalidObject
from scheduler.objects.kinds import Kind
from scheduler.objects.status import decode_status
from scheduler.objects.wire import decode_list, decode_watch_line

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


def test_of_a_compressed_page_that_is_said() -> None:
    page = gzip.compress(b'{"metadata":{"resourceVersion":"9"},"items":[]}')
    with pytest.raises(InvalidObject, match=r"PodList .* can't be read: it is compressed"):
        decode_list(Kind.POD, page)


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED"])
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


def test_a_bookmark_is_a_place_and_no_object() -> None:
    event = decode_watch_line(
        Kind.POD, b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"7"}}}'
    )
    assert (event.object, event.fault, event.resource_version) == (None, None, "7")


@pytest.mark.parametrize(
    "answer",
    [
        b"{}",
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}',
        b'{"kind":"ServiceList","metadata":{"resourceVersion":"9"},"items":null}',
        b'{"metadata":{"resourceVersion":"9"},"items":7}',
        b'{"metadata":{"resourceVersion":"9"},"items":{}}',
        b'{"metadata":{"resourceVersion":"9"},"items":""}',
        b'{"metadata":{"resourceVersion":"9"},"items":false}',
        b"<html>404</html>",
    ],
)
def test_what_is_no_list_of_the_kind_is_not_taken_for_an_empty_one(answer: bytes) -> None:
    with pytest.raises(InvalidObject):
        decode_list(Kind.POD, answer)


def deep(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


POISON = {
    "nested 1,200 deep": b'"junk":' + deep(1_200),
    "nested 100,000 deep": b'"junk":' + deep(100_000),
    "no UTF-8": b'"spec":{"nodeName":"\xff"}',
    "half of a surrogate pair": b'"spec":{"nodeName":"\\ud800"}',
    "an integer of 5,000 digits": b'"spec":{"priority":%b}' % (b"9" * 5_000),
    "no number": b'"spec":{"priority":NaN}',
    "a wrong type": b'"spec":[]',
}


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON.keys())
def test_whatever_a_decoder_raises_is_the_fault_of_one_object(poison: bytes) -> None:
    bad = b'{"metadata":{"name":"x","namespace":"n","uid":"u","resourceVersion":"8"},' + poison + b"}"
    event = decode_watch_line(Kind.POD, line(b"MODIFIED", bad))
    assert event.fault is not None
    assert (event.fault.name, event.fault.uid, event.resource_version) == ("n/x", "u", "8")
    items = GOOD + b"," + bad + b"," + GOOD.replace(b'"a"', b'"c"')
    for with_documents in (False, True):
        page = decode_list(
            Kind.POD, b'{"metadata":{"resourceVersion":"9"},"items":[' + items + b"]}", with_documents=with_documents
        )
        assert [one.key for one in page.objects] == ["n/a", "n/c"]
        assert [fault.name for fault in page.faults] == ["n/x"]
        assert page.resource_version == "9"


def test_brackets_and_quotes_inside_texts_are_no_nesting() -> None:
    text = b'"a\\\\\\"[[{{" : "' + b"[" * 500 + b'"'
    bad = (
        b'{"metadata":{"name":"x","annotations":{' + text + b'}},"junk":' + deep(2_000) + b',"spec":{"nodeName":"n1"}}'
    )
    fault = decode_watch_line(Kind.POD, line(b"ADDED", bad)).fault
    assert fault is not None and (fault.name, fault.reason) == ("x", "nested more than 200 deep")


@pytest.mark.parametrize("metadata", [b"null", b"{}", b'{"name":""}', b'{"name":null}'])
def test_an_object_without_a_name_is_a_fault(metadata: bytes) -> None:
    event = decode_watch_line(Kind.POD, line(b"ADDED", b'{"metadata":' + metadata + b"}"))
    assert event.object is None and event.fault is not None


def test_an_event_of_a_type_that_is_not_known_is_passed_over() -> None:
    event = decode_watch_line(Kind.POD, line(b"RENAMED", GOOD))
    assert event.object is None and event.fault is not None
    assert event.resource_version == "7"


def test_a_status_is_found_in_a_body_only_if_there_is_one() -> None:
    status = decode_status(b'{"kind":"Status","code":409,"reason":"Conflict","message":"taken"}')
    assert status is not None and status.as_error().is_conflict
    assert decode_status(b"upstream connect error") is None
