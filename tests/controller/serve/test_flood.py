"""A flood of clients without rights against the real scheduler: pods are bound all the same, and probes answered."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from typing import Any

import aiohttp
import pytest

from scheduler.controller.serve.reviews import MAX_PER_ADDRESS, MAX_UNDER_WAY, Reviews, TooManyReviews
from scheduler.controller.serve.serving_settings import AccessSettings, ServingSettings
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.ports import free_ports
from scheduler.testing.documents import node_json, pod_json
from tests.controller.conftest import PODS, create, read, until
from tests.controller.running import running_shell

REVIEWS = r"/(tokenreviews|subjectaccessreviews)$"
PODS_BOUND = 20


async def flood(port: int, statuses: Counter[int], source: str) -> None:
    """Without rights: a new path or token each time, over connections that are not closed; until cancelled."""

    async def ask(session: aiohttp.ClientSession, number: int) -> None:
        headers = {"Authorization": f"Bearer {number}"} if number % 2 else {}
        with contextlib.suppress(aiohttp.ClientError, OSError):
            async with session.get(f"http://127.0.0.1:{port}/page-{number}", headers=headers) as response:
                statuses[response.status] += 1

    connector = aiohttp.TCPConnector(limit=0, local_addr=(source, 0))
    async with aiohttp.ClientSession(connector=connector) as session:
        number = 0
        while True:
            async with asyncio.TaskGroup() as asking:
                for _ in range(500):
                    number += 1
                    asking.create_task(ask(session, number))


async def never_finish(port: int) -> list[asyncio.StreamWriter]:
    writers = []
    for _ in range(300):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
        writers.append(writer)
    return writers


@pytest.mark.parametrize("requests_per_second", [None, 100.0])
async def test_pods_are_bound_while_clients_without_rights_flood_the_pages(
    cluster: EmbeddedCluster, connection: ConnectionSettings, client: ApiClient, requests_per_second: float | None
) -> None:
    """The API server answers no review, so that each takes as long as it may."""
    cluster.faults.delay("POST", REVIEWS, 60.0, times=1_000_000)
    limited = ConnectionSettings(connection.kubeconfig, requests_per_second=requests_per_second)
    port, statuses = free_ports(1)[0], Counter[int]()
    serving = ServingSettings("127.0.0.1", port, None, AccessSettings())
    async with running_shell(limited, serving=serving) as shell:
        await create(client, "/api/v1/nodes", node_json("n1"))
        await until(lambda: shell.server.port == port)
        flooding = asyncio.create_task(flood(port, statuses, "127.0.0.1"))
        unfinished = await never_finish(port)
        try:
            await until(lambda: shell.server.counts.accepted >= 300 and statuses[429] > 0)
            began = time.monotonic()
            for number in range(PODS_BOUND):
                await create(client, PODS, pod_json(f"p{number}"))
            await until(lambda: shell.sink.counts.done >= PODS_BOUND)
            assert time.monotonic() - began < 5.0, "before a single review is given up"
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{port}/livez") as probe,
            ):
                assert probe.status == 200
            assert shell.server.open_connections <= serving.limits.connections
        finally:
            flooding.cancel()
            await asyncio.gather(flooding, return_exceptions=True)
            for writer in unfinished:
                writer.close()
    assert set(statuses) <= {429, 500}
    pods = (await read(client, PODS))["items"]
    assert [pod["spec"].get("nodeName") for pod in pods] == ["n1"] * PODS_BOUND


# --- the questions themselves -----------------------------------------------------------------------------------------


class Asked:
    """An API server that answers when the test lets it."""

    def __init__(self) -> None:
        self.questions: list[str] = []
        self.gate = asyncio.Event()
        self.reviews: Reviews[str, str] = Reviews(time.monotonic)

    def ask(self, key: str, address: str = "a") -> asyncio.Task[str]:
        async def answer() -> str:
            self.questions.append(key)
            await self.gate.wait()
            return key.upper()

        return asyncio.create_task(self.reviews.answer(key, address, answer, lambda _: 0.0))


async def test_equal_questions_under_way_are_one() -> None:
    asked = Asked()
    tasks = [asked.ask("same", address=str(number)) for number in range(100)]
    await until(lambda: asked.questions != [])
    asked.gate.set()
    assert await asyncio.gather(*tasks) == ["SAME"] * 100
    assert asked.questions == ["same"]


async def test_one_that_hangs_up_does_not_take_the_answer_from_the_others() -> None:
    asked = Asked()
    first, second = asked.ask("same"), asked.ask("same")
    await until(lambda: asked.questions != [])
    first.cancel()
    asked.gate.set()
    assert await second == "SAME"


async def test_questions_under_way_are_few_and_those_beyond_the_line_are_turned_away() -> None:
    asked = Asked()
    tasks = [asked.ask(str(number), address=str(number)) for number in range(200)]
    await until(lambda: sum(task.done() for task in tasks) > 0)
    assert len(asked.questions) == MAX_UNDER_WAY
    asked.gate.set()
    ends: list[Any] = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(end, TooManyReviews) for end in ends) == 200 - 72


async def test_one_address_does_not_fill_the_line() -> None:
    asked = Asked()
    tasks = [asked.ask(str(number), address="flood") for number in range(100)]
    await until(lambda: sum(task.done() for task in tasks) == 100 - MAX_PER_ADDRESS)
    other = asked.ask("other", address="prometheus")
    asked.gate.set()
    assert await other == "OTHER"
    await asyncio.gather(*tasks, return_exceptions=True)
