"""What a watch gets on either of its ways, from servers that break off, fall silent, refuse or flood."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from scheduler.controller.write.client import ApiClient, Directly
from scheduler.errors import ApiError
from tests.controller.conftest import until
from tests.controller.write.scripted_server import client_of, plays, served
from tests.controller.write.test_credentials import kubeconfig

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def body_of(client: ApiClient, idle_seconds: float = 5.0) -> bytes:
    parts = []
    async with client.stream("/watch", query={"watch": "true"}, idle_seconds=idle_seconds) as answer:
        while part := await answer.read():
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    ("chunks", "ends"),
    [
        ((CHUNKED + b"4\r\none\n\r\n", b"4\r\ntwo\n\r\n0\r\n\r\n"), False),
        ((CHUNKED[:20], CHUNKED[20:] + b"8\r\none\ntwo\n\r\n0\r\n\r\n"), False),
        ((b"HTTP/1.0 200 OK\r\n\r\none\n", b"two\n"), True),
        ((b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", CHUNKED + b"8\r\none\ntwo\n\r\n0\r\n\r\n"), False),
    ],
    ids=["chunks", "a head in two parts", "until the end", "after a hint"],
)
async def test_a_watch_ends_in_order_with_all_of_its_lines(
    tmp_path: Path, directly: Directly, chunks: tuple[bytes, ...], ends: bool
) -> None:
    async with (
        served(plays(*chunks, ends=ends)) as (_, url),
        client_of(kubeconfig(tmp_path / "k", url), directly) as client,
    ):
        assert await body_of(client) == b"one\ntwo\n"


@pytest.mark.parametrize(
    "chunks",
    [
        (),
        (b"HTTP/1.1 200",),
        (CHUNKED + b"4\r\none\n\r\n",),
        (CHUNKED + b"4\r\none\n\r\nnonsense\r\n",),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n",),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",),
    ],
    ids=["nothing", "half a head", "no last chunk", "a broken chunk", "not HTTP", "an upgrade"],
)
async def test_a_watch_that_is_cut_is_no_end_in_order(
    tmp_path: Path, directly: Directly, chunks: tuple[bytes, ...]
) -> None:
    async with (
        served(plays(*chunks)) as (_, url),
        client_of(kubeconfig(tmp_path / "k", url), directly) as client,
    ):
        with pytest.raises(ApiError) as caught:
            await body_of(client)
    assert (caught.value.status, caught.value.reason) == (0, "NoAnswer")


@pytest.mark.parametrize("chunks", [(), (CHUNKED,), (CHUNKED + b"4\r\none\n\r\n",)], ids=["at once", "head", "line"])
async def test_a_watch_that_falls_silent_is_given_up(
    tmp_path: Path, directly: Directly, chunks: tuple[bytes, ...]
) -> None:
    async with (
        served(plays(*chunks, ends=False)) as (_, url),
        client_of(kubeconfig(tmp_path / "k", url), directly) as client,
    ):
        with pytest.raises(ApiError) as caught:
            await body_of(client, idle_seconds=0.1)
    assert caught.value.reason == "Timeout"


async def test_a_watch_that_is_refused_says_why_and_when_to_come_again(tmp_path: Path, directly: Directly) -> None:
    body = b'{"kind":"Status","reason":"TooManyRequests","message":"wait"}'
    head = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with (
        served(plays(head + body, ends=False)) as (_, url),
        client_of(kubeconfig(tmp_path / "k", url), directly) as client,
    ):
        with pytest.raises(ApiError) as caught:
            await body_of(client)
    assert (caught.value.status, caught.value.reason, caught.value.retry_after) == (429, "TooManyRequests", 7.0)


async def test_a_reader_that_is_busy_has_the_server_wait_and_then_gets_every_byte(
    tmp_path: Path, directly: Directly
) -> None:
    size, sent = 64 * 2**20, 0
    is_stuck = asyncio.Event()

    async def flood(_number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while sent < size:
            writer.write(bytes(2**18))
            sent += 2**18
            try:
                async with asyncio.timeout(0.2):
                    await writer.drain()
            except TimeoutError:
                is_stuck.set()
                await writer.drain()

    async with (
        served(flood) as (_, url),
        client_of(kubeconfig(tmp_path / "k", url), directly) as client,
        client.stream("/watch", query={}, idle_seconds=0.1) as answer,
    ):
        async with asyncio.timeout(20):
            await is_stuck.wait()
        assert sent < size
        count = 0
        while part := await answer.read():
            count += len(part)
    assert count == size


async def test_the_connection_is_closed_when_the_reader_leaves(tmp_path: Path, directly: Directly) -> None:
    async with (
        served(plays(CHUNKED + b"4\r\none\n\r\n", ends=False)) as (server, url),
        client_of(kubeconfig(tmp_path / "k", url), directly) as client,
    ):
        async with client.stream("/watch", query={}, idle_seconds=5.0) as answer:
            assert await answer.read() == b"one\n"
            assert server.open
        await until(lambda: not server.open)


async def test_a_head_that_never_ends_is_given_up(tmp_path: Path, directly: Directly) -> None:
    async def endless(_number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(100_000):
            writer.write(b"X-%d: %s\r\n" % (number, b"x" * 1000))
            await writer.drain()

    async with (
        served(endless) as (_, url),
        client_of(kubeconfig(tmp_path / "k", url), directly) as client,
    ):
        with pytest.raises(ApiError) as caught:
            await body_of(client)
    assert (caught.value.status, caught.value.reason) in [(0, "NoAnswer"), (0, "AnswerTooLong")]
