"""The pages of a queue that is long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import aiohttp
import pytest
from aiohttp import web

from scheduler.controller.loop import read_clock
from scheduler.controller.serve.pages import routes
from scheduler.engine.engine import Engine
from scheduler.engine.explain import PreemptionMemory
from scheduler.engine.queue_pages import (
    grouped_queue_in_slices,
    grouped_queue_page,
    queue_page,
    queue_page_in_slices,
)
from scheduler.messages.now import Now
from scheduler.messages.stimuli import ObjectObserved
from scheduler.objects.kinds import Kind
from scheduler.testing.objects import pod
from tests.controller.write.test_client import serving
from tests.engine.driver import Cluster

NOW = Now(1.0, 1_700_000_000_000_000_000)


def crowded(count: int) -> Cluster:
    """Nothing fits: half of the pods have been tried and wait for a change, the others have not been tried."""
    cluster = Cluster()
    cluster.nodes_like(1, cpu="1")
    for number in range(count // 2):
        cluster.pod(f"huge{number}", cpu="2", priority=number)
    for _ in range(count // 2):
        cluster.schedule()
    for number in range(count - count // 2):
        cluster.pod(f"new{number}", cpu="2", priority=number)
    return cluster


def test_the_page_is_the_whole_queue_up_to_its_limit_and_counts_are_complete() -> None:
    engine = crowded(400).engine
    page = queue_page(engine)
    assert len(page["pods"]) == 400
    assert page["pods"][0]["pod"] == "default/new199", "the most important one is next"
    assert [entry["place"] for entry in page["pods"]] == ["active"] * 200 + ["unschedulable"] * 200
    first = queue_page(engine, 150)
    assert first["pods"] == page["pods"][:150]
    assert first["counts"] == page["counts"]
    assert sum(page["counts"].values()) == 400


def test_pods_that_leave_while_the_page_is_made_are_missing_and_nothing_breaks() -> None:
    cluster = crowded(200)
    slices = queue_page_in_slices(cluster.engine)
    listed = list(next(slices))
    for number in range(100):
        cluster.delete(f"new{number}")
    for entries in slices:
        listed += entries
    assert {entry["pod"] for entry in listed} == {f"default/huge{number}" for number in range(100)}


@pytest.mark.parametrize("page_in_slices", [queue_page_in_slices, grouped_queue_in_slices])
def test_five_thousand_waiting_pods_are_no_long_step(page_in_slices: Callable[[Engine], Iterator[object]]) -> None:
    """Measured in CPU against the page as one step: absolute times, and what other processes take, are noise here."""
    engine = Cluster().engine
    for number in range(5_000):
        engine.handle(ObjectObserved(Kind.POD, pod(f"p{number}", priority=number % 7)), NOW)
    best = []
    for _ in range(5):
        steps, slices = [], page_in_slices(engine)
        while True:
            began = time.thread_time()
            try:
                next(slices)
            except StopIteration:
                break
            finally:
                steps.append(time.thread_time() - began)
        best.append(max(steps) / sum(steps))
    assert min(best) < 0.1


async def test_the_page_over_http_can_be_asked_for_a_part() -> None:
    cluster = crowded(100)
    pages = {route.path: route.handler for route in routes(cluster.engine, read_clock, PreemptionMemory())}

    async def handler(request: web.Request) -> web.StreamResponse:
        answer: web.StreamResponse = await pages["/debug/queue"](request)
        return answer

    async with serving(handler) as url, aiohttp.ClientSession() as session:
        async with session.get(f"{url}/debug/queue?limit=7") as response:
            page = await response.json()
            assert (len(page["pods"]), sum(page["counts"].values())) == (7, 100)
        async with session.get(f"{url}/debug/queue") as response:
            assert (await response.json()) == queue_page(cluster.engine)
        async with session.get(f"{url}/debug/queue?grouped=true") as response:
            assert (await response.json()) == grouped_queue_page(cluster.engine)
        for nonsense in ("-1", "a", "1" * 5000, "%FF"):
            async with session.get(f"{url}/debug/queue?limit={nonsense}") as response:
                assert response.status == 400
