"""What a write keeps on either of its ways, against servers that break off, fall silent, lie or never end."""

from __future__ import annotations

import asyncio
import gc
import weakref
import zlib
from pathlib import Path

import pytest

from scheduler.controller.loop import read_clock
from scheduler.controller.watch.pages import Pages
from scheduler.controller.write.begun import BegunWrite
from scheduler.controller.write.client import Directly
from scheduler.controller.write.direct import Outgoing
from scheduler.controller.write.events import EventRecorder, EventWrite
from scheduler.controller.write.fence import Departure
from scheduler.controller.write.http_exchange import Answer
from scheduler.controller.write.leadership import AlwaysHeld
from scheduler.controller.write.outbox import Outbox
from scheduler.controller.write.pacing import MIN_PLACES
from scheduler.controller.write.requests import WriteRequests
from scheduler.controller.write.writer import PodWrite, Writer
from scheduler.controller.write.writer_settings import WriterSettings
from scheduler.errors import ApiError
from scheduler.messages.commands import BindPod, WriteEvent
from scheduler.messages.references import PodReference
from scheduler.messages.stimuli import WriteFinished
from scheduler.simulate.ports import free_ports
from tests.controller.conftest import until
from tests.controller.write.scripted_server import OK, client_of, error_of, plays, served, write
from tests.controller.write.test_credentials import kubeconfig


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
    tmp_path: Path, directly: Directly, chunks: tuple[bytes, ...]
) -> None:
    error, departure = await error_of(plays(*chunks), tmp_path, directly)
    assert (error.status, error.reason, departure.has_left) == (0, "NoAnswer", True)


async def test_silence_ends_with_the_time_limit(tmp_path: Path, directly: Directly) -> None:
    error, departure = await error_of(plays(ends=False), tmp_path, directly, seconds=0.5)
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
    tmp_path: Path, directly: Directly, head: bytes
) -> None:
    sent = 0

    async def endless(_number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(head)
        while sent < 2**30:
            writer.write(bytes(2**18))
            sent += 2**18
            await writer.drain()

    error, departure = await error_of(endless, tmp_path, directly, seconds=60.0)
    assert (error.status, error.reason, departure.has_left) == (0, "AnswerTooLong", True)
    # Beside the limit, what is under way in buffers of both ends.
    assert sent < (16 if directly is Directly.ALL else 128) * 2**20 + 32 * 2**20


async def test_a_packed_answer_is_given_up_at_its_limit_of_unpacked_bytes(tmp_path: Path) -> None:
    packer = zlib.compressobj(wbits=31)
    packed = b"".join(packer.compress(bytes(2**20)) for _ in range(1024)) + packer.flush()
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    async with (
        served(plays(head + packed, ends=False)) as (_, url),
        client_of(kubeconfig(tmp_path / "k", url), Directly.NOTHING) as client,
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
        client_of(kubeconfig(tmp_path / "k", url), Directly.NOTHING) as client,
    ):
        pages = Pages(client, "/api/v1/pods", {}, 200)
        assert len((await pages.request("")).body) == 100 * 2**20
        await pages.request("2")
        await pages.request("")
    assert limits == [200, 100, 100, 200, 100]


async def test_a_head_that_never_ends_is_given_up(tmp_path: Path, directly: Directly) -> None:
    async def endless(_number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 201 Created\r\n")
        for number in range(100_000):
            writer.write(b"X-%d: %s\r\n" % (number, b"x" * 1000))
            await writer.drain()

    error, _ = await error_of(endless, tmp_path, directly, seconds=60.0)
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
    tmp_path: Path, directly: Directly, chunks: tuple[bytes, ...], ends: bool
) -> None:
    async with (
        served(plays(*chunks, ends=ends)) as (_, url),
        client_of(kubeconfig(tmp_path / "k", url), directly) as client,
    ):
        assert await write(client) == Answer(201, b"ok")


async def test_the_request_is_whole_and_says_who_asks(tmp_path: Path, directly: Directly) -> None:
    async with served(plays(OK, ends=False)) as (server, url):
        path = kubeconfig(tmp_path / "k", f"{url}/clusters/one", token="secret")
        async with client_of(path, directly) as client:
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
    if directly is not Directly.NOTHING:
        assert headers["Accept-Encoding"] == "identity", "what is between the two may ask for compression otherwise"
    assert server.connections == 1


async def test_a_401_makes_the_token_be_read_again_once(tmp_path: Path, directly: Directly) -> None:
    (tmp_path / "token").write_text("old")

    async def play(_number: int, request: bytes, writer: asyncio.StreamWriter) -> None:
        if b"Bearer new" in request:
            writer.write(OK)
            return
        (tmp_path / "token").write_text("new")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")

    async with served(play) as (server, url):
        path = kubeconfig(tmp_path / "k", url, tokenFile=str(tmp_path / "token"))
        async with client_of(path, directly) as client:
            assert (await write(client)).status == 201
    assert [b"Bearer new" in request for request in server.requests] == [False, True]


async def test_a_refusal_says_why_and_how_long_to_wait(tmp_path: Path, directly: Directly) -> None:
    status = b'{"kind":"Status","reason":"TooManyRequests","message":"slow down"}'
    head = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: %d\r\n\r\n" % len(status)
    error, _ = await error_of(plays(head + status, ends=False), tmp_path, directly)
    assert (error.status, error.reason, error.message, error.retry_after) == (429, "TooManyRequests", "slow down", 7.0)


async def test_through_a_proxy_writes_leave_as_everything_else_does(tmp_path: Path, directly: Directly) -> None:
    async with served(plays(OK, ends=False)) as (proxy, url):
        path = kubeconfig(tmp_path / "k", "http://api.example:8080")
        async with client_of(path, directly, environment={"HTTP_PROXY": url}) as client:
            assert (await write(client)).status == 201
    assert proxy.requests[0].startswith(b"POST http://api.example:8080/write ")


async def test_a_proxy_that_does_not_listen_is_named_in_plain_words(tmp_path: Path, directly: Directly) -> None:
    port = free_ports(1)[0]
    path = kubeconfig(tmp_path / "k", "http://api.example:8080")
    async with client_of(path, directly, environment={"HTTP_PROXY": f"http://127.0.0.1:{port}"}) as client:
        with pytest.raises(
            ApiError, match=f"no answer from the API server: Cannot connect to 127.0.0.1:{port}: "
        ) as caught:
            await write(client)
    assert "ssl" not in str(caught.value)


async def test_an_awaited_request_meets_the_same_answers(tmp_path: Path, directly: Directly) -> None:
    async def play(number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        if number == 2:
            writer.transport.abort()
        elif number < 4:
            writer.write(OK if number == 1 else b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n")

    async with (
        served(play) as (server, url),
        client_of(kubeconfig(tmp_path / "k", url), directly) as client,
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


async def test_what_a_cancelled_write_ends_with_is_not_reported(tmp_path: Path, directly: Directly) -> None:
    ends: list[object] = []
    async with (
        served(plays(ends=False)) as (server, url),
        client_of(kubeconfig(tmp_path / "k", url), directly) as client,
    ):
        sent = client.begin(Outgoing("POST", "/write", b"{}", 5.0), Departure(AlwaysHeld()), ends.append)
        await until(lambda: len(server.requests) == 1)
        sent.cancel()
        await until(lambda: not server.open)
    assert ends == []


async def test_a_write_leaves_nothing_to_the_garbage_collector(tmp_path: Path) -> None:
    class Noted(Departure):
        __slots__ = ("__weakref__",)

    async with (
        served(plays(OK, ends=False)) as (_, url),
        client_of(kubeconfig(tmp_path / "k", url), Directly.ALL) as client,
    ):
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


async def test_a_binding_and_its_event_leave_nothing_to_the_garbage_collector(tmp_path: Path) -> None:
    """On their way they lead back to themselves: from the write to its request, to its end, to the write."""
    async with (
        served(plays(OK, ends=False)) as (server, url),
        client_of(kubeconfig(tmp_path / "k", url), Directly.ALL) as client,
    ):
        await write(client)
        outbox, settings = Outbox(MIN_PLACES), WriterSettings()
        ends: list[WriteFinished] = []
        writer = Writer(WriteRequests(client, settings), AlwaysHeld(), outbox, ends.append, lambda: 0.0, 9)
        events = EventRecorder(client, AlwaysHeld(), "host", settings, outbox, read_clock)
        pod = PodReference("default", "a", "uid-a")

        def made() -> list[PodWrite | EventWrite | BegunWrite]:
            return [one for one in gc.get_objects() if isinstance(one, PodWrite | EventWrite | BegunWrite)]

        gc.collect()
        gc.disable()
        try:
            writer.submit(BindPod(1, pod, "n1"))
            events.record(WriteEvent(pod, "Normal", "Scheduled", "Binding", "assigned", "tandem-scheduler"))
            assert len(made()) == 2
            assert await writer.settle(5.0)
            assert await events.settle(5.0)
            assert made() == []
        finally:
            gc.enable()
        await outbox.close()
    assert [end.is_done for end in ends] == [True]
    assert len(server.requests) == 3


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX: y", "/\u00e4"])
async def test_a_path_that_is_none_is_not_sent(tmp_path: Path, path: str) -> None:
    async with (
        served(plays(OK, ends=False)) as (server, url),
        client_of(kubeconfig(tmp_path / "k", url), Directly.ALL) as client,
    ):
        with pytest.raises(ValueError, match="is no path"):
            await client.request("POST", path, body=b"{}", departure=Departure(AlwaysHeld()))
    assert server.requests == []
