"""The connections of streams: unread bytes, and which connections serve the next request."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from scheduler.controller.write.client import ApiClient, Directly
from scheduler.controller.write.http_exchange import Connection
from scheduler.controller.write.http_stream import MAX_UNREAD_BYTES, Stream
from scheduler.errors import ApiError
from tests.controller.conftest import until
from tests.controller.write.conftest import left_in_memory
from tests.controller.write.scripted_server import OK, Play, client_of, plays, served, write
from tests.controller.write.test_credentials import kubeconfig

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def read_all(client: ApiClient, idle_seconds: float = 5.0) -> bytes:
    body = b""
    async with client.stream("/watch", query={}, idle_seconds=idle_seconds) as stream:
        while part := await stream.read():
            body += part
    return body


async def test_a_stream_is_read_to_its_end_and_its_connection_serves_the_next_request(
    tmp_path: Path, directly: Directly
) -> None:
    play = plays(HEAD + chunk(b"one"), chunk(b"two") + END, ends=False)
    async with served(play) as (server, url), client_of(kubeconfig(tmp_path / "k", url), directly) as client:
        assert [await read_all(client) for _ in range(2)] == [b"onetwo"] * 2
        assert server.connections == 1


async def test_a_stream_that_speaks_now_and_then_lasts_longer_than_a_silence_may(
    tmp_path: Path, directly: Directly
) -> None:
    async def play(_number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        for _ in range(8):
            writer.write(chunk(b"x"))
            await asyncio.sleep(0.06)
        writer.write(END)

    async with served(play) as (_, url), client_of(kubeconfig(tmp_path / "k", url), directly) as client:
        assert await read_all(client, idle_seconds=0.4) == b"x" * 8


@pytest.mark.usefixtures("without_collector")
async def test_a_stream_that_falls_silent_waits_for_no_garbage_collector(tmp_path: Path) -> None:
    """What has lived for long is collected only once memory has doubled."""
    async with (
        served(plays(HEAD + chunk(b"x"), ends=False)) as (_, url),
        client_of(kubeconfig(tmp_path / "k", url), Directly.ALL) as client,
    ):
        with pytest.raises(ApiError, match="in time"):
            await read_all(client, idle_seconds=0.05)
        await asyncio.sleep(0.01)
        assert left_in_memory(Stream) == left_in_memory(Connection) == 0


async def test_a_stream_that_is_not_read_takes_a_bounded_number_of_bytes(tmp_path: Path) -> None:
    """Later it goes on where it was, and no byte is missing."""
    sent = 0
    data = b"x" * 2**16
    total = 512

    async def play(_number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(HEAD)
        for _ in range(total):
            writer.write(chunk(data))
            await writer.drain()
            sent += len(data)
        writer.write(END)

    async with (
        served(play) as (_, url),
        client_of(kubeconfig(tmp_path / "k", url), Directly.ALL) as client,
        client.stream("/watch", query={}, idle_seconds=5.0) as stream,
    ):
        await until(lambda: stream.is_paused)  # type: ignore[attr-defined]
        assert MAX_UNREAD_BYTES < stream.unread_bytes < 2 * MAX_UNREAD_BYTES  # type: ignore[attr-defined]
        assert sent < total * len(data)
        size = 0
        while part := await stream.read():
            size += len(part)
        assert size == total * len(data)


async def test_the_connection_of_a_stream_that_ended_unread_serves_the_next_request(tmp_path: Path) -> None:
    long = HEAD + chunk(b"x" * (MAX_UNREAD_BYTES + 1)) + END

    async def play(number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(long if number == 1 else OK)

    async with served(play) as (_, url), client_of(kubeconfig(tmp_path / "k", url), Directly.ALL) as client:
        async with client.stream("/watch", query={}, idle_seconds=5.0) as stream:
            await until(lambda: stream.last is not None or stream.is_paused)  # type: ignore[attr-defined]
        assert (await write(client)).status == 201


async def test_a_stream_that_is_cancelled_before_its_head_closes_its_connection(
    tmp_path: Path, directly: Directly
) -> None:
    play: Play = plays(ends=False)
    async with served(play) as (server, url), client_of(kubeconfig(tmp_path / "k", url), directly) as client:
        reading = asyncio.create_task(read_all(client))
        await until(lambda: len(server.requests) == 1)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert reading.cancelled()
        await until(lambda: not server.open)
