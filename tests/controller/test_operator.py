"""kopf in its own thread, against the embedded API server."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import kopf

from scheduler.controller.kopf_operator import operator_settings
from scheduler.controller.operator import KopfOperator, OperatorCallbacks, Proofs
from scheduler.controller.settings import OperatorOptions
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.ports import free_ports
from scheduler.testing.documents import node_json, pod_json
from tests.controller.conftest import PODS, create, until
from tests.controller.running import running_shell
from tests.limits import WAIT_SECONDS

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Heard:
    def __init__(self) -> None:
        self.configurations: list[Mapping[str, str] | None] = []
        self.beat = time.monotonic()

    @property
    def callbacks(self) -> OperatorCallbacks:
        return OperatorCallbacks(self.configurations.append)


@asynccontextmanager
async def operating(
    connection: ConnectionSettings, options: OperatorOptions
) -> AsyncIterator[tuple[KopfOperator, Heard]]:
    heard = Heard()
    operator = KopfOperator(
        options,
        CredentialSource(connection, {}),
        heard.callbacks,
        Proofs(last_beat=lambda: heard.beat, is_leading=lambda: True),
    )
    operator.start()
    try:
        yield operator, heard
    finally:
        await operator.stop()


def config_map(name: str, text: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"config.yaml": text}}


async def test_the_watched_config_map_is_handed_over(connection: ConnectionSettings, client: ApiClient) -> None:
    options = OperatorOptions(config_map_namespace="default", config_map_name="tandem")
    await create(client, CONFIG_MAPS, config_map("tandem", "one"))
    await create(client, CONFIG_MAPS, config_map("another", "no"))
    async with operating(connection, options) as (_, heard):
        await until(lambda: bool(heard.configurations))
        assert heard.configurations == [{"config.yaml": "one"}]
        await client.request("DELETE", f"{CONFIG_MAPS}/tandem")
        await until(lambda: heard.configurations[-1] is None)


async def test_the_liveness_endpoint_notices_a_loop_that_stands_still(connection: ConnectionSettings) -> None:
    port = free_ports(1)[0]
    options = OperatorOptions(liveness_port=port, liveness_address="127.0.0.1")
    async with operating(connection, options) as (operator, heard):
        await until(lambda: operator.is_ready)
        heard.beat = time.monotonic() - 31.0
        async with aiohttp.ClientSession() as session:
            assert await _status(session, port) == 500


async def test_the_liveness_endpoint_tells_of_leadership_and_the_last_beat(connection: ConnectionSettings) -> None:
    port = free_ports(1)[0]
    options = OperatorOptions(liveness_port=port, liveness_address="127.0.0.1")
    async with operating(connection, options) as (operator, _):
        await until(lambda: operator.is_ready)
        async with aiohttp.ClientSession() as session:
            assert await _status(session, port) == 200


async def _status(session: aiohttp.ClientSession, port: int) -> int:
    """The endpoint's answer, once it listens."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{port}/healthz", headers={"Connection": "close"}) as response:
                    return response.status
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.01)


async def test_a_kopf_that_fails_is_logged_and_the_other_tasks_go_on(
    connection: ConnectionSettings, log_lines: list[dict[str, Any]]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        options = OperatorOptions(liveness_port=taken.getsockname()[1], liveness_address="127.0.0.1")
        async with operating(connection, options):
            bystander = asyncio.Event()
            born_later = asyncio.create_task(bystander.wait())
            await until(lambda: any(line["event"] == "kopf ended, starting it again" for line in log_lines))
            assert not born_later.done()
            bystander.set()
            assert await born_later


async def test_a_stop_does_not_wait_for_a_discovery_that_has_no_answer(
    cluster: EmbeddedCluster, connection: ConnectionSettings, log_lines: list[dict[str, Any]]
) -> None:
    cluster.faults.delay("GET", "/api", 30.0)
    async with operating(connection, OperatorOptions()) as (operator, _):
        await until(lambda: operator.is_ready)
        begun = time.monotonic()
        await operator.stop()
        # kopf itself waits 5 s for what it calls hung tasks.
        assert time.monotonic() - begun < 5.0
        assert [line["event"] for line in log_lines if "kopf" in line["event"]] == ["kopf is up", "kopf is down"]


def test_posting_peering_and_scanning_are_off_and_nothing_is_registered_globally() -> None:
    settings = operator_settings()
    assert not settings.posting.enabled
    assert settings.peering.standalone
    assert settings.scanning.disabled
    assert not kopf.get_default_registry()._watching.get_all_handlers()


async def test_kopf_is_imported_when_there_is_nothing_else_to_do(connection: ConnectionSettings) -> None:
    async with running_shell(connection, operator=OperatorOptions()) as shell:
        await until(lambda: shell._is_synced)
        assert shell._operator is None
        await until(lambda: shell._operator is not None)
        assert shell._was_idle.is_set()


async def test_an_endpoint_for_probes_is_there_once_the_first_lists_are(connection: ConnectionSettings) -> None:
    async with running_shell(connection, operator=OperatorOptions(liveness_port=free_ports(1)[0])) as shell:
        await until(lambda: shell._operator is not None)
        assert not shell._was_idle.is_set()


async def test_kopf_is_not_imported_while_a_pod_is_being_bound(
    cluster: EmbeddedCluster, connection: ConnectionSettings, client: ApiClient
) -> None:
    await create(client, "/api/v1/nodes", node_json("n1"))
    cluster.faults.delay("POST", "/binding", 30.0)
    async with running_shell(connection, operator=OperatorOptions()) as shell:
        await create(client, PODS, pod_json("p"))
        await until(lambda: shell.sink.open_writes > 0)
        shell.loop.when_idle()
        assert not shell._was_idle.is_set()
