"""Objects and lines that can not be read cost neither the others nor the last readable version."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.controller.watch.reflector import Reflector, WatchPlaceLost
from scheduler.controller.write.client import ApiClient
from scheduler.errors import ApiError
from scheduler.objects.kinds import Kind
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.documents import pod_json
from tests.controller.conftest import PODS, create, until
from tests.controller.watch.reflecting import Seen, running, watch_line


async def test_an_unreadable_object_is_skipped_and_its_last_readable_version_stays(
    client: ApiClient, log_lines: list[dict[str, Any]]
) -> None:
    reflector = Reflector(Kind.POD, client, seen := Seen())
    good = watch_line("ADDED", "5")
    bad = watch_line("MODIFIED", "6", b'"spec":7')
    gone = watch_line("DELETED", "8", b'"spec":7')
    reflector.take(good + bad + good.replace(b'"a"', b'"b"') + bad)
    assert seen.events == [("+", "a"), ("+", "b")]
    assert reflector.mirror.rejected == 2
    assert len([line for line in log_lines if line["event"] == "Object can't be read, skipped"]) == 1
    reflector.take(gone)
    assert seen.events[2:] == [("?", "a")]


def test_an_object_without_a_version_does_not_move_the_place_of_the_watch(client: ApiClient) -> None:
    reflector = Reflector(Kind.POD, client, Seen())
    reflector.take(watch_line("ADDED", "5") + watch_line("MODIFIED", "", b'"spec":7'))
    assert reflector.resource_version == "5"


@pytest.mark.parametrize(("code", "error"), [(410, WatchPlaceLost), (500, ApiError)])
def test_a_watch_that_ends_with_an_error_says_whether_its_place_is_lost(
    client: ApiClient, code: int, error: type[Exception]
) -> None:
    status = {"kind": "Status", "status": "Failure", "message": "too old: 1 (9)", "reason": "Any", "code": code}
    with pytest.raises(error, match="too old: 1") as caught:
        Reflector(Kind.POD, client, Seen()).take(msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n")
    assert type(caught.value) is error


DEEP = b'"junk":' + b"[" * 1_200 + b"]" * 1_200


async def test_an_object_nested_too_deep_is_named_and_the_kind_goes_on(
    cluster: EmbeddedCluster, client: ApiClient, log_lines: list[dict[str, Any]]
) -> None:
    poison = watch_line("ADDED", "1", DEEP)
    page = b'{"kind":"PodList","metadata":{"resourceVersion":"%b"},"items":[%b]}'
    version = str(cluster.store.revision).encode()
    cluster.faults.answer(
        "GET", r"/api/v1/pods\?limit", page % (version, poison[len(b'{"type":"ADDED","object":') : -2])
    )
    cluster.faults.answer(
        "GET", "/api/v1/pods.*watch", poison.replace(b'"a"', b'"b"') + watch_line("ADDED", version.decode())
    )
    async with running(client) as (reflector, seen):
        await create(client, PODS, pod_json("c"))
        await until(lambda: ("+", "c") in seen.events)
        assert seen.events == [("+", "a"), ("+", "c")]
        assert reflector.relists == 0
        assert reflector.mirror.unreadable == {"d/b"}
        named = [line["name"] for line in log_lines if line["event"] == "Object can't be read, skipped"]
        assert named == ["d/a", "d/b"]


async def test_a_line_that_is_no_json_is_asked_for_again_from_the_same_place(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    version = str(cluster.store.revision)
    half = watch_line("ADDED", version) + watch_line("ADDED", "9")[:40] + b"\n"
    cluster.faults.answer("GET", "/api/v1/pods.*watch", half, times=2)
    async with running(client) as (reflector, seen):
        await until(lambda: not cluster.faults.rules)
        await create(client, PODS, pod_json("c"))
        await until(lambda: ("+", "c") in seen.events)
        assert seen.events == [("+", "a"), ("+", "c")]
        assert (reflector.relists, reflector.mirror.rejected) == (0, 2)


async def test_another_object_of_the_same_name_that_cannot_be_read_takes_its_predecessor_away(
    client: ApiClient,
) -> None:
    reflector = Reflector(Kind.POD, client, seen := Seen())
    reflector.take(
        watch_line("ADDED", "5") + watch_line("MODIFIED", "6", b'"spec":7').replace(b'"uid":"1"', b'"uid":"2"')
    )
    assert seen.events == [("+", "a"), ("?", "a")]
    assert reflector.mirror.unreadable == {"d/a"}
    reflector.take(watch_line("MODIFIED", "7").replace(b'"uid":"1"', b'"uid":"2"'))
    assert seen.events[2:] == [("+", "a")]
    assert reflector.mirror.unreadable == set()
