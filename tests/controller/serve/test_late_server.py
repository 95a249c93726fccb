"""The server of the pages, before and after it is loaded."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from scheduler.controller.report.metrics import SchedulerMetrics
from scheduler.controller.serve.late_server import LateServer
from scheduler.controller.serve.server import HealthServer
from scheduler.controller.serve.serving_settings import ServingSettings
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.errors import ConfigurationError
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.ports import free_ports
from scheduler.testing.documents import node_json, pod_json
from tests.controller.conftest import PODS, create, read, until
from tests.controller.running import running_shell
from tests.limits import WAIT_SECONDS

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def late(port: int) -> LateServer:
    settings = ServingSettings("127.0.0.1", port)
    return LateServer(settings, lambda: HealthServer(settings, SchedulerMetrics().registry, ready_checks={}), {})


async def status_of(port: int, page: str = "livez") -> int:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/{page}") as response:
        return response.status


async def test_a_visitor_who_connects_before_it_is_loaded_is_answered_afterwards() -> None:
    server = late(free_ports(1)[0])
    server.listen()
    try:
        early = asyncio.create_task(status_of(server.port))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        await writer.drain()
        assert not early.done() and server.open_connections == server.counts.accepted == 0
        await server.serve()
        async with asyncio.timeout(WAIT_SECONDS):
            assert await early == 200
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()
        assert server.counts.accepted == 2
    finally:
        await server.close()


async def test_a_port_that_is_taken_is_a_fault_at_once() -> None:
    first = late(free_ports(1)[0])
    first.listen()
    try:
        with pytest.raises(ConfigurationError, match="the port is in use"):
            late(first.port).listen()
    finally:
        await first.close()


async def test_it_frees_its_port_when_it_is_closed_before_it_was_loaded() -> None:
    server = late(free_ports(1)[0])
    server.listen()
    await server.close()
    again = late(server.port)
    again.listen()
    await again.close()


async def test_probes_are_answered_while_a_list_does_not_come(
    cluster: EmbeddedCluster, connection: ConnectionSettings
) -> None:
    cluster.faults.delay("GET", "/api/v1/nodes", 60.0, times=1_000_000)
    port = free_ports(1)[0]
    async with running_shell(connection, serving=ServingSettings("127.0.0.1", port)) as shell:
        await until(lambda: shell.server.port == port)
        async with asyncio.timeout(WAIT_SECONDS):
            assert await status_of(port) == 200
            assert await status_of(port, "readyz") == 500
        assert not all(one.synced.is_set() for one in shell.reflectors)


async def test_pages_come_once_the_pods_that_waited_for_the_start_are_placed_and_reported(
    cluster: EmbeddedCluster, client: ApiClient, connection: ConnectionSettings
) -> None:
    cluster.faults.delay("POST", EVENTS, 0.3, times=1_000)
    await create(client, "/api/v1/nodes", node_json("n1"))
    for number in range(8):
        await create(client, PODS, pod_json(f"p{number}"))
    async with running_shell(connection, serving=ServingSettings("127.0.0.1", free_ports(1)[0])) as shell:
        await until(lambda: shell.server.is_serving)
        pods = (await read(client, PODS))["items"]
        assert {pod["spec"].get("nodeName") for pod in pods} == {"n1"}
        events = (await read(client, EVENTS))["items"]
        assert [event["reason"] for event in events].count("Scheduled") == len(pods)


async def test_pages_come_before_that_for_a_visitor(
    cluster: EmbeddedCluster, client: ApiClient, connection: ConnectionSettings
) -> None:
    cluster.faults.delay("POST", f"{PODS}/p/binding", 60.0, times=1)
    await create(client, "/api/v1/nodes", node_json("n1"))
    await create(client, PODS, pod_json("p"))
    async with running_shell(connection, serving=ServingSettings("127.0.0.1", free_ports(1)[0])) as shell:
        await until(lambda: shell.sink.open_writes == 1)
        assert not shell.server.is_serving
        async with asyncio.timeout(WAIT_SECONDS):
            assert await status_of(shell.server.port, "readyz") == 200
        assert shell.sink.open_writes == 1
