"""Misbehaving clients of the pages, and the addresses on which the pages are served."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gzip
import ipaddress
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from scheduler.controller.report.metrics import SchedulerMetrics
from scheduler.controller.serve.authentication import MAX_TOKEN_CHARACTERS
from scheduler.controller.serve.connection_limits import ConnectionLimits
from scheduler.controller.serve.connections import Connections
from scheduler.controller.serve.listening import listening_sockets
from scheduler.controller.serve.server import HealthServer
from scheduler.controller.serve.serving_settings import ServingSettings
from scheduler.controller.serve.tls import ServingCertificate, TlsSettings
from scheduler.errors import ConfigurationError
from tests.controller.conftest import until
from tests.controller.serve.test_tls import trusting_all

WITHOUT_IPV6 = not socket.has_ipv6
with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as _probe:
    try:
        _probe.bind(("::1", 0))
    except OSError:
        WITHOUT_IPV6 = True
needs_ipv6 = pytest.mark.skipif(WITHOUT_IPV6, reason="this machine has no ::1")


@asynccontextmanager
async def serving(
    address: str = "127.0.0.1", certificate: ServingCertificate | None = None, **limits: float
) -> AsyncIterator[HealthServer]:
    server = HealthServer(
        ServingSettings(address, 1, certificate, None, ConnectionLimits(**limits)),  # type: ignore[arg-type]
        SchedulerMetrics().registry,
        ready_checks={},
    )
    await server.start_on(0)
    try:
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def connected(
    server: HealthServer, sent: bytes = b"", count: int = 1
) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Connections that have sent these bytes and send no more."""
    pairs = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(count)]
    try:
        for _, writer in pairs:
            writer.write(sent)
        yield [reader for reader, _ in pairs]
    finally:
        for _, writer in pairs:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def status_of(url: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(url, ssl=trusting_all()) as response:
        return response.status


@pytest.mark.parametrize("sent", [b"", b"GET /livez", b"GET /livez HTTP/1.1\r\nHost: a\r\nX-", b"GET /l HTTP/1.1\r\n"])
async def test_a_request_that_is_never_finished_does_not_stay_open(sent: bytes) -> None:
    async with serving(head_seconds=0.1) as server, connected(server, sent) as (reader,):
        assert await reader.read() == b""
        assert server.connections.counts.overdue == 1
        assert len(server.connections) == 0


async def test_a_connection_that_asks_nothing_more_ends_after_its_time() -> None:
    request = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
    async with serving(idle_seconds=0.1) as server, connected(server, request) as (reader,):
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert answer.endswith(b"ok")


async def test_a_tls_handshake_that_never_ends_does_not_stay_open() -> None:
    certificate = ServingCertificate(TlsSettings(), "host")
    async with serving(certificate=certificate, handshake_seconds=0.1) as server, connected(server, b"\x16") as (one,):
        await until(lambda: server.connections.counts.accepted == 1)
        assert len(server.connections) == 1
        with contextlib.suppress(ConnectionError):
            assert await one.read() == b""
        await until(lambda: len(server.connections) == 0)
        assert await status_of(f"https://127.0.0.1:{server.port}/livez") == 200


async def test_a_handshake_that_is_under_way_has_ended_when_the_pages_are_closed() -> None:
    certificate = ServingCertificate(TlsSettings(), "host")
    async with serving(certificate=certificate) as server, connected(server, b"\x16"):
        await until(lambda: server.connections.counts.accepted == 1)
        await server.close()
        assert [task for task in asyncio.all_tasks() if task.get_name() == "connection"] == []


async def test_a_newcomer_is_refused_and_counted_where_each_connection_has_a_request_that_is_answered() -> None:
    connections = Connections(lambda: None, ConnectionLimits(connections=1))
    is_asked, may_answer = asyncio.Event(), asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        is_asked.set()
        await may_answer.wait()
        return web.Response(text="ok")

    application = web.Application(middlewares=[connections.marking()])
    application.router.add_get("/", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    [listening] = listening_sockets("127.0.0.1", 0)
    assert runner.server is not None
    connections.serve([listening], runner.server)
    port = listening.getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    await until(is_asked.is_set)
    newcomer, its_writer = await asyncio.open_connection("127.0.0.1", port)
    assert await newcomer.read() == b""
    assert (connections.counts.accepted, connections.counts.refused, connections.counts.displaced) == (2, 1, 0)
    may_answer.set()
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 OK")
    for one in (writer, its_writer):
        one.close()
    await connections.stop_accepting()
    await runner.cleanup()
    await connections.close()


class WithoutFiles(socket.socket):
    """A listening socket of a process that has no room for another open file, until it has refused thrice."""

    refusals = 3

    def accept(self) -> tuple[socket.socket, Any]:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


async def test_connections_that_cannot_be_accepted_are_logged_once_until_one_can_be(
    log_lines: list[dict[str, Any]],
) -> None:
    connections = Connections(lambda: None, ConnectionLimits())
    listening = WithoutFiles()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    listening.setblocking(False)
    connections.serve([listening], asyncio.Protocol)
    for accepted in (1, 2):
        listening.refusals = 3
        _, writer = await asyncio.open_connection(*listening.getsockname())
        await until(lambda: connections.counts.accepted == accepted)  # noqa: B023 - called before the next round
        writer.close()
    await connections.stop_accepting()
    await connections.close()
    assert [line["event"] for line in log_lines] == ["Connection could not be accepted"] * 2


async def test_a_head_beyond_its_limit_is_refused() -> None:
    endless = b"GET /livez HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (number, b"a" * 4000) for number in range(20))
    async with serving(head_bytes=20_000) as server, connected(server, endless) as (reader,):
        with contextlib.suppress(ConnectionError):
            assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
        await until(lambda: len(server.connections) == 0)


@pytest.mark.parametrize("first", [b"\r\n\r\n", b"\n\n\r\n\r\n", b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"])
async def test_empty_lines_before_a_head_are_not_its_end(first: bytes) -> None:
    endless = b"\r\nGET /livez HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (one, b"a" * 4000) for one in range(10))
    async with serving(head_bytes=20_000) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            writer.write(first)
            if first.startswith(b"GET"):
                await reader.readuntil(b"ok")
            writer.write(endless)
            assert (await reader.readline()).startswith(b"HTTP/1.1 431 ")
        finally:
            writer.close()


async def test_empty_lines_without_end_are_refused() -> None:
    async with serving(head_bytes=20_000) as server, connected(server, b"\r\n" * 20_000) as (reader,):
        assert (await reader.readline()).startswith(b"HTTP/1.1 431 ")


async def test_a_token_may_be_as_long_as_it_is_read() -> None:
    """As those of users who are in hundreds of groups."""
    request = b"GET /livez HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %b\r\n\r\n" % (b"a" * MAX_TOKEN_CHARACTERS)
    async with serving() as server, connected(server, request) as (reader,):
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("request_line", [b"GET /livez HTTP/1.1", b"DELETE /metrics HTTP/1.1", b"H"])
async def test_a_request_without_tls_is_answered_as_by_kube_scheduler(request_line: bytes) -> None:
    certificate = ServingCertificate(TlsSettings(), "host")
    async with serving(certificate=certificate) as server:
        async with connected(server, request_line + b"\r\nHost: a\r\n\r\n") as (reader,):
            assert await reader.read() == (
                b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
            )
        await until(lambda: len(server.connections) == 0)
        assert await status_of(f"https://127.0.0.1:{server.port}/livez") == 200


async def test_who_connects_and_says_nothing_over_tls_does_not_stay_open() -> None:
    certificate = ServingCertificate(TlsSettings(), "host")
    async with serving(certificate=certificate, handshake_seconds=0.1) as server, connected(server) as (reader,):
        assert await reader.read() == b""
        await until(lambda: len(server.connections) == 0)


async def test_what_a_client_packs_is_not_unpacked() -> None:
    """A megabyte may be a second's work, at the wish of any client."""
    packed = gzip.compress(b"a" * 100_000)

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    server = HealthServer(
        ServingSettings("127.0.0.1", 1), SchedulerMetrics().registry, ready_checks={}, routes=(web.post("/echo", echo),)
    )
    await server.start_on(0)
    head = b"POST /echo HTTP/1.0\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    async with connected(server, head + packed) as (reader,):
        assert (await reader.read()).endswith(b"\r\n\r\n" + packed)
    await server.close()


async def test_a_body_that_is_not_what_its_headers_say_is_no_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    request = b"POST /livez HTTP/1.0\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"
    async with serving() as server:
        async with connected(server, request) as (reader,):
            assert b" 200 " in await reader.read()
        await until(lambda: len(server.connections) == 0)
    assert caplog.records == []


@pytest.mark.parametrize("header", [b"Accept: text/plain", b"Expect: 200-ok"])
async def test_nothing_waits_for_the_body_of_a_client_that_is_gone(header: bytes) -> None:
    """Else a client leaves behind, with each connection that it opens and closes, what is remembered for 10 s."""
    request = b"POST /livez HTTP/1.1\r\nHost: a\r\n%b\r\nContent-Length: 100\r\n\r\n" % header
    async with serving() as server:
        before = asyncio.all_tasks()
        async with connected(server, request, count=5) as readers:
            for reader in readers:
                assert (await reader.readline()).startswith(b"HTTP/1.1 ")
        async with asyncio.timeout(5.0):
            await until(lambda: asyncio.all_tasks() <= before)


async def test_newcomers_displace_those_that_wait_longest_and_probes_get_through() -> None:
    limits: dict[str, Any] = {"connections": 20, "connections_of_address": 20}
    async with serving(**limits) as server, connected(server, b"GET /livez", count=60):
        assert await status_of(f"http://127.0.0.1:{server.port}/livez") == 200
        assert len(server.connections) <= 20
        assert server.connections.counts.displaced >= 40


async def test_one_address_does_not_take_all_connections() -> None:
    async with serving(connections=100, connections_of_address=5) as server, connected(server, b"GET", count=30):
        await until(lambda: server.connections.counts.accepted == 30)
        assert len(server.connections) == 5


async def test_what_is_no_http_is_refused_without_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as server:
        for nonsense in (b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nA\xff B: c\r\n\r\n"):
            async with connected(server, nonsense + b"\r\n\r\n") as (reader,):
                assert b" 400 " in await reader.readline()
        await until(lambda: len(server.connections) == 0)
    assert caplog.records == []


async def test_closing_does_not_wait_for_those_that_never_finish() -> None:
    async with serving() as server, connected(server, b"GET /", count=3) as readers:
        await until(lambda: server.connections.counts.accepted == 3)
        await server.close()
        assert len(server.connections) == 0
        for reader in readers:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""


@needs_ipv6
@pytest.mark.parametrize("address", ["0.0.0.0", "::", ""])
async def test_no_particular_address_means_all_addresses_of_both_families(address: str) -> None:
    async with serving(address) as server:
        assert await status_of(f"http://[::1]:{server.port}/livez") == 200
        assert await status_of(f"http://127.0.0.1:{server.port}/livez") == 200


@needs_ipv6
async def test_an_address_of_one_family_is_listened_on_alone() -> None:
    async with serving("::1") as server:
        assert await status_of(f"http://[::1]:{server.port}/livez") == 200
        with pytest.raises(aiohttp.ClientConnectionError):
            await status_of(f"http://127.0.0.1:{server.port}/livez")


async def test_the_name_of_a_host_means_its_addresses() -> None:
    sockets = listening_sockets("localhost", 0)
    try:
        assert all(ipaddress.ip_address(one.getsockname()[0]).is_loopback for one in sockets)
    finally:
        for one in sockets:
            one.close()


async def test_without_ipv6_all_addresses_of_ipv4_are_listened_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_ipv6", False)
    async with serving("0.0.0.0") as server:
        assert await status_of(f"http://127.0.0.1:{server.port}/livez") == 200


def test_an_address_that_is_not_ours_is_one_clear_line() -> None:
    with pytest.raises(ConfigurationError, match=r"^failed to listen on 203\.0\.113\.1:0: "):
        listening_sockets("203.0.113.1", 0)
    with pytest.raises(ConfigurationError, match=r"^failed to listen on no such host:0: "):
        listening_sockets("no such host", 0)
