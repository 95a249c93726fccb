"""What a write keeps on either of its ways, against servers that break off, fall silent, lie or never end."""

from __future__ import annotations

import asyncio
import datetime
import gc
import ipaddress
import socket
import ssl
import struct
import weakref
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scheduler.controller.watch.pages import Pages
from scheduler.controller.write.answers import Answer
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource
from scheduler.controller.write.direct import keep_alive_socket
from scheduler.controller.write.fence import Departure
from scheduler.controller.write.http_connections import IDLE_SECONDS, HttpConnections, Origin
from scheduler.controller.write.leadership import AlwaysHeld
from scheduler.errors import ApiError
from tests.controller.conftest import until
from tests.controller.write.test_credentials import kubeconfig

OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"

Play = Callable[[int, bytes, asyncio.StreamWriter], Awaitable[None]]
"""Answers a request: takes its number, its bytes, and where the answer goes."""


class Server:
    """A server of raw bytes. ``requests`` are those that came, ``connections`` how many were opened."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self.requests: list[bytes] = []
        self.connections = 0
        self.open: set[asyncio.StreamWriter] = set()
        self.certificates: list[Any] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.add(writer)
        self.certificates.append(writer.get_extra_info("peercert"))
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int((head.lower().partition(b"content-length:")[2].split() or [b"0"])[0])
                request = head + await reader.readexactly(length)
                self.requests.append(request)
                await self._play(len(self.requests), request, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            self.open.discard(writer)
            writer.close()


@asynccontextmanager
async def served(play: Play, context: ssl.SSLContext | None = None) -> AsyncIterator[tuple[Server, str]]:
    server = Server(play)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield server, f"{'http' if context is None else 'https'}://127.0.0.1:{port}"
    finally:
        listening.close()
        for writer in list(server.open):
            writer.transport.abort()
        await until(lambda: not server.open)


@asynccontextmanager
async def client_of(
    path: str, writes_directly: bool, *, environment: dict[str, str] | None = None, connections: int = 8
) -> AsyncIterator[ApiClient]:
    source = CredentialSource(ConnectionSettings(kubeconfig=path), environment or {})
    client = ApiClient(source, writes_directly=writes_directly, connections=connections)
    try:
        yield client
    finally:
        await client.close()


async def write(client: ApiClient, departure: Departure | None = None, seconds: float = 5.0) -> Answer:
    """As bindings and events are written: by a call, whose end is awaited here."""
    ended: asyncio.Future[Answer | Exception] = asyncio.get_running_loop().create_future()
    post = client.post("/write", b"{}", seconds, departure or Departure(AlwaysHeld()), ended.set_result)
    try:
        end = await ended
    except asyncio.CancelledError:
        post.cancel()
        raise
    if isinstance(end, Exception):
        raise end
    return end


async def error_of(play: Play, folder: Path, writes_directly: bool, seconds: float = 5.0) -> tuple[ApiError, Departure]:
    """What becomes of a write whose answer is played."""
    async with served(play) as (_, url), client_of(kubeconfig(folder / "k", url), writes_directly) as client:
        departure = Departure(AlwaysHeld())
        with pytest.raises(ApiError) as caught:
            await write(client, departure, seconds)
        return caught.value, departure


def plays(*chunks: bytes, ends: bool = True) -> Play:
    async def play(_number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        for chunk in chunks:
            writer.write(chunk)
            await writer.drain()
        if ends:
            writer.close()

    return play


@pytest.mark.parametrize(
    "chunks",
    [
        (),
        (b"HTTP/1.1 201 Cr",),
        (b"HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\nhalf",),
        (b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n",),
        (b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",),
    ],
    ids=["nothing", "half a head", "half a body", "half a chunk", "not HTTP", "two lengths", "an upgrade"],
)
async def test_an_answer_that_is_not_whole_leaves_it_open_what_became_of_the_write(
    tmp_path: Path, writes_directly: bool, chunks: tuple[bytes, ...]
) -> None:
    error, departure = await error_of(plays(*chunks), tmp_path, writes_directly)
    assert (error.status, error.reason, departure.has_left) == (0, "NoAnswer", True)


async def test_silence_ends_with_the_time_limit(tmp_path: Path, writes_directly: bool) -> None:
    error, departure = await error_of(plays(ends=False), tmp_path, writes_directly, seconds=0.05)
    assert (error.status, error.reason, departure.has_left) == (0, "Timeout", True)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 201 Created\r\n\r\n",
        b"HTTP/1.1 201 Created\r\nContent-Length: 1073741824\r\n\r\n",
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n40000000\r\n",
    ],
    ids=["until the end", "a gigabyte", "a chunk"],
)
async def test_an_answer_that_never_ends_is_given_up_at_its_limit(
    tmp_path: Path, writes_directly: bool, head: bytes
) -> None:
    sent = 0

    async def endless(_number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(head)
        while sent < 2**30:
            writer.write(bytes(2**18))
            sent += 2**18
            await writer.drain()

    error, departure = await error_of(endless, tmp_path, writes_directly, seconds=60.0)
    assert (error.status, error.reason, departure.has_left) == (0, "AnswerTooLong", True)
    # Beside the limit, what is under way in buffers of both ends.
    assert sent < (16 if writes_directly else 128) * 2**20 + 32 * 2**20


async def test_a_packed_answer_is_given_up_at_its_limit_of_unpacked_bytes(tmp_path: Path) -> None:
    packer = zlib.compressobj(wbits=31)
    packed = b"".join(packer.compress(bytes(2**20)) for _ in range(1024)) + packer.flush()
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    async with (
        served(plays(head + packed, ends=False)) as (_, url),
        client_of(kubeconfig(tmp_path / "k", url), False) as client,
    ):
        with pytest.raises(ApiError) as caught:
            await client.request("GET", "/api/v1/pods", body=b"", timeout_seconds=60.0)
    assert caught.value.reason == "AnswerTooLong"


async def test_a_list_whose_pages_are_too_long_is_read_in_shorter_ones(tmp_path: Path) -> None:
    limits: list[int] = []

    async def play(_number: int, request: bytes, writer: asyncio.StreamWriter) -> None:
        limits.append(int(request.partition(b"limit=")[2].split()[0].split(b"&")[0]))
        length = limits[-1] * 2**20
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + bytes(length))

    async with (
        served(play) as (_, url),
        client_of(kubeconfig(tmp_path / "k", url), False) as client,
    ):
        pages = Pages(client, "/api/v1/pods", {}, 200)
        assert len((await pages.request("")).body) == 100 * 2**20
        await pages.request("2")
        await pages.request("")
    assert limits == [200, 100, 100, 200, 100]


async def test_a_head_that_never_ends_is_given_up(tmp_path: Path, writes_directly: bool) -> None:
    async def endless(_number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 201 Created\r\n")
        for number in range(100_000):
            writer.write(b"X-%d: %s\r\n" % (number, b"x" * 1000))
            await writer.drain()

    error, _ = await error_of(endless, tmp_path, writes_directly, seconds=60.0)
    assert error.status == 0
    assert error.reason in ("AnswerTooLong", "NoAnswer")


@pytest.mark.parametrize(
    ("chunks", "ends"),
    [
        ((b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n", b"1\r\nk\r\n0\r\n\r\n"), False),
        ((b"HTTP/1.0 201 Created\r\n\r\no", b"k"), True),
        ((b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", OK), False),
        ((OK[:30], OK[30:]), False),
    ],
    ids=["chunks", "until the end", "after two hints", "in two parts"],
)
async def test_an_answer_may_come_in_any_form_of_http(
    tmp_path: Path, writes_directly: bool, chunks: tuple[bytes, ...], ends: bool
) -> None:
    async with (
        served(plays(*chunks, ends=ends)) as (_, url),
        client_of(kubeconfig(tmp_path / "k", url), writes_directly) as client,
    ):
        assert await write(client) == Answer(201, b"ok")


async def test_the_request_is_whole_and_says_who_asks(tmp_path: Path, writes_directly: bool) -> None:
    async with served(plays(OK, ends=False)) as (server, url):
        path = kubeconfig(tmp_path / "k", f"{url}/clusters/one", token="secret")
        async with client_of(path, writes_directly) as client:
            await write(client)
            await write(client)
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert (first, body) == ("POST /clusters/one/write HTTP/1.1", b"{}")
    assert headers["Host"] == url.partition("//")[2]
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Content-Type"] == headers["Accept"] == "application/json"
    assert headers["User-Agent"].startswith("tandem-scheduler/")
    assert server.connections == 1


async def test_a_late_answer_is_not_taken_for_that_of_the_next_write(tmp_path: Path, writes_directly: bool) -> None:
    late: list[asyncio.StreamWriter] = []

    async def play(number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        if number == 1:
            late.append(writer)
            return
        late[0].write(b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n")
        writer.write(OK)

    async with (
        served(play) as (server, url),
        client_of(kubeconfig(tmp_path / "k", url), writes_directly) as client,
    ):
        with pytest.raises(ApiError, match="in time"):
            await write(client, seconds=0.05)
        assert (await write(client)).status == 201
        assert server.connections == 2


async def test_a_cancelled_write_leaves_no_answer_to_the_next_one(tmp_path: Path, writes_directly: bool) -> None:
    async def play(number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        if number > 1:
            writer.write(OK)

    async with (
        served(play) as (server, url),
        client_of(kubeconfig(tmp_path / "k", url), writes_directly) as client,
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

    async with served(play) as (server, url), client_of(kubeconfig(tmp_path / "k", url), True) as client:
        assert [(await write(client)).status for _ in range(2)] == [201, 201]
        assert server.connections == 2


async def test_a_connection_that_the_server_has_closed_is_not_used_again(tmp_path: Path, writes_directly: bool) -> None:
    async with (
        served(plays(OK, ends=False)) as (server, url),
        client_of(kubeconfig(tmp_path / "k", url), writes_directly) as client,
    ):
        await write(client)
        for writer in list(server.open):
            writer.transport.abort()
        await until(lambda: not server.open)
        await asyncio.sleep(0.01)
        assert (await write(client)).status == 201


async def test_a_connection_whose_answer_closes_it_is_not_used_again(tmp_path: Path, writes_directly: bool) -> None:
    closing = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    async with (
        served(plays(closing, ends=False)) as (server, url),
        client_of(kubeconfig(tmp_path / "k", url), writes_directly) as client,
    ):
        assert [(await write(client)).status for _ in range(3)] == [201] * 3
        assert server.connections == 3


async def test_writes_at_once_open_no_more_connections_than_the_limit(tmp_path: Path, writes_directly: bool) -> None:
    opened = asyncio.Event()

    async def play(_number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        await opened.wait()
        writer.write(OK)

    async with (
        served(play) as (server, url),
        client_of(kubeconfig(tmp_path / "k", url), writes_directly, connections=6) as client,
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


async def test_handshakes_under_way_are_bounded_by_the_connections_there_are(tmp_path: Path) -> None:
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
    assert all(number < there + max(4, there) for number, there in enumerate(opened))


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


async def test_a_401_makes_the_token_be_read_again_once(tmp_path: Path, writes_directly: bool) -> None:
    (tmp_path / "token").write_text("old")

    async def play(_number: int, request: bytes, writer: asyncio.StreamWriter) -> None:
        if b"Bearer new" in request:
            writer.write(OK)
            return
        (tmp_path / "token").write_text("new")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")

    async with served(play) as (server, url):
        path = kubeconfig(tmp_path / "k", url, tokenFile=str(tmp_path / "token"))
        async with client_of(path, writes_directly) as client:
            assert (await write(client)).status == 201
    assert [b"Bearer new" in request for request in server.requests] == [False, True]


async def test_a_refusal_says_why_and_how_long_to_wait(tmp_path: Path, writes_directly: bool) -> None:
    status = b'{"kind":"Status","reason":"TooManyRequests","message":"slow down"}'
    head = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: %d\r\n\r\n" % len(status)
    error, _ = await error_of(plays(head + status, ends=False), tmp_path, writes_directly)
    assert (error.status, error.reason, error.message, error.retry_after) == (429, "TooManyRequests", "slow down", 7.0)


async def test_through_a_proxy_writes_leave_as_everything_else_does(tmp_path: Path, writes_directly: bool) -> None:
    async with served(plays(OK, ends=False)) as (proxy, url):
        path = kubeconfig(tmp_path / "k", "http://api.example:8080")
        async with client_of(path, writes_directly, environment={"HTTP_PROXY": url}) as client:
            assert (await write(client)).status == 201
    assert proxy.requests[0].startswith(b"POST http://api.example:8080/write ")


async def test_an_awaited_request_meets_the_same_answers(tmp_path: Path, writes_directly: bool) -> None:
    async def play(number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        if number == 2:
            writer.transport.abort()
        elif number < 4:
            writer.write(OK if number == 1 else b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n")

    async with (
        served(play) as (server, url),
        client_of(kubeconfig(tmp_path / "k", url), writes_directly) as client,
    ):

        async def send(seconds: float = 5.0) -> Answer:
            departure = Departure(AlwaysHeld())
            return await client.request("POST", "/write", body=b"{}", departure=departure, timeout_seconds=seconds)

        assert await send() == Answer(201, b"ok")
        for status, reason, seconds in ((0, "NoAnswer", 5.0), (409, "Conflict", 5.0), (0, "Timeout", 0.05)):
            with pytest.raises(ApiError) as caught:
                await send(seconds)
            assert (caught.value.status, caught.value.reason) == (status, reason)
        awaited = asyncio.create_task(send())
        await until(lambda: len(server.requests) == 5)
        awaited.cancel()
        await asyncio.gather(awaited, return_exceptions=True)
        assert awaited.cancelled()


async def test_what_a_cancelled_write_ends_with_is_not_reported(tmp_path: Path, writes_directly: bool) -> None:
    ends: list[object] = []
    async with (
        served(plays(ends=False)) as (server, url),
        client_of(kubeconfig(tmp_path / "k", url), writes_directly) as client,
    ):
        sent = client.post("/write", b"{}", 5.0, Departure(AlwaysHeld()), ends.append)
        await until(lambda: len(server.requests) == 1)
        sent.cancel()
        await until(lambda: not server.open)
    assert ends == []


async def test_a_write_leaves_nothing_to_the_garbage_collector(tmp_path: Path) -> None:
    class Noted(Departure):
        __slots__ = ("__weakref__",)

    async with served(plays(OK, ends=False)) as (_, url), client_of(kubeconfig(tmp_path / "k", url), True) as client:
        await write(client)
        gc.disable()
        try:
            departure = Noted(AlwaysHeld())
            left = weakref.ref(departure)
            await write(client, departure)
            del departure
            assert left() is None
        finally:
            gc.enable()


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX: y", "/\u00e4"])
async def test_a_path_that_is_none_is_not_sent(tmp_path: Path, path: str) -> None:
    async with (
        served(plays(OK, ends=False)) as (server, url),
        client_of(kubeconfig(tmp_path / "k", url), True) as client,
    ):
        with pytest.raises(ValueError, match="is no path"):
            await client.request("POST", path, body=b"{}", departure=Departure(AlwaysHeld()))
    assert server.requests == []


# --- TLS --------------------------------------------------------------------------------------------------------------


def certificate_of(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate of its own authority for 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / f"{name}.crt", folder / f"{name}.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    return certificate, private


def tls_kubeconfig(folder: Path, url: str, authority: Path, user: dict[str, Any], **cluster: Any) -> str:
    trusted = b64encode(authority.read_bytes()).decode()
    config = {
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority-data": trusted, **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
    }
    (folder / "config").write_bytes(msgspec.yaml.encode(config))
    return str(folder / "config")


def server_context(folder: Path, *clients: Path) -> tuple[ssl.SSLContext, Path]:
    certificate, key = certificate_of(folder, "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        for client in clients:
            context.load_verify_locations(client)
    return context, certificate


def run_in(loop: str, main: Coroutine[Any, Any, None]) -> None:
    """uvloop's TLS is its own: what production runs on is what is tested."""
    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_over_tls_the_client_s_certificate_is_shown_and_a_new_one_gets_new_connections(
    tmp_path: Path, writes_directly: bool, loop: str
) -> None:
    async def main() -> None:
        first, second = certificate_of(tmp_path, "first"), certificate_of(tmp_path, "second")
        context, authority = server_context(tmp_path, first[0], second[0])
        refused = False

        async def play(number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n" if refused and number == 3 else OK)

        async with served(play, context) as (server, url):

            def config(pair: tuple[Path, Path]) -> str:
                user = {"client-certificate": str(pair[0]), "client-key": str(pair[1])}
                return tls_kubeconfig(tmp_path, url, authority, user)

            async with client_of(config(first), writes_directly) as client:
                assert [(await write(client)).status for _ in range(2)] == [201, 201]
                config(second)
                refused = True
                assert (await write(client)).status == 201
        subjects = [dict(part[0] for part in shown["subject"])["commonName"] for shown in server.certificates]
        assert subjects == ["first", "second"]

    run_in(loop, main())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("fault", ["authority", "name"])
def test_a_server_that_is_not_trusted_gets_no_byte_of_a_write(
    tmp_path: Path, writes_directly: bool, loop: str, fault: str
) -> None:
    async def main() -> None:
        context, authority = server_context(tmp_path)
        other, _ = certificate_of(tmp_path, "other")
        async with served(plays(OK, ends=False), context) as (server, url):
            options = {"tls-server-name": "api.example"} if fault == "name" else {}
            path = tls_kubeconfig(
                tmp_path, url, other if fault == "authority" else authority, {"token": "t"}, **options
            )
            async with client_of(path, writes_directly) as client:
                departure = Departure(AlwaysHeld())
                with pytest.raises(ApiError) as caught:
                    await write(client, departure)
        assert (caught.value.reason, departure.has_left, server.requests) == ("BadCertificate", False, [])

    run_in(loop, main())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_over_tls_a_burst_is_answered_and_a_cut_leaves_it_open_what_became_of_a_write(
    tmp_path: Path, writes_directly: bool, loop: str
) -> None:
    async def main() -> None:
        context, authority = server_context(tmp_path)

        async def play(number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
            if number == 201:
                writer.transport.abort()
            else:
                writer.write(OK)

        async with served(play, context) as (_, url):
            path = tls_kubeconfig(tmp_path, url, authority, {"token": "t"})
            async with client_of(path, writes_directly) as client:
                answers = await asyncio.gather(*(write(client) for _ in range(200)))
                assert {answer.body for answer in answers} == {b"ok"}
                departure = Departure(AlwaysHeld())
                with pytest.raises(ApiError) as caught:
                    await write(client, departure)
                assert (caught.value.status, departure.has_left) == (0, True)
                assert (await write(client)).status == 201

    run_in(loop, main())
