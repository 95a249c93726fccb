"""Many pods wait, and an extender is asked about each: what else has to go on, and how many are asked at once."""

from __future__ import annotations

import asyncio
import json

from aiohttp import web

from scheduler.compose import build_engine
from scheduler.config.loading import load
from scheduler.controller.calls.connection_limit import MAX_CONNECTIONS
from scheduler.controller.loop import read_clock
from scheduler.controller.parts import Parts
from scheduler.controller.reload import Build, NewConfiguration
from scheduler.controller.run import Shell
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.messages.now import Now
from scheduler.testing.documents import node_json, pod_json
from tests.controller.conftest import PODS, create, until
from tests.controller.running import CONFIGURATION, quiet_settings, running, running_shell
from tests.controller.write.test_client import serving


async def add_pods(client: ApiClient, number: int) -> None:
    await create(client, "/api/v1/nodes", node_json("n1", cpu="1000", pods="1000"))
    for index in range(number):
        await create(client, PODS, pod_json(f"p{index}", cpu="1m"))


async def test_a_new_configuration_is_in_force_long_before_an_extender_was_asked_about_all_pods_that_wait(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    asked, in_force_after = list[str](), list[int]()

    async def handler(request: web.Request) -> web.Response:
        names = json.loads(await request.read())["NodeNames"]
        if not asked:
            assert shell.reloader is not None
            shell.reloader.offer(b"new", "test")
        asked.append("filter")
        await asyncio.sleep(0.01)
        return web.json_response({"NodeNames": names, "FailedNodes": {}})

    def prepare(_: bytes) -> Build:
        def swap(_: Now) -> bool:
            if not engine.is_paused:
                in_force_after.append(len(asked))
            return not engine.is_paused

        return lambda: NewConfiguration(swap, {}, {})

    await add_pods(client, 60)
    async with serving(handler) as url:
        extender = f"{{urlPrefix: '{url}', filterVerb: filter, nodeCacheCapable: true}}"
        engine = build_engine(load(f"{CONFIGURATION}extenders: [{extender}]\n"), started=read_clock(), seed=1)
        async with running(Shell(quiet_settings(connection), Parts(engine, prepare=prepare), {})) as shell:
            await until(lambda: shell.sink.counts.done == 60)
    assert len(in_force_after) == 1
    assert in_force_after[0] < 30


async def test_no_more_pods_are_taken_than_an_extender_that_binds_has_connections(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path)
        await asyncio.Event().wait()
        return web.Response()

    await add_pods(client, MAX_CONNECTIONS + 20)
    async with serving(handler) as url:
        extender = f"[{{urlPrefix: '{url}', bindVerb: bind, httpTimeout: 60s}}]"
        async with running_shell(connection, extenders=extender) as shell:
            await until(lambda: len(asked) == MAX_CONNECTIONS)
            assert shell.extenders.open_writes == MAX_CONNECTIONS
