"""Each step of a page's handler is timed, and what the handler awaits is not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
import pytest
from aiohttp import web

from scheduler.controller.report.metrics import SchedulerMetrics
from scheduler.controller.serve.exposition import exposition
from scheduler.controller.serve.page_steps import in_steps, watching_steps
from scheduler.controller.serve.server import HealthServer
from scheduler.controller.serve.serving_settings import ServingSettings


class Steps:
    def __init__(self) -> None:
        self.seen: list[str] = []
        self.is_inside = False

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        self.seen.append(name)
        self.is_inside = True
        try:
            yield
        finally:
            self.is_inside = False


async def test_every_step_is_inside_and_no_wait_is() -> None:
    steps = Steps()
    waits: list[bool] = []

    async def work() -> str:
        for _ in range(3):
            assert steps.is_inside
            asyncio.get_running_loop().call_soon(lambda: waits.append(steps.is_inside))
            await asyncio.sleep(0)
        return "done"

    assert await in_steps(work(), steps.step, "work") == "done"
    assert steps.seen == ["work"] * 4
    assert waits == [False] * 3


async def test_an_exception_of_the_work_and_a_cancellation_pass_through() -> None:
    steps = Steps()
    ends: list[str] = []

    async def fails() -> None:
        await asyncio.sleep(0)
        raise LookupError("gone")

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    with pytest.raises(LookupError, match="gone"):
        await in_steps(fails(), steps.step, "work")

    async def whole() -> None:
        await in_steps(waits(), steps.step, "work")

    task = asyncio.create_task(whole())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ends == ["cancelled"]
    assert not steps.is_inside


async def test_a_page_is_timed_by_the_name_of_its_route_and_metrics_are_many_steps() -> None:
    steps = Steps()
    metrics = SchedulerMetrics()

    async def why(_: web.Request) -> web.Response:
        await asyncio.sleep(0)
        return web.Response(text="because")

    server = HealthServer(
        ServingSettings("127.0.0.1", 1),
        metrics.registry,
        ready_checks={},
        reset_metrics=metrics.instruments.reset,
        routes=(web.get("/debug/why/{name}", why),),
        guards=(watching_steps(steps.step),),
    )
    await server.start_on(0)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
            async with session.get("/debug/why/secret-pod") as answer:
                assert await answer.text() == "because"
            assert steps.seen == ["page /debug/why/{name}"] * 2
            async with session.get("/nothing") as answer:
                assert answer.status == 404
            steps.seen.clear()
            async with session.get("/metrics") as answer:
                assert "scheduler_schedule_attempts_total" in await answer.text()
            assert len(steps.seen) > 20
    finally:
        await server.close()


async def test_the_page_of_metrics_is_the_library_s_own_text() -> None:
    metrics = SchedulerMetrics()
    text = (await exposition(metrics.registry)).decode()
    assert text.count("# HELP scheduler_pod_scheduling_attempts ") == 1
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# HELP")]
    assert len(names) == len(set(names)) > 20
