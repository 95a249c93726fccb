"""Forwarded ports, against a server that sends back what it gets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp import WSMsgType, web

from scheduler.cli.port_forward import DATA, ERROR, PROTOCOL, Forward, ForwardFailure, forwarded
from scheduler.controller.write.credentials import Credentials
from tests.cli.test_connection import Recording, serving
from tests.limits import WAIT_SECONDS

PORT = b"\x0a\x28"


async def echo(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(protocols=(PROTOCOL,))
    await socket.prepare(request)
    for channel in (DATA, ERROR):
        await socket.send_bytes(channel + PORT)
    async for message in socket:
        if message.type is WSMsgType.BINARY:
            await socket.send_bytes(message.data)
    return socket


@asynccontextmanager
async def forwarding() -> AsyncIterator[Forward]:
    application = web.Application()
    application.router.add_get("/{path:.*}", echo)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with forwarded(Credentials(server, "a test"), "default", "p", 10280, WAIT_SECONDS) as forward:
            yield forward
    finally:
        await runner.cleanup()


def of_the_forward() -> list[asyncio.Task[Any]]:
    """The tasks that a forwarded connection has made."""
    return [one for one in asyncio.all_tasks() if getattr(one.get_coro(), "__qualname__", "").startswith("Forward.")]


def errors_of_the_loop() -> list[dict[str, Any]]:
    """What the loop reports from now on, in the order of the reports."""
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reports.append(context))
    return reports


async def test_one_connection_is_forwarded_and_ends_with_the_block() -> None:
    reports = errors_of_the_loop()
    async with forwarding() as forward:
        reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        other, closing = await asyncio.open_connection("127.0.0.1", forward.port)
        assert await other.read() == b"", "one connection only"
        closing.close()
    assert await reader.read() == b""
    writer.close()
    assert (of_the_forward(), reports) == ([], [])


async def test_a_connection_that_is_cancelled_with_the_program_is_no_error() -> None:
    """As asyncio.run does at the end of a program: every task is cancelled, in any order."""
    reports = errors_of_the_loop()
    async with forwarding() as forward:
        reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        ended = of_the_forward()
        assert ended
        for task in ended:
            task.cancel()
        with suppress(ConnectionError):
            assert await reader.read() == b""
        await asyncio.wait(ended)
        writer.close()
    assert reports == []


async def test_a_client_that_resets_its_connection_is_no_error() -> None:
    reports = errors_of_the_loop()
    async with forwarding() as forward:
        _, writer = await asyncio.open_connection("127.0.0.1", forward.port)
        writer.write(b"hello" * 100_000)
        writer.transport.abort()
        async with asyncio.timeout(WAIT_SECONDS):
            while not of_the_forward():  # noqa: ASYNC110
                await asyncio.sleep(0)
            await asyncio.wait(of_the_forward())
    assert reports == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_another_server_is_not_followed(status: int) -> None:
    """The request has the user's credentials for the API server."""
    async with serving(Recording()) as thief:
        redirect = web.Response(status=status, headers={"Location": thief.url.replace("http", "ws", 1)})
        async with serving(Recording(redirect)) as server:
            with pytest.raises(ForwardFailure):
                async with forwarded(
                    Credentials(server.url, "a test", "Bearer secret"), "default", "p", 10280, WAIT_SECONDS
                ):
                    pass
            assert server.seen == ["Bearer secret"]
        assert thief.seen == []
