"""Extenders over HTTP, and user plugins that await."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from scheduler.cluster.pod_info import PodInfo
from scheduler.controller.calls.connection_limit import MAX_CONNECTIONS
from scheduler.controller.calls.extender_calls import ExtenderCalls
from scheduler.controller.calls.plugin_calls import PluginCalls
from scheduler.controller.report.plugin_watch import PLUGIN_WATCH
from scheduler.controller.write.leadership import AlwaysHeld
from scheduler.messages.commands import CallExtender, RunPlugin, StopPlugins
from scheduler.messages.references import PodReference
from scheduler.messages.status import SKIP, Code, Refusal, Skip, unschedulable
from scheduler.messages.stimuli import ExtenderAnswered, PluginFinished
from scheduler.testing.objects import pod
from tests.controller.conftest import until
from tests.controller.write.test_client import serving


async def answer_of(
    url: str, timeout_seconds: float = 5.0, environment: Mapping[str, str] | None = None
) -> ExtenderAnswered:
    answers: list[ExtenderAnswered] = []
    calls = ExtenderCalls(answers.append, AlwaysHeld(), environment=environment)
    try:
        calls.submit(CallExtender(1, 0, "filter", f"{url}/filter", b'{"pod": 1}', timeout_seconds))
        await until(lambda: bool(answers))
    finally:
        await calls.close()
    return answers[0]


async def test_an_extender_s_answer_comes_back_with_its_ticket() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.headers["Content-Type"] == "application/json"
        return web.Response(body=b"{" + await request.read() + b"}")

    async with serving(handler) as url:
        assert await answer_of(url) == ExtenderAnswered(1, b'{{"pod": 1}}')


async def test_an_extender_that_refuses_is_an_error_with_its_url_and_code() -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(status=500)

    async with serving(handler) as url:
        answer = await answer_of(url)
    assert answer.error == f"failed filter with extender at URL {url}/filter, code 500"


async def test_an_extender_outside_is_called_through_the_proxy_of_the_environment() -> None:
    asked: list[str] = []

    async def proxy(request: web.Request) -> web.StreamResponse:
        asked.append(str(request.url))
        return web.Response(body=await request.read())

    async with serving(proxy) as url:
        answer = await answer_of("http://extender.example", environment={"HTTP_PROXY": url})
    assert (answer, asked) == (ExtenderAnswered(1, b'{"pod": 1}'), ["http://extender.example/filter"])


@pytest.mark.parametrize(
    ("status", "arrives"), [(308, ("POST", b'{"pod": 1}')), (307, ("POST", b'{"pod": 1}')), (302, ("GET", b""))]
)
async def test_an_extender_s_redirect_is_followed_as_by_kube_scheduler(status: int, arrives: tuple[str, bytes]) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/filter":
            return web.Response(status=status, headers={"Location": "/moved"})
        assert (request.method, await request.read()) == arrives
        return web.Response(body=b"{}")

    async with serving(handler) as url:
        assert await answer_of(url) == ExtenderAnswered(1, b"{}")


async def test_an_extender_that_redirects_without_end_is_an_error() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": request.path})

    async with serving(handler) as url:
        assert (await answer_of(url)).error == f'Post "{url}/filter": stopped after 10 redirects'


async def test_an_extender_that_is_silent_is_an_error_after_its_time() -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    async with serving(handler) as url:
        assert (await answer_of(url, 0.05)).error == f'Post "{url}/filter": no answer within 0.05s'


async def test_no_call_of_a_cycle_waits_for_the_binds_of_a_slow_extender() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/bind":
            await asyncio.Event().wait()
        return web.Response(body=b"{}")

    answers: list[ExtenderAnswered] = []
    calls = ExtenderCalls(answers.append, AlwaysHeld())
    async with serving(handler) as url:
        try:
            binds = (PodReference("default", "p", "u"), "a")
            for ticket in range(120):
                calls.submit(CallExtender(ticket, 0, "bind", f"{url}/bind", b"{}", 60.0, binds))
            calls.submit(CallExtender(120, 1, "filter", f"{url}/filter", b"{}", 60.0))
            await until(lambda: bool(answers))
        finally:
            await calls.close()
    assert answers == [ExtenderAnswered(120, b"{}")]


class SlowExtender:
    """An extender at ``url`` that answers once ``goes_on`` is set, and the calls to it."""

    def __init__(self, url: str, asked: list[str], goes_on: asyncio.Event) -> None:
        self.asked, self.goes_on = asked, goes_on
        self.answers: list[ExtenderAnswered] = []
        self.calls = ExtenderCalls(self.answers.append, AlwaysHeld())
        self._url = url

    def bind(self, ticket: int, seconds: float) -> None:
        binds = (PodReference("default", "p", "u"), "a")
        self.calls.submit(CallExtender(ticket, 0, "bind", f"{self._url}/bind", b"{}", seconds, binds))

    def filter(self, ticket: int, seconds: float) -> None:
        self.calls.submit(CallExtender(ticket, 1, "filter", f"{self._url}/filter", b"{}", seconds))


@asynccontextmanager
async def slow_extender() -> AsyncIterator[SlowExtender]:
    goes_on, asked = asyncio.Event(), list[str]()

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        await goes_on.wait()
        return web.Response(body=b"{}")

    async with serving(handler) as url:
        extender = SlowExtender(url, asked, goes_on)
        try:
            yield extender
        finally:
            await extender.calls.close()


async def test_there_is_room_for_as_many_binds_of_extenders_as_they_have_connections() -> None:
    async with slow_extender() as extender:
        submitted = 0
        while extender.calls.has_room_for(1):
            extender.bind(submitted, 60.0)
            submitted += 1
        await until(lambda: len(extender.asked) == submitted)
        extender.goes_on.set()
        await until(lambda: extender.calls.has_room_for(submitted))
    assert submitted == MAX_CONNECTIONS
    assert not any(answer.error for answer in extender.answers)


async def test_binds_of_pods_that_leave_permit_at_once_wait_for_connections_outside_of_their_own_time() -> None:
    async with slow_extender() as extender:
        for ticket in range(MAX_CONNECTIONS):
            extender.bind(ticket, 60.0)
        await until(lambda: len(extender.asked) == MAX_CONNECTIONS)
        for ticket in range(MAX_CONNECTIONS, 500):
            extender.bind(ticket, 3.0)
        extender.filter(500, 3.0)
        await until(lambda: any(answer.ticket >= MAX_CONNECTIONS for answer in extender.answers))
        extender.goes_on.set()
        await until(lambda: len(extender.answers) == 501)
    assert extender.asked.count("/bind") == 500
    assert [answer.ticket for answer in extender.answers if answer.error] == [500]


async def test_an_extender_that_is_not_there_is_an_error() -> None:
    error = (await answer_of("http://127.0.0.1:1")).error
    assert error.startswith('Post "http://127.0.0.1:1/filter": Cannot connect')


async def test_of_a_pod_whose_binding_has_failed_no_pre_bind_runs_on() -> None:
    begun: list[str] = []
    ended: list[str] = []

    async def lasting(pod: PodInfo, _node: str) -> None:
        begun.append(pod.name)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(pod.name)

    finished: list[PluginFinished] = []
    calls = PluginCalls(
        finished.append, AlwaysHeld(), {("tandem", point, "Slow"): lasting for point in ("PreBind", "PostBind")}
    )
    for ticket, (point, name) in enumerate([("PreBind", "a"), ("PreBind", "b"), ("PostBind", "a")], start=1):
        calls.submit(RunPlugin(ticket, point, "tandem", "Slow", PodInfo(pod(name)), "n1"))
    await until(lambda: len(begun) == 3)
    calls.stop(StopPlugins(PodInfo(pod("a")).uid))
    await until(lambda: calls.open_writes == 2)
    assert (ended, finished) == (["a"], [])
    await calls.close()


async def test_plugins_say_yes_no_or_leave_it_and_a_bug_is_a_failure_that_names_the_plugin() -> None:
    async def yes(_pod: object, _node: str) -> None:
        return None

    async def no(_pod: object, node: str) -> Refusal:
        return unschedulable(f"not on {node}")

    async def leave_it(_pod: object, _node: str) -> Skip:
        return SKIP

    async def broken(_pod: object, _node: str) -> None:
        raise KeyError("oops")

    class Speechless(Exception):
        def __str__(self) -> str:
            raise OSError

    async def speechless(_pod: object, _node: str) -> None:
        raise Speechless

    finished: list[PluginFinished] = []
    calls = PluginCalls(
        finished.append,
        AlwaysHeld(),
        {
            ("tandem", "PreBind", "Yes"): yes,
            ("tandem", "PreBind", "No"): no,
            ("tandem", "Bind", "Leave"): leave_it,
            ("tandem", "Bind", "Broken"): broken,
            ("tandem", "Bind", "Speechless"): speechless,
        },
    )
    asked = ["PreBind Yes", "PreBind No", "Bind Leave", "Bind Broken", "Bind Missing", "Bind Speechless"]
    for ticket, (point, plugin) in enumerate([one.split() for one in asked], start=1):
        calls.submit(RunPlugin(ticket, point, "tandem", plugin, PodInfo(pod("p")), "n1"))
    await until(lambda: len(finished) == len(asked))
    await calls.close()
    by_ticket = {answer.ticket: answer for answer in finished}
    assert by_ticket[1] == PluginFinished(1, None)
    assert by_ticket[2] == PluginFinished(2, Refusal(Code.UNSCHEDULABLE, ("not on n1",), "No"))
    assert by_ticket[3] == PluginFinished(3, None, is_skip=True)
    assert by_ticket[4].refusal == Refusal(Code.ERROR, ("KeyError: 'oops'",), "Broken")
    assert by_ticket[5].refusal == Refusal(Code.ERROR, ("plugin Missing has no Bind to run",), "Missing")
    text = "Speechless: its text can't be made: OSError"
    assert by_ticket[6].refusal == Refusal(Code.ERROR, (text,), "Speechless")


async def test_a_coroutine_that_raises_is_counted_each_time_and_in_the_log_once_a_minute(
    log_lines: list[dict[str, Any]],
) -> None:
    async def raising(_pod: object, _node: str) -> None:
        raise KeyError("licence")

    points = ("PreBind", "Bind", "PostBind")
    finished: list[PluginFinished] = []
    calls = PluginCalls(
        finished.append, AlwaysHeld(), {("tandem", point, "RaisingEachTime"): raising for point in points}
    )
    for ticket in range(1, 4):
        for point in points:
            calls.submit(RunPlugin(ticket, point, "tandem", "RaisingEachTime", PodInfo(pod("p")), "n1"))
    await until(lambda: len(finished) == 9)
    await calls.close()
    assert [PLUGIN_WATCH.errors["RaisingEachTime", point] for point in points] == [3, 3, 3]
    lines = [line for line in log_lines if line["event"] == "Plugin failed"]
    assert sorted(line["point"] for line in lines) == sorted(points)
    assert {(line["plugin"], line["pod"], line["node"]) for line in lines} == {("RaisingEachTime", "default/p", "n1")}
    assert all(isinstance(line["exc_info"], KeyError) for line in lines)
