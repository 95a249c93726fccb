"""Extenders that answer slowly, too much, without end, or not what was asked: over real HTTP."""

from __future__ import annotations

import asyncio
import gzip
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web
from prometheus_client.exposition import generate_latest

from scheduler.controller.calls.extender_calls import ExtenderCalls
from scheduler.controller.calls.extender_session import ANSWER_BYTES_UNASKED
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.leadership import AlwaysHeld
from scheduler.messages.commands import CallExtender
from scheduler.messages.stimuli import ExtenderAnswered
from scheduler.testing.documents import node_json, pod_json
from tests.controller.conftest import PODS, create, read, until
from tests.controller.running import running_shell
from tests.controller.write.test_client import Handler, serving

LONG = msgspec.json.encode({"NodeNames": [f"node-{number:05}" for number in range(12_000)]})
"""155 KB: more than what a socket hands over at once."""


def in_pieces(pieces: Callable[[], AsyncIterator[bytes]]) -> Handler:
    """Without Content-Length: only the end of the answer says that it is whole."""

    async def handler(request: web.Request) -> web.StreamResponse:
        await request.content.readany()
        response = web.StreamResponse()
        await response.prepare(request)
        async for piece in pieces():
            await response.write(piece)
        return response

    return handler


async def answer_of(url: str, *, body: bytes = b"{}", timeout_seconds: float = 20.0) -> ExtenderAnswered:
    answers: list[ExtenderAnswered] = []
    calls = ExtenderCalls(answers.append, AlwaysHeld())
    try:
        calls.submit(CallExtender(1, 0, "filter", f"{url}/filter", body, timeout_seconds))
        await until(lambda: bool(answers))
    finally:
        await calls.close()
    return answers[0]


async def dribbled() -> AsyncIterator[bytes]:
    for start in range(0, len(LONG), 1000):
        yield LONG[start : start + 1000]
        await asyncio.sleep(0)


async def without_end() -> AsyncIterator[bytes]:
    while True:
        yield b" " * 65536


async def fifty_megabytes() -> AsyncIterator[bytes]:
    for _ in range(50):
        yield b" " * 1_000_000


async def begun_and_left() -> AsyncIterator[bytes]:
    yield b'{"NodeNames": ['
    await asyncio.Event().wait()


async def a_byte_now_and_then() -> AsyncIterator[bytes]:
    while True:
        yield b" "
        await asyncio.sleep(0.02)


async def test_an_answer_that_dribbles_in_is_read_to_its_end() -> None:
    async with serving(in_pieces(dribbled)) as url:
        answer = await answer_of(url)
    assert (answer.error, answer.body) == ("", LONG)


@pytest.mark.parametrize("pieces", [fifty_megabytes, without_end])
async def test_an_answer_over_the_limit_is_a_named_fault_and_is_not_kept(
    pieces: Callable[[], AsyncIterator[bytes]],
) -> None:
    async with serving(in_pieces(pieces)) as url:
        tracemalloc.start()
        answer = await answer_of(url)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    limit = ANSWER_BYTES_UNASKED + 2 * len(b"{}")
    assert answer.error == f"filter with extender at URL {url}/filter: the answer is longer than {limit} bytes"
    assert peak < 5 * ANSWER_BYTES_UNASKED


async def test_who_was_sent_much_may_answer_much() -> None:
    async with serving(in_pieces(fifty_megabytes)) as url:
        answer = await answer_of(url, body=b" " * 30_000_000)
    assert (answer.error, len(answer.body)) == ("", 50_000_000)


@pytest.mark.parametrize("pieces", [begun_and_left, a_byte_now_and_then])
async def test_an_answer_without_an_end_is_a_fault_after_its_time(pieces: Callable[[], AsyncIterator[bytes]]) -> None:
    async with serving(in_pieces(pieces)) as url:
        began = time.monotonic()
        answer = await answer_of(url, timeout_seconds=0.2)
    assert answer.error == f'Post "{url}/filter": no answer within 0.2s'
    assert time.monotonic() - began < 10


async def test_an_answer_is_not_unpacked() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.headers["Accept-Encoding"] == "identity"
        return web.Response(body=gzip.compress(b" " * 30_000_000), headers={"Content-Encoding": "gzip"})

    async with serving(handler) as url:
        assert len((await answer_of(url)).body) < 100_000


NONSENSE = [
    b"",
    b"\xff\xfe",
    b"[" * 200_000,
    b'{"NodeNames": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"NodeNames": "n1"}',
    b'{"NodeNames": [["n1"]]}',
    b'{"FailedNodes": ["n1"]}',
    b'{"Error": {"deep": ' + b"[" * 900 + b"]" * 900 + b"}}",
    b'{"Error": 7}',
]


async def test_an_ignorable_extender_that_answers_nonsense_is_skipped_counted_and_logged(
    connection: ConnectionSettings, client: ApiClient, log_lines: list[dict[str, Any]]
) -> None:
    answers = iter(NONSENSE)

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(body=next(answers))

    async with serving(handler) as url:
        extenders = f"[{{urlPrefix: '{url}', filterVerb: filter, ignorable: true, nodeCacheCapable: true}}]"
        async with running_shell(connection, extenders=extenders) as shell:
            await create(client, "/api/v1/nodes", node_json("n1"))
            for number in range(len(NONSENSE)):
                await create(client, PODS, pod_json(f"p{number}"))
            await until(lambda: shell.sink.counts.done == len(NONSENSE))
            await shell.inbox.emptied()
            skipped = [line for line in log_lines if line["event"].startswith("Skipping extender")]
            assert len(skipped) == len(NONSENSE)
            assert all(line["extender"] == url and f'extender "{url}" answers' in line["error"] for line in skipped)
            page = generate_latest(shell.metrics.registry).decode()
            count = f'tandem_extender_faults_total{{extender="{url}",skipped="true",verb="filter"}} {len(NONSENSE)}.0'
            assert count in page
            assert shell.loop.counts.errors == 0


async def test_of_a_cluster_larger_than_one_chunk_every_node_s_answer_counts(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    """The last node of an answer that comes in many chunks is the only one that fits."""

    async def handler(request: web.Request) -> web.StreamResponse:
        names = sorted((await request.json())["NodeNames"])
        answer = {"NodeNames": names[-1:], "FailedNodes": dict.fromkeys(names[:-1], "no" * 2000)}
        response = web.StreamResponse()
        await response.prepare(request)
        encoded = msgspec.json.encode(answer)
        for start in range(0, len(encoded), 16_384):
            await response.write(encoded[start : start + 16_384])
            await asyncio.sleep(0)
        return response

    async with serving(handler) as url:
        extenders = f"[{{urlPrefix: '{url}', filterVerb: filter, ignorable: true, nodeCacheCapable: true}}]"
        async with running_shell(connection, extenders=extenders) as shell:
            for number in range(90):
                await create(client, "/api/v1/nodes", node_json(f"n{number:02}"))
            await until(lambda: sum(reflector.object_count for reflector in shell.reflectors) >= 90)
            await create(client, PODS, pod_json("a"))
            await until(lambda: shell.sink.counts.done == 1)
        assert (await read(client, f"{PODS}/a"))["spec"]["nodeName"] == "n89"


async def test_a_scheduler_asks_an_extender_outside_through_the_proxy_of_its_environment(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    asked: list[str] = []

    async def proxy(request: web.Request) -> web.StreamResponse:
        asked.append(str(request.url))
        return web.Response(body=msgspec.json.encode({"NodeNames": (await request.json())["NodeNames"]}))

    extenders = '[{urlPrefix: "http://extender.example", filterVerb: filter, nodeCacheCapable: true}]'
    async with (
        serving(proxy) as url,
        running_shell(connection, extenders=extenders, environment={"HTTP_PROXY": url}) as shell,
    ):
        await create(client, "/api/v1/nodes", node_json("n1"))
        await create(client, PODS, pod_json("a"))
        await until(lambda: shell.sink.counts.done == 1)
    assert asked == ["http://extender.example/filter"]
    assert (await read(client, f"{PODS}/a"))["spec"]["nodeName"] == "n1"
