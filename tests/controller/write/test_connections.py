"""How connections are used again, how many there are, and what becomes of those that are lost."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler.controller.write.client import Directly
from scheduler.controller.write.direct import keep_alive_socket
from scheduler.controller.write.fence import Departure
from scheduler.controller.write.http_connections import IDLE_SECONDS, MAX_OPENING, HttpConnections, Origin
from scheduler.controller.write.http_exchange import Connection
from scheduler.controller.write.leadership import AlwaysHeld
from scheduler.errors import ApiError
from tests.controller.conftest import until
from tests.controller.write.conftest import left_in_memory
from tests.controller.write.scripted_server import OK, client_of, plays, served, write
from tests.controller.write.test_credentials import kubeconfig


async def test_a_late_answer_is_not_taken_for_that_of_the_next_write(tmp_path: Path, directly: Directly) -> None:
    late: list[asyncio.StreamWriter] = []

    async def play(number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        if number == 1:
            late.append(writer)
            return
        late[0].write(b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n")
        writer.write(OK)

    async with (
        served(play) as (server, url),
        client_of(kubeconfig(tmp_path / "k", url), directly) as client,
    ):
        with pytest.raises(ApiError, match="in time"):
            await write(client, seconds=0.05)
        assert (await write(client)).status == 201
        assert server.connections == 2


async def test_a_cancelled_write_leaves_no_answer_to_the_next_one(tmp_path: Path, directly: Directly) -> None:
    async def play(number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        if number > 1:
            writer.write(OK)

    async with (
        served(play) as (server, url),
        client_of(kubeconfig(tmp_path / "k", url), directly) as client,
    ):
        cancelled = asyncio.create_task(write(client))
        await until(lambda: len(server.requests) == 1)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        assert (await write(client)).status == 201
        assert server.connections == 2


async def test_an_answer_too_many_is_not_taken_for_that_of_the_next_write(tmp_path: Path) -> None:
    async def play(number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(OK if number > 1 else OK + b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n")

    async with served(play) as (server, url), client_of(kubeconfig(tmp_path / "k", url), Directly.ALL) as client:
        assert [(await write(client)).status for _ in range(2)] == [201, 201]
        assert server.connections == 2


async def test_a_connection_that_the_server_has_closed_is_not_used_again(tmp_path: Path, directly: Directly) -> None:
    async with (
        served(plays(OK, ends=False)) as (server, url),
        client_of(kubeconfig(tmp_path / "k", url), directly) as client,
    ):
        await write(client)
        for writer in list(server.open):
            writer.transport.abort()
        await until(lambda: not server.open)
        await asyncio.sleep(0.01)
        assert (await write(client)).status == 201


async def test_a_connection_whose_answer_closes_it_is_not_used_again(tmp_path: Path, directly: Directly) -> None:
    closing = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    async with (
        served(plays(closing, ends=False)) as (server, url),
        client_of(kubeconfig(tmp_path / "k", url), directly) as client,
    ):
        assert [(await write(client)).status for _ in range(3)] == [201] * 3
        assert server.connections == 3


async def test_writes_at_once_open_no_more_connections_than_the_limit(tmp_path: Path, directly: Directly) -> None:
    opened = asyncio.Event()

    async def play(_number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        await opened.wait()
        writer.write(OK)

    async with (
        served(play) as (server, url),
        client_of(kubeconfig(tmp_path / "k", url), directly, connections=6) as client,
    ):
        writes = [asyncio.create_task(write(client)) for _ in range(50)]
        await until(lambda: len(server.requests) == 6)
        late = asyncio.create_task(write(client, departure := Departure(AlwaysHeld()), 0.05))
        with pytest.raises(ApiError, match="in time"):
            await late
        assert not departure.has_left
        opened.set()
        assert {answer.status for answer in await asyncio.gather(*writes)} == {201}
        assert server.connections == 6


async def test_a_burst_opens_a_few_connections_with_each_round_trip(tmp_path: Path) -> None:
    async with served(plays(OK, ends=False)) as (server, url):
        port = int(url.rpartition(":")[2])
        opened: list[int] = []

        def make_socket(address: Any) -> socket.socket:
            opened.append(pool.open_connections)
            return keep_alive_socket(address)

        pool = HttpConnections(Origin("127.0.0.1", port), 128, make_socket)
        request = b"POST /write HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
        await asyncio.gather(*(pool.send(request, 5.0, None) for _ in range(500)))
        await pool.close()
    assert len(opened) == server.connections <= 128
    assert all(number < there + MAX_OPENING for number, there in enumerate(opened))


@pytest.mark.usefixtures("without_collector")
async def test_a_connection_that_is_closed_waits_for_no_garbage_collector() -> None:
    """What has lived for long is collected only once memory has doubled."""
    async with served(plays(OK, ends=False)) as (_, url):
        pool = HttpConnections(
            Origin("127.0.0.1", int(url.rpartition(":")[2])), 4, keep_alive_socket, idle_seconds=0.05
        )
        await pool.send(b"POST /write HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 5.0, None)
        assert left_in_memory(Connection) == 1
        await until(lambda: not pool.open_connections)
        await asyncio.sleep(0)
        assert left_in_memory(Connection) == 0
        await pool.close()


@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
async def test_a_server_that_closes_what_it_accepts_fails_each_request_once_and_takes_no_place_for_ever(
    is_reset: bool,
) -> None:
    accepted = 0
    is_healthy = False

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        if is_healthy:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
        elif is_reset:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.close()

    request = b"POST /write HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        pool = HttpConnections(Origin("127.0.0.1", port), 4, keep_alive_socket)
        sent = [pool.send(request, 5.0, None) for _ in range(40)]
        failed = await asyncio.gather(*sent, return_exceptions=True)
        assert all(isinstance(one, OSError) and not isinstance(one, TimeoutError) for one in failed)
        # Up to four may be opened for requests that another one has failed meanwhile.
        assert accepted <= 40 + 4
        is_healthy = True
        assert (await pool.send(request, 5.0, None)).status == 201
        await pool.close()


@pytest.mark.parametrize("turns", [0, 1, 2], ids=["as it opens", "before it is handed over", "before it is used"])
async def test_a_connection_that_is_lost_as_it_opens_fails_one_request_and_frees_its_place(
    monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """As after a handshake whose server closes before the task goes on, or a few turns of the loop later."""
    loop = asyncio.get_running_loop()
    connect = loop.create_connection
    is_lost = True

    async def lost_as_it_opens(*arguments: Any, **options: Any) -> Any:
        transport, connection = await connect(*arguments, **options)
        if is_lost and turns == 0:
            transport.abort()
            await connection.lost
        elif is_lost:
            in_turns(turns, transport.abort)
        return transport, connection

    def in_turns(number: int, call: Callable[[], None]) -> None:
        loop.call_soon(call if number == 1 else lambda: in_turns(number - 1, call))

    monkeypatch.setattr(loop, "create_connection", lost_as_it_opens)
    request = b"POST /write HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
    async with served(plays(OK, ends=False)) as (server, url):
        pool = HttpConnections(Origin("127.0.0.1", int(url.rpartition(":")[2])), 2, keep_alive_socket)
        for _ in range(3):
            with pytest.raises(ConnectionError):
                await pool.send(request, 2.0, None)
        await until(lambda: pool.open_connections == 0)
        assert server.connections <= 6
        is_lost = False
        assert (await pool.send(request, 2.0, None)).status == 201
        await pool.close()


async def test_an_unused_connection_is_closed_after_a_while() -> None:
    assert IDLE_SECONDS == 60.0
    async with served(plays(OK, ends=False)) as (server, url):
        port = int(url.rpartition(":")[2])
        pool = HttpConnections(Origin("127.0.0.1", port), 4, keep_alive_socket, idle_seconds=0.02)
        request = b"POST /write HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
        assert (await pool.send(request, 5.0, None)).status == 201
        await until(lambda: not server.open and not pool.open_connections)
        assert (await pool.send(request, 5.0, None)).status == 201
        await pool.close()
