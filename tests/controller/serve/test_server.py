"""Probes and metrics over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from scheduler.controller.report.metrics import SchedulerMetrics
from scheduler.controller.serve.server import HealthServer
from scheduler.controller.serve.serving_settings import ServingSettings
from scheduler.engine.attempt import SCHEDULED, UNSCHEDULABLE, Attempt
from scheduler.errors import ConfigurationError
from scheduler.preemption.evaluation import PreemptionEvidence
from tests.controller.round_robin_engine import RoundRobinEngine


class Checked:
    def __init__(self) -> None:
        self.problem = "handlers are not fully synchronized"
        self.metrics = SchedulerMetrics(monotonic=lambda: 3.0)

    def server(self, port: int = 1) -> HealthServer:
        async def extra(_: web.Request) -> web.Response:
            return web.Response(text="more")

        return HealthServer(
            ServingSettings("127.0.0.1", port),
            self.metrics.registry,
            ready_checks={"leaderElection": lambda: "", "sched-handler-sync": lambda: self.problem},
            configz=lambda: {"componentconfig": {"kind": "KubeSchedulerConfiguration"}, "tandemconfig": {}},
            reset_metrics=self.metrics.instruments.reset,
            routes=(web.get("/extra", extra),),
        )


@asynccontextmanager
async def asking(checked: Checked) -> AsyncIterator[aiohttp.ClientSession]:
    server = checked.server()
    await server.start_on(0)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
            yield session
    finally:
        await server.close()


async def get(session: aiohttp.ClientSession, path: str, method: str = "GET") -> tuple[int, str]:
    async with session.request(method, path) as response:
        return response.status, await response.text()


async def test_it_is_alive_before_it_is_ready() -> None:
    checked = Checked()
    async with asking(checked) as session:
        assert await get(session, "/livez") == (200, "ok")
        assert await get(session, "/healthz") == (200, "ok")
        status, text = await get(session, "/readyz")
        assert status == 500
        assert "[-]sched-handler-sync failed: handlers are not fully synchronized" in text
        checked.problem = ""
        assert await get(session, "/readyz") == (200, "ok")
        assert (await get(session, "/readyz?verbose"))[1].splitlines() == [
            "[+]leaderElection ok",
            "[+]sched-handler-sync ok",
            "readyz check passed",
        ]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "OPTIONS", "HEAD"])
async def test_probes_and_metrics_answer_any_method_as_in_kube_scheduler(method: str) -> None:
    async with asking(Checked()) as session:
        for path in ("/livez", "/healthz/leaderElection", "/metrics", "/metrics/slis", "/configz"):
            status, text = await get(session, path, method)
            first = (await get(session, path))[1].partition("\n")[0]
            assert (status, text.partition("\n")[0]) == (200, "" if method == "HEAD" else first)
        assert (await get(session, "/readyz", method))[0] == 500


async def test_the_counts_of_health_checks_are_reset_by_a_deletion() -> None:
    async with asking(Checked()) as session:
        await get(session, "/livez")
        counted = 'kubernetes_healthchecks_total{name="ping",status="success",type="livez"} '
        assert f"{counted}1.0" in (await get(session, "/metrics/slis"))[1]
        assert await get(session, "/metrics/slis", "DELETE") == (200, "metrics reset\n")
        text = (await get(session, "/metrics/slis"))[1]
        assert f"{counted}0.0" in text and "kubernetes_healthcheck{" not in text


async def test_a_single_check_can_be_asked_for_and_one_can_be_left_out() -> None:
    async with asking(Checked()) as session:
        assert (await get(session, "/readyz/leaderElection"))[0] == 200
        assert (await get(session, "/readyz/sched-handler-sync"))[0] == 500
        assert (await get(session, "/readyz/nonsense"))[0] == 404
        assert (await get(session, "/readyz?exclude=sched-handler-sync"))[0] == 200


async def test_a_page_without_checks_has_the_check_ping_and_what_is_no_check_can_not_be_left_out() -> None:
    async with asking(Checked()) as session:
        assert (await get(session, "/livez?verbose"))[1] == "[+]ping ok\nlivez check passed\n"
        assert await get(session, "/livez/ping") == (200, "ok")
        assert (await get(session, "/healthz/ping"))[0] == 404
        left_out = (await get(session, "/livez?verbose&exclude=ping"))[1]
        assert left_out == "[+]ping excluded: ok\nlivez check passed\n"
        unknown = (await get(session, "/healthz?verbose&exclude=sync&exclude=ping"))[1].splitlines()
        assert unknown == [
            "[+]leaderElection ok",
            'warn: some health checks cannot be excluded: no matches for "ping","sync"',
            "healthz check passed",
        ]
        indicators = (await get(session, "/metrics/slis"))[1].splitlines()
        assert 'kubernetes_healthcheck{name="ping",type="livez"} 1.0' in indicators


async def test_metrics_have_kube_scheduler_s_names_and_can_be_reset() -> None:
    checked = Checked()
    checked.metrics.watch_engine(RoundRobinEngine())
    attempt = Attempt("default/a", "1", "tandem", 2, 0, started_monotonic=1.0, result=SCHEDULED, queued_seconds=5.0)
    attempt.durations = {"Filter": 0.0003, "Bind": 0.01}
    checked.metrics.observe(attempt)
    failed = Attempt(
        "default/b", "2", "tandem", 1, 0, started_monotonic=1.0, result=UNSCHEDULABLE, victims=("x", "y", "z")
    )
    failed.durations, failed.statuses = {"Filter": 0.0003, "PostFilter": 0.002}, {"PostFilter": "Unschedulable"}
    failed.preemption = PreemptionEvidence(eligible=True)
    checked.metrics.observe(failed)
    checked.metrics.observe(Attempt("default/c", "3", "tandem", 1, 0, started_monotonic=1.0))
    async with asking(checked) as session:
        lines = (await get(session, "/metrics"))[1].splitlines()
        for line in (
            'scheduler_schedule_attempts_total{profile="tandem",result="scheduled"} 1.0',
            'scheduler_schedule_attempts_total{profile="tandem",result="unschedulable"} 1.0',
            'scheduler_scheduling_attempt_duration_seconds_sum{profile="tandem",result="scheduled"} 2.0',
            'scheduler_scheduling_algorithm_duration_seconds_bucket{le="0.001"} 1.0',
            'scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="2"} 7.0',
            'scheduler_pod_scheduling_attempts_bucket{le="2.0"} 1.0',
            "scheduler_preemption_attempts_total 1.0",
            'scheduler_preemption_victims_bucket{le="2.0"} 0.0',
            'scheduler_preemption_victims_bucket{le="4.0"} 1.0',
            'scheduler_pending_pods{queue="unschedulable"} 0.0',
            'scheduler_cache_size{type="nodes"} 0.0',
            'scheduler_queue_incoming_pods_total{event="PodAdd",queue="active"} 0.0',
        ):
            assert line in lines, line
        assert (
            'scheduler_framework_extension_point_duration_seconds_count{extension_point="PostFilter",'
            'profile="tandem",status="Unschedulable"} 1.0'
        ) in lines
        assert (await get(session, "/metrics", "DELETE"))[0] == 200
        assert (
            'scheduler_schedule_attempts_total{profile="tandem",result="scheduled"} 0.0'
            in (await get(session, "/metrics"))[1].splitlines()
        )
        checked.metrics.observe(attempt)
        assert (
            'scheduler_schedule_attempts_total{profile="tandem",result="scheduled"} 1.0'
            in (await get(session, "/metrics"))[1].splitlines()
        )


async def test_the_configuration_and_others_pages_are_shown() -> None:
    async with asking(Checked()) as session:
        assert (await get(session, "/configz"))[1] == (
            '{"componentconfig": {"kind": "KubeSchedulerConfiguration"}, "tandemconfig": {}}'
        )
        assert await get(session, "/extra") == (200, "more")
        index = json.loads((await get(session, "/"))[1])["paths"]
        assert {"/metrics", "/metrics/slis", "/configz", "/extra", "/healthz", "/livez", "/readyz"} <= set(index)
        for path in ("/readyz", "/metrics/slis"):
            answer = (await get(session, path))[1]
        assert "kubernetes_healthchecks_total{" in answer


async def test_a_port_in_use_is_one_clear_line() -> None:
    first = Checked().server()
    await first.start_on(0)
    second = Checked().server(first.port)
    try:
        with pytest.raises(ConfigurationError) as caught:
            await second.start()
        assert str(caught.value) == f"failed to listen on 127.0.0.1:{first.port}: the port is in use"
    finally:
        await first.close()


async def test_port_0_turns_it_off() -> None:
    server = Checked().server(0)
    await server.start()
    assert server.port == 0
    await server.close()
