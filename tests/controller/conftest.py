"""An embedded API server without players, a client to it, and a way to wait that is not sleeping."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from scheduler.controller.write.client import ApiClient, Directly
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource
from scheduler.simulate.cluster import EmbeddedCluster
from tests.limits import WAIT_SECONDS


@pytest.fixture(autouse=True)
def log_lines() -> Iterator[list[dict[str, Any]]]:
    """Every log line of the test as a dictionary."""
    with structlog.testing.capture_logs() as lines:
        yield lines  # type: ignore[misc]


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(kubelet=None, controllers=False) as running:
        yield running


@pytest.fixture
def connection(cluster: EmbeddedCluster, tmp_path: Path) -> ConnectionSettings:
    return ConnectionSettings(kubeconfig=str(cluster.kubeconfig(tmp_path / "kubeconfig")))


@pytest.fixture
async def client(connection: ConnectionSettings) -> AsyncIterator[ApiClient]:
    made = ApiClient(CredentialSource(connection, {}))
    yield made
    await made.close()


@pytest.fixture(params=[Directly.ALL, Directly.NOTHING], ids=["direct", "aiohttp"])
def directly(request: pytest.FixtureRequest) -> Directly:
    """Writes leave by connections of our own, or by aiohttp: what holds of one holds of the other."""
    chosen: Directly = request.param
    return chosen


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop go on until the condition holds; fails after `WAIT_SECONDS`."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - any condition, not only those that an event announces
            await asyncio.sleep(0.005)


async def create(client: ApiClient, path: str, document: dict[str, Any]) -> dict[str, Any]:
    answer = await client.request("POST", path, body=msgspec.json.encode(document))
    created: dict[str, Any] = msgspec.json.decode(answer.body)
    return created


async def read(client: ApiClient, path: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode((await client.request("GET", path)).body)
    return found


PODS = "/api/v1/namespaces/default/pods"
