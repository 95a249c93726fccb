"""The fence: the Lease is lost while a write waits for something, and the write does not leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from scheduler.cluster.pod_info import PodInfo
from scheduler.controller.calls.extender_calls import ExtenderCalls
from scheduler.controller.calls.plugin_calls import PluginCalls
from scheduler.controller.write.client import ApiClient, Directly
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import Credentials, CredentialSource
from scheduler.controller.write.direct import Outgoing
from scheduler.controller.write.fence import Departure
from scheduler.controller.write.http_exchange import Answer
from scheduler.controller.write.leadership import AlwaysHeld, LeadershipLost, LeaseToken
from scheduler.controller.write.request_limiter import RequestLimiter
from scheduler.messages.commands import BindPod, CallExtender, RunPlugin
from scheduler.messages.references import PodReference
from scheduler.messages.stimuli import ExtenderAnswered, PluginFinished
from scheduler.testing.objects import pod
from tests.controller.conftest import until
from tests.controller.write.test_client import serving
from tests.controller.write.test_credentials import kubeconfig
from tests.controller.write.writing import writing

POD = PodReference("default", "p", "1")


class Door:
    """A server that notes what reaches it; requests whose path has ``held`` in it wait until it opens."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self.opened = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.reached.append(request.path)
        if "held" in request.path:
            await self.opened.wait()
        return web.json_response({})


def held_token() -> LeaseToken:
    token = LeaseToken()
    token.extend(float("inf"))
    return token


def test_how_long_a_lease_has_been_over_is_counted_from_its_end_and_not_before_it_was_held() -> None:
    now = [100.0]
    token = LeaseToken(lambda: now[0])
    assert token.overdue_seconds == 0.0
    token.extend(110.0)
    assert (token.is_held(), token.overdue_seconds) == (True, 0.0)
    now[0] = 125.0
    assert (token.is_held(), token.overdue_seconds) == (False, 15.0)


@asynccontextmanager
async def client_to(
    url: str,
    folder: Path,
    *,
    connections: int = 4,
    limiter: RequestLimiter | None = None,
    directly: Directly = Directly.NOTHING,
) -> AsyncIterator[ApiClient]:
    settings = ConnectionSettings(kubeconfig=str(kubeconfig(folder / "config", server=url)))
    client = ApiClient(CredentialSource(settings, {}), connections=connections, limiter=limiter, directly=directly)
    try:
        yield client
    finally:
        await client.close()


async def test_a_write_that_waited_for_a_connection_does_not_leave_without_the_lease(
    tmp_path: Path, directly: Directly
) -> None:
    door, token = Door(), held_token()
    async with (
        serving(door.handle) as url,
        client_to(url, tmp_path, connections=1, directly=directly) as client,
    ):

        def write(path: str, departure: Departure) -> asyncio.Task[Answer]:
            return asyncio.create_task(client.request("POST", path, body=b"{}", departure=departure))

        first = write("/held", Departure(token))
        await until(lambda: door.reached == ["/held"])
        second = write("/write", departure := Departure(token))
        await asyncio.sleep(0)
        token.revoke()
        door.opened.set()
        with pytest.raises(LeadershipLost):
            await second
        await first
        # The connection stays usable.
        await write("/after", Departure(AlwaysHeld()))
    assert door.reached == ["/held", "/after"]
    assert not departure.has_left


async def test_a_write_that_waited_for_the_rate_limit_does_not_leave_without_the_lease(
    tmp_path: Path, directly: Directly
) -> None:
    door, token = Door(), held_token()
    limiter = RequestLimiter(10.0, 1)
    async with (
        serving(door.handle) as url,
        client_to(url, tmp_path, limiter=limiter, directly=directly) as client,
    ):
        await client.request("GET", "/read")
        for _ in range(3):
            limiter.wait_seconds()
        write = asyncio.create_task(client.request("POST", "/write", body=b"{}", departure=Departure(token)))
        await asyncio.sleep(0)
        token.revoke()
        with pytest.raises(LeadershipLost):
            await write
    assert door.reached == ["/read"]


async def test_only_writes_beyond_the_burst_of_the_rate_limit_cost_a_task(tmp_path: Path) -> None:
    door, ends = Door(), asyncio.Queue[object]()
    async with (
        serving(door.handle) as url,
        client_to(url, tmp_path, limiter=RequestLimiter(10.0, 3), directly=Directly.ALL) as client,
    ):
        await client.request("GET", "/read")
        writes = [
            client.begin(Outgoing("POST", f"/{number}", b"{}", 5.0), Departure(held_token()), ends.put_nowait)
            for number in range(3)
        ]
        assert [write.task is None for write in writes] == [True, True, False]
        for _ in writes:
            await ends.get()
    assert sorted(door.reached) == ["/0", "/1", "/2", "/read"]


async def test_a_write_that_waited_for_credentials_does_not_leave_without_the_lease(
    tmp_path: Path, directly: Directly
) -> None:
    class SlowSource(CredentialSource):
        begun, go_on = False, asyncio.Event()

        async def load(self) -> Credentials:
            self.begun = True
            await self.go_on.wait()
            return await super().load()

    door, token = Door(), held_token()
    async with serving(door.handle) as url:
        source = SlowSource(ConnectionSettings(kubeconfig=str(kubeconfig(tmp_path / "config", server=url))), {})
        client = ApiClient(source, directly=directly)
        write = asyncio.create_task(client.request("POST", "/write", body=b"{}", departure=Departure(token)))
        await until(lambda: source.begun)
        token.revoke()
        source.go_on.set()
        with pytest.raises(LeadershipLost):
            await write
        await client.close()
    assert door.reached == []


async def test_an_answer_of_401_does_not_send_a_write_again_without_the_lease(
    tmp_path: Path, directly: Directly
) -> None:
    token = held_token()
    reached: list[str] = []

    async def refuse(request: web.Request) -> web.StreamResponse:
        reached.append(request.path)
        token.revoke()
        return web.json_response({}, status=401)

    async with serving(refuse) as url, client_to(url, tmp_path, directly=directly) as client:
        departure = Departure(token)
        with pytest.raises(LeadershipLost):
            await client.request("POST", "/write", body=b"{}", departure=departure)
    assert reached == ["/write"]
    assert departure.has_left


async def test_a_write_that_may_not_leave_is_no_request(tmp_path: Path, directly: Directly) -> None:
    door, token = Door(), LeaseToken()
    async with serving(door.handle) as url, client_to(url, tmp_path, directly=directly) as client:
        requests, ends = list[tuple[str, int]](), asyncio.Queue[object]()
        client.observe = lambda method, _, status, __: requests.append((method, status))
        with pytest.raises(LeadershipLost):
            await client.request("POST", "/write", body=b"{}", departure=Departure(token))
        client.begin(Outgoing("POST", "/begun", b"{}", 5.0), Departure(token), ends.put_nowait)
        assert isinstance(await ends.get(), LeadershipLost)
        await client.request("POST", "/after", body=b"{}", departure=Departure(AlwaysHeld()))
    assert requests == [("POST", 200)]


async def test_a_bind_that_may_not_leave_says_nothing_of_one_before_that_had_no_answer(
    tmp_path: Path, directly: Directly
) -> None:
    """A renewal of the Lease that comes too late ends the right to write for a moment only."""
    door, token = Door(), LeaseToken()
    async with (
        serving(door.handle) as url,
        client_to(url, tmp_path, directly=directly) as client,
        writing(client, token) as (writer, outcomes),
    ):
        writer.submit(BindPod(1, POD, "n1"))
        assert await writer.settle(5)
    assert [(outcome.is_done, outcome.is_conclusive) for outcome in outcomes] == [(False, False)]
    assert door.reached == []


def call(number: int, url: str, *, binds: bool) -> CallExtender:
    return CallExtender(number, 0, "bind" if binds else "filter", url, b"{}", 5.0, (POD, "n1") if binds else None)


async def test_an_extender_s_bind_that_waited_for_a_connection_does_not_leave_without_the_lease() -> None:
    door, token = Door(), held_token()
    answers: list[ExtenderAnswered] = []
    async with serving(door.handle) as url:
        calls = ExtenderCalls(answers.append, token)
        # As many as the session has connections.
        for number in range(100):
            calls.submit(call(number, f"{url}/held", binds=False))
        await until(lambda: len(door.reached) == 100)
        calls.submit(call(100, f"{url}/bind", binds=True))
        await asyncio.sleep(0)
        token.revoke()
        door.opened.set()
        await until(lambda: len(answers) == 101)
        await calls.close()
    assert "/bind" not in door.reached
    assert {one.ticket: one.error for one in answers}[100] == "leader election lost: nothing is written any more"
    assert all(not one.error for one in answers if one.ticket < 100), "who only asks is not held back"


async def test_a_plugin_does_not_begin_without_the_lease_and_what_it_sends_later_does_not_leave(
    tmp_path: Path,
) -> None:
    door, token = Door(), held_token()
    finished: list[PluginFinished] = []
    async with serving(door.handle) as url, client_to(url, tmp_path) as client:

        async def pre_bind(_pod: object, _node: str) -> None:
            await client.request("GET", "/held")
            await client.request("POST", "/write", body=b"{}")

        calls = PluginCalls(finished.append, token, {("tandem", "PreBind", "Mine"): pre_bind})
        calls.submit(RunPlugin(1, "PreBind", "tandem", "Mine", PodInfo(pod("p")), "n1"))
        await until(lambda: door.reached == ["/held"])
        token.revoke()
        calls.submit(RunPlugin(2, "PreBind", "tandem", "Mine", PodInfo(pod("p")), "n1"))
        door.opened.set()
        await until(lambda: len(finished) == 2)
        await calls.close()
    assert door.reached == ["/held"]
    for one in finished:
        assert one.refusal is not None and "leader election lost" in one.refusal.message


async def test_binds_of_extenders_and_coroutines_of_plugins_are_waited_for_and_questions_are_not() -> None:
    door = Door()
    answers: list[ExtenderAnswered | PluginFinished] = []
    async with serving(door.handle) as url:
        extenders = ExtenderCalls(answers.append, AlwaysHeld())
        extenders.submit(call(1, f"{url}/held", binds=False))
        await extenders.settle(5)
        assert (extenders.open_writes, answers) == (0, [])
        extenders.submit(call(2, f"{url}/bind", binds=True))
        assert extenders.open_writes == 1
        await extenders.settle(5)
        assert [one.ticket for one in answers] == [2]

        async def bind(_pod: object, _node: str) -> None:
            await asyncio.sleep(0.05)

        plugins = PluginCalls(answers.append, AlwaysHeld(), {("tandem", "Bind", "Mine"): bind})
        plugins.submit(RunPlugin(3, "Bind", "tandem", "Mine", PodInfo(pod("p")), "n1"))
        await plugins.settle(5)
        assert [one.ticket for one in answers] == [2, 3]
        door.opened.set()
        await extenders.close()
        await plugins.close()
