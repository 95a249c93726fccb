from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from scheduler.simulate.apiserver import ApiServer
from scheduler.simulate.apiserver.kinds import PODS
from tests.limits import WAIT_SECONDS
from tests.simulate.playing import add_pod

POD_PATH = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(bookmark_seconds=0.01) as running:
        yield running


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(server.url) as session:
        yield session


async def _read(client: aiohttp.ClientSession, path: str) -> tuple[int, Any]:
    async with client.get(path) as response:
        return response.status, await response.json()


async def _lines(client: aiohttp.ClientSession, query: str, count: int) -> list[Any]:
    async with asyncio.timeout(WAIT_SECONDS), client.get(f"{POD_PATH}?watch=1&{query}") as response:
        return [json.loads(await response.content.readline()) for _ in range(count)]


async def test_a_watch_resumes_without_loss_and_tells_of_later_changes(
    server: ApiServer, client: aiohttp.ClientSession
) -> None:
    add_pod(server.registry, "a")
    revision = server.store.revision
    add_pod(server.registry, "b")
    async with asyncio.timeout(WAIT_SECONDS), client.get(f"{POD_PATH}?watch=1&resourceVersion={revision}") as response:
        first = json.loads(await response.content.readline())
        server.registry.delete(PODS, "default", "a")
        second = json.loads(await response.content.readline())
    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "b")
    assert (second["type"], second["object"]["metadata"]["name"]) == ("DELETED", "a")
    assert int(second["object"]["metadata"]["resourceVersion"]) == server.store.revision


async def test_an_object_that_stops_matching_is_sent_as_deleted(
    server: ApiServer, client: aiohttp.ClientSession
) -> None:
    revision = server.store.revision
    add_pod(server.registry, "a", labels={"x": "1"})
    server.registry.change(PODS, "default", "a", lambda old: {**old, "metadata": {**old["metadata"], "labels": {}}})
    added, deleted = await _lines(client, f"resourceVersion={revision}&labelSelector=x", 2)
    assert (added["type"], deleted["type"]) == ("ADDED", "DELETED")
    assert deleted["object"]["metadata"]["labels"] == {"x": "1"}
    assert int(deleted["object"]["metadata"]["resourceVersion"]) == server.store.revision


async def test_an_idle_watch_gets_bookmarks_when_it_allows_them(
    server: ApiServer, client: aiohttp.ClientSession
) -> None:
    (bookmark,) = await _lines(client, f"resourceVersion={server.store.revision}&allowWatchBookmarks=true", 1)
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"] == {"resourceVersion": str(server.store.revision)}


async def test_a_watch_from_before_compaction_gets_an_error_event_of_code_410(
    server: ApiServer, client: aiohttp.ClientSession
) -> None:
    revision = server.store.revision
    add_pod(server.registry, "a")
    server.compact()
    (error,) = await _lines(client, f"resourceVersion={revision}", 1)
    assert error["type"] == "ERROR"
    assert (error["object"]["code"], error["object"]["reason"]) == (410, "Expired")


async def test_a_running_watch_survives_compaction(server: ApiServer, client: aiohttp.ClientSession) -> None:
    query = f"?watch=1&resourceVersion={server.store.revision}"
    async with asyncio.timeout(WAIT_SECONDS), client.get(POD_PATH + query) as response:
        add_pod(server.registry, "a")
        server.compact()
        assert json.loads(await response.content.readline())["type"] == "ADDED"


async def test_a_reader_that_is_too_slow_for_the_history_gets_410(client: aiohttp.ClientSession) -> None:
    async with ApiServer(history=2) as short, aiohttp.ClientSession(short.url) as session:
        query = f"?watch=1&resourceVersion={short.store.revision}"
        async with asyncio.timeout(WAIT_SECONDS), session.get(POD_PATH + query) as response:
            for index in range(50):
                add_pod(short.registry, f"p{index}")
            assert json.loads(await response.content.readline())["object"]["code"] == 410


async def test_watches_can_be_closed_from_the_server_and_are_counted(
    server: ApiServer, client: aiohttp.ClientSession
) -> None:
    async with (
        asyncio.timeout(WAIT_SECONDS),
        client.get(f"{POD_PATH}?watch=1&resourceVersion={server.store.revision}") as response,
    ):
        assert server.watching == 1
        server.close_watches()
        assert await response.content.read() == b""


async def test_pages_show_one_moment_and_an_expired_token_offers_to_go_on(
    server: ApiServer, client: aiohttp.ClientSession
) -> None:
    for name in "abcd":
        add_pod(server.registry, name)
    _, first = await _read(client, f"{POD_PATH}?limit=2")
    server.registry.delete(PODS, "default", "c")
    token = first["metadata"]["continue"]
    _, second = await _read(client, f"{POD_PATH}?limit=2&continue={token}")
    assert [one["metadata"]["name"] for one in second["items"]] == ["c", "d"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    server.compact()
    code, expired = await _read(client, f"{POD_PATH}?limit=2&continue={token}")
    assert (code, expired["reason"]) == (410, "Expired")
    _, rest = await _read(client, f"{POD_PATH}?limit=2&continue={expired['metadata']['continue']}")
    assert [one["metadata"]["name"] for one in rest["items"]] == ["d"]


async def test_a_token_is_asked_for_when_there_is_one() -> None:
    async with ApiServer(token="t") as locked, aiohttp.ClientSession(locked.url) as session:
        assert (await _read(session, POD_PATH))[0] == 401
        async with session.get(POD_PATH, headers={"Authorization": "Bearer t"}) as response:
            assert response.status == 200
        async with session.get("/readyz") as response:
            assert await response.text() == "ok"


async def test_an_injected_status_is_answered_as_often_as_ordered(
    server: ApiServer, client: aiohttp.ClientSession
) -> None:
    server.faults.fail("GET", "/pods", 503, times=2, reason="ServiceUnavailable", retry_after=3)
    async with client.get(POD_PATH) as response:
        assert (response.status, response.headers["Retry-After"]) == (503, "3")
    assert [(await _read(client, POD_PATH))[0] for _ in range(2)] == [503, 200]
    assert [one.code for one in server.served] == [503, 503, 200]


@pytest.mark.parametrize(("after", "created"), [(False, False), (True, True)])
async def test_a_dropped_connection_loses_the_request_or_only_its_answer(
    server: ApiServer, client: aiohttp.ClientSession, after: bool, created: bool
) -> None:
    server.faults.drop("POST", "/pods", after=after)
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    with pytest.raises(aiohttp.ClientError):
        await client.post(POD_PATH, json=body)
    assert (server.store.get(PODS, "default", "p") is not None) is created


async def test_a_delayed_request_is_served_after_one_that_came_later(
    server: ApiServer, client: aiohttp.ClientSession
) -> None:
    server.faults.delay("GET", "/late", 0.05)
    order: list[str] = []

    async def read(name: str) -> None:
        await _read(client, f"{POD_PATH}/{name}")
        order.append(name)

    await asyncio.gather(read("late"), read("soon"))
    assert order == ["soon", "late"]


async def test_protobuf_is_refused_so_that_clients_fall_back(server: ApiServer, client: aiohttp.ClientSession) -> None:
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    async with client.post(POD_PATH, data=b"k8s\x00", headers=headers) as response:
        assert response.status == 415


@pytest.mark.parametrize("body", [b"", b"[]", b'{"metadata": []}', b'{"metadata": {"name": "p"}, "spec": "x"}'])
async def test_a_body_that_is_no_object_is_a_bad_request(client: aiohttp.ClientSession, body: bytes) -> None:
    async with client.post(POD_PATH, data=body, headers={"Content-Type": "application/json"}) as response:
        assert response.status == 400
