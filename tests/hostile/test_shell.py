"""Promises kept by the shell as production wires it: all of its parts, against an API server and extenders that err."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client.exposition import generate_latest

from scheduler.controller.lead.lease_settings import LeaderElectionSettings
from scheduler.controller.run import Shell
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.writer_settings import WriterSettings
from scheduler.objects.kinds import Kind
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.documents import node_json, pod_json
from tests.controller.calls.test_extender_answers import fifty_megabytes, in_pieces, without_end
from tests.controller.conftest import PODS, create, read, until
from tests.controller.running import running_shell
from tests.controller.write.test_client import serving
from tests.limits import WAIT_SECONDS

MANY = 1_000_000
NODES = "/api/v1/nodes"
ALL_PODS = r"^/api/v1/pods"


def large(name: str) -> dict[str, Any]:
    """A node has room for one."""
    return pod_json(name, cpu="3")


async def node_of(client: ApiClient, name: str) -> str | None:
    found: str | None = (await read(client, f"{PODS}/{name}"))["spec"].get("nodeName")
    return found


async def until_bound(client: ApiClient, name: str) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while await node_of(client, name) != "n1":  # noqa: ASYNC110 - no event announces it
            await asyncio.sleep(0.02)


async def until_known(shell: Shell, kind: Kind, count: int) -> None:
    await until(lambda: any(one.kind is kind and one.object_count == count for one in shell.reflectors))


def page_of(shell: Shell) -> str:
    return generate_latest(shell.metrics.registry).decode()


async def test_while_nodes_are_answered_with_404_pods_are_placed_on_those_that_are_known(
    cluster: EmbeddedCluster, connection: ConnectionSettings, client: ApiClient
) -> None:
    await create(client, NODES, node_json("n1", cpu="4"))
    async with running_shell(connection) as shell:
        await until_known(shell, Kind.NODE, 1)
        cluster.faults.fail("GET", f"^{NODES}", 404, reason="NotFound", times=MANY)
        answered = MANY
        cluster.server.cut_watches()
        await until(lambda: cluster.faults.rules[0].times < answered)
        await create(client, PODS, pod_json("a"))
        await until_bound(client, "a")


async def test_a_404_for_pods_makes_no_full_node_look_empty(
    cluster: EmbeddedCluster, connection: ConnectionSettings, client: ApiClient
) -> None:
    await create(client, NODES, node_json("n1", cpu="4"))
    await create(client, PODS, large("first"))
    async with running_shell(connection) as shell:
        await until_bound(client, "first")
        await create(client, PODS, large("second"))
        await until_known(shell, Kind.POD, 2)
        cluster.faults.fail("GET", ALL_PODS, 404, reason="NotFound", times=2)
        cluster.server.cut_watches()
        await until(lambda: not cluster.faults.rules)
        await create(client, PODS, pod_json("small"))
        await until_bound(client, "small")
        assert await node_of(client, "second") is None
        assert [one.object_count for one in shell.reflectors if one.kind is Kind.POD] == [3]


async def test_where_every_watch_is_answered_with_410_pods_are_placed_and_lists_are_few(
    cluster: EmbeddedCluster, connection: ConnectionSettings, client: ApiClient
) -> None:
    await create(client, NODES, node_json("n1", cpu="4"))
    cluster.faults.fail("GET", f"{ALL_PODS}.*watch=true", 410, reason="Expired", times=MANY)
    async with running_shell(connection) as shell:
        await until(lambda: all(one.synced.is_set() for one in shell.reflectors))
        await create(client, PODS, pod_json("a"))
        await until_bound(client, "a")
        lists = [one for one in cluster.server.served if one.path == "/api/v1/pods" and one.code == 200]
        assert len(lists) < 20, "each list and each watch waits longer than the one before"


async def test_no_watch_of_the_shell_waits_as_long_as_a_server_says(connection: ConnectionSettings) -> None:
    """``Retry-After: 3600``; that the bound is kept to is ``watch/test_reflector.py``'s."""
    async with running_shell(connection) as shell:
        assert {one.reading.times.max_retry_after for one in shell.reflectors} == {30.0}


async def test_a_bind_that_is_committed_after_its_time_keeps_its_room_all_along(
    cluster: EmbeddedCluster, connection: ConnectionSettings, client: ApiClient
) -> None:
    await create(client, NODES, node_json("n1", cpu="4"))
    cluster.faults.delay("POST", "/pods/first/binding", 1.0)
    cluster.faults.fail("POST", "/pods/first/binding", 503, times=2)
    async with running_shell(connection, writer=WriterSettings(bind_timeout_seconds=0.2)) as shell:
        await create(client, PODS, large("first"))
        await until(lambda: shell.sink.counts.unknown >= 1)
        await create(client, PODS, large("second"))
        await create(client, PODS, pod_json("small"))
        await until_bound(client, "small")
        await until_bound(client, "first")
        assert await node_of(client, "second") is None
        binds = [one.path for one in cluster.server.served if one.path.endswith("/binding")]
        assert not any("second" in path for path in binds)


async def test_an_object_that_cannot_be_read_stops_no_pod(
    cluster: EmbeddedCluster, connection: ConnectionSettings, client: ApiClient
) -> None:
    good = msgspec.json.encode(node_json("n1", cpu="4"))
    bad = b'{"metadata":{"name":"bad","resourceVersion":"1"},"spec":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    page = b'{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%b,%b]}'
    cluster.faults.answer("GET", rf"^{NODES}\?limit", page % (cluster.store.revision, bad, good))
    async with running_shell(connection) as shell:
        await until_known(shell, Kind.NODE, 1)
        await create(client, PODS, pod_json("a"))
        await until_bound(client, "a")
        assert 'tandem_unreadable_objects{kind="nodes"} 1.0' in page_of(shell)
        assert shell.loop.counts.errors == 0


async def test_an_extender_that_sends_much_or_without_end_costs_attempts_and_no_more(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    """Its third answer is a good one that dribbles: the pod that failed twice gets its node."""

    async def dribbled() -> AsyncIterator[bytes]:
        for byte in b'{"NodeNames": ["n1"], "FailedNodes": {}}':
            yield bytes([byte])
            await asyncio.sleep(0)

    handlers = iter([in_pieces(fifty_megabytes), in_pieces(without_end), *[in_pieces(dribbled)] * 10])

    async def handler(request: web.Request) -> web.StreamResponse:
        return await next(handlers)(request)

    await create(client, NODES, node_json("n1", cpu="4"))
    async with serving(handler) as url:
        extenders = f"[{{urlPrefix: '{url}', filterVerb: filter, nodeCacheCapable: true, httpTimeout: 2s}}]"
        async with running_shell(connection, extenders=extenders) as shell:
            await create(client, PODS, pod_json("a"))
            await until_bound(client, "a")
            assert 'tandem_extender_faults_total{extender="' + url + '",skipped="false",verb="filter"} 2.0' in page_of(
                shell
            )
            assert shell.loop.counts.errors == 0


async def test_an_extender_is_not_asked_to_bind_without_the_lease(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    """The Lease is lost while the extender filters: neither it nor the scheduler binds."""
    asked: list[str] = []
    opened = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        if request.path == "/filter":
            await opened.wait()
            return web.json_response({"NodeNames": ["n1"], "FailedNodes": {}})
        return web.json_response({})

    await create(client, NODES, node_json("n1", cpu="4"))
    async with serving(handler) as url:
        extenders = f"[{{urlPrefix: '{url}', filterVerb: filter, bindVerb: bind, nodeCacheCapable: true}}]"
        async with running_shell(connection, extenders=extenders, leader_election=LeaderElectionSettings()) as shell:
            await until(lambda: shell.token is not None and shell.token.is_held())
            await create(client, PODS, pod_json("a"))
            await until(lambda: asked == ["/filter"])
            assert shell.token is not None
            shell.token.revoke()
            opened.set()
            await until(lambda: 'result="error"} 1.0' in page_of(shell))
            assert asked == ["/filter"]
            assert await node_of(client, "a") is None
