"""Watches that never end by themselves."""

from __future__ import annotations

import asyncio

import aiohttp
from aiohttp import web
from msgspec.structs import replace

from scheduler.controller.watch.reflector import WatchTimes
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.objects.kinds import Kind
from scheduler.simulate.apiserver import kinds
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.documents import node_json
from tests.controller.conftest import until
from tests.controller.watch.reflecting import running
from tests.controller.write.test_client import client_of, serving


async def test_a_watch_that_something_in_between_keeps_open_with_empty_lines_ends_after_its_time(
    cluster: EmbeddedCluster, connection: ConnectionSettings
) -> None:
    """No silence, and no news either."""

    async def through(request: web.Request) -> web.StreamResponse:
        if request.query.get("watch") != "true":
            async with aiohttp.ClientSession() as session, session.get(cluster.url + request.path_qs) as answer:
                return web.Response(body=await answer.read(), content_type="application/json")
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"\n")
            await asyncio.sleep(0.01)

    times = WatchTimes(watch=(0, 0), idle=0.1, quiet=0.05)
    async with (
        serving(through) as url,
        client_of(replace(connection, master=url)) as client,
        running(client, Kind.NODE, times=times) as (reflector, seen),
    ):
        await until(reflector.synced.is_set)
        cluster.registry.create(kinds.NODES, "", node_json("n1"))
        await until(lambda: seen.events == [("+", "n1")])
