"""The whole shell as a process: how it starts, schedules, and leaves."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from scheduler.controller.lead.lease_settings import LeaderElectionSettings
from scheduler.controller.parts import Parts
from scheduler.controller.reload import Build
from scheduler.controller.run import Shell
from scheduler.controller.serve.serving_settings import ServingSettings
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.errors import ConfigurationError, Fault
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.ports import free_ports
from scheduler.testing.documents import node_json, pod_json
from tests.controller.conftest import PODS, create, read, until
from tests.controller.round_robin_engine import RoundRobinEngine
from tests.controller.running import quiet_settings, running
from tests.limits import WAIT_SECONDS

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/tandem-scheduler"
ROOT = Path(__file__).parents[2]


class Scheduler:
    """The process, with its log lines as they come."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.port = port
        self.lines: list[dict[str, Any]] = []
        self.noise: list[str] = []
        self.reader = asyncio.create_task(self._read())

    @property
    def events(self) -> list[str]:
        """Without asyncio's reports of slow steps (``-X dev``), which depend on the machine."""
        return [line["event"] for line in self.lines if not line["event"].startswith("Executing <")]

    async def until_logged(self, event: str) -> None:
        await until(lambda: event in self.events)

    async def until_lost(self, signal_number: signal.Signals | None = None) -> int:
        """Its exit code."""
        if signal_number is not None:
            self.process.send_signal(signal_number)
        code = await asyncio.wait_for(self.process.wait(), WAIT_SECONDS)
        await self.reader
        return code

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.noise.append(line.decode())


@asynccontextmanager
async def scheduling(connection: ConnectionSettings, port: int | None = None) -> AsyncIterator[Scheduler]:
    port = port or free_ports(1)[0]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-X", "dev", "-m", "tests.controller.run_round_robin"),
        *(connection.kubeconfig, str(port)),
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    scheduler = Scheduler(process, port)
    try:
        yield scheduler
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await scheduler.reader


async def test_it_schedules_and_says_so_and_leaves_in_order_when_asked_to(
    cluster: EmbeddedCluster, connection: ConnectionSettings, client: ApiClient
) -> None:
    await create(client, "/api/v1/nodes", node_json("n1"))
    await create(client, PODS, pod_json("early"))
    async with scheduling(connection) as scheduler:
        await scheduler.until_logged("Handlers synced")
        await until(lambda: scheduler.events.count("Successfully bound pod to node") == 1)
        # It starts when there is nothing else to do.
        await scheduler.until_logged("kopf is up")
        async with aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as session:
            async with session.get("/readyz") as response:
                assert response.status == 200
            async with session.get("/metrics") as response:
                assert 'result="scheduled"} 1.0' in await response.text()
        cluster.faults.delay("POST", "/pods/late/binding", 0.5)
        await create(client, PODS, pod_json("late"))
        await until(lambda: scheduler.events.count("Successfully bound pod to node") == 2)
        # The bind of the second pod is under way now: it is waited for.
        assert await scheduler.until_lost(signal.SIGTERM) == 0
        assert scheduler.noise == []
        # Else numpy imports it in the middle of a decision.
        assert "numpy.ma" in scheduler.lines[-1]["modules"]
    order = ["Requested to terminate, exiting", "Binds settled", "Lease released", "kopf is down"]
    assert [event for event in scheduler.events if event in order] == order
    for name in ("early", "late"):
        assert (await read(client, f"{PODS}/{name}"))["spec"]["nodeName"] == "n1"
    events = (await read(client, "/apis/events.k8s.io/v1/namespaces/default/events"))["items"]
    assert sorted(event["regarding"]["name"] for event in events) == ["early", "late"]
    assert (await read(client, LEASE))["spec"].get("holderIdentity", "") == ""


async def test_a_lost_lease_ends_it_with_code_1(
    cluster: EmbeddedCluster, connection: ConnectionSettings, client: ApiClient
) -> None:
    async with scheduling(connection) as scheduler:
        await scheduler.until_logged("Successfully acquired lease")
        cluster.faults.fail("", "/leases", 503, times=1_000_000)
        assert await scheduler.until_lost() == 1
        assert scheduler.noise == []
    assert "Leaderelection lost" in scheduler.events


async def test_a_process_that_slept_past_its_lease_binds_nothing_when_it_wakes(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    async with scheduling(connection) as scheduler:
        await scheduler.until_logged("Handlers synced")
        await scheduler.until_logged("Successfully acquired lease")
        scheduler.process.send_signal(signal.SIGSTOP)
        await create(client, "/api/v1/nodes", node_json("n1"))
        await create(client, PODS, pod_json("a"))
        thief = msgspec.json.encode({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}})
        await client.request("PATCH", LEASE, body=thief, content_type="application/merge-patch+json")
        # As long as the renew deadline of this process: it has to be real time that passes.
        await asyncio.sleep(1.1)
        scheduler.process.send_signal(signal.SIGCONT)
        assert await scheduler.until_lost() == 1
    assert "nodeName" not in (await read(client, f"{PODS}/a"))["spec"]
    assert (await read(client, LEASE))["spec"]["holderIdentity"] == "thief"


async def test_it_can_be_stopped_while_it_still_waits_for_its_first_lists(
    cluster: EmbeddedCluster, connection: ConnectionSettings
) -> None:
    cluster.faults.fail("GET", "/api/v1/nodes", 403, times=1_000_000, reason="Forbidden")
    async with scheduling(connection) as scheduler:
        await scheduler.until_logged("missing right: list nodes")
        async with aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as session:
            async with session.get("/livez") as response:
                assert response.status == 200
            async with session.get("/readyz") as response:
                assert "handlers are not fully synchronized" in await response.text()
        assert await scheduler.until_lost(signal.SIGINT) == 0
        assert scheduler.noise == []


async def test_a_port_in_use_is_one_line_and_code_1(connection: ConnectionSettings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with scheduling(connection, port) as scheduler:
            assert await scheduler.until_lost() == 1
    assert scheduler.events == [f"failed to listen on 127.0.0.1:{port}: the port is in use"]
    assert scheduler.noise == []


async def test_a_missing_kubeconfig_is_one_line_and_code_1(tmp_path: Path) -> None:
    path = tmp_path / "nowhere"
    async with scheduling(ConnectionSettings(kubeconfig=str(path))) as scheduler:
        assert await scheduler.until_lost() == 1
    assert scheduler.events == [f"kubeconfig {path}: no such file"]
    assert scheduler.noise == []


async def test_a_task_that_fails_is_seen_from_outside_and_goes_on(
    cluster: EmbeddedCluster, connection: ConnectionSettings
) -> None:
    """Here the file's watch fails on an invalid path; reloads from the ConfigMap do not depend on it."""
    texts: list[bytes] = []

    def prepare(text: bytes) -> Build:
        texts.append(text)
        raise ConfigurationError([Fault("", "not this one")])

    settings = quiet_settings(
        connection,
        serving=ServingSettings("127.0.0.1", free_ports(1)[0]),
        configuration_file="a path\0with a null byte",
    )
    async with running(Shell(settings, Parts(RoundRobinEngine(), prepare=prepare), {})) as shell:
        await until(lambda: shell.server.port > 0 and all(one.synced.is_set() for one in shell.reflectors))
        assert shell.reloader is not None
        async with aiohttp.ClientSession(f"http://127.0.0.1:{shell.server.port}") as session:
            async with session.get("/readyz?verbose") as response:
                text = await response.text()
            assert response.status == 500
            assert "[+]watches ok" in text and "ValueError: embedded null byte" in text
            async with session.get("/metrics") as response:
                page = await response.text()
            assert re.search(r'tandem_task_failures_total\{task="configuration file"\} [1-9]', page)
            assert 'tandem_task_failures_total{task="scheduling loop"} 0.0' in page
            assert 'tandem_watch_silence_seconds{kind="nodes"}' in page
            shell.reloader.offer(b"one", "test")
            await until(lambda: texts == [b"one"])
            again = re.compile(r'tandem_task_failures_total\{task="configuration file"\} (?:[2-9]|\d\d)')

            async def is_tried_again() -> bool:
                async with session.get("/metrics") as response:
                    return again.search(await response.text()) is not None

            async with asyncio.timeout(WAIT_SECONDS):
                while not await is_tried_again():  # noqa: ASYNC110 - the page says when
                    await asyncio.sleep(0.1)


async def test_a_copy_that_lists_only_when_it_leads_is_ready_while_it_waits_for_the_lease(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    """As long as it were not, a rolling update would wait for it, and it for the end of the copy that leads."""
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 3600, "renewTime": "2026-01-01T00:00:00.000000Z"}
    held = {"metadata": {"name": "tandem-scheduler", "namespace": "kube-system"}, "spec": spec}
    await create(client, LEASE.rpartition("/")[0], held)
    settings = quiet_settings(
        connection,
        leader_election=LeaderElectionSettings(True, 3.0, 2.0, 0.05),
        serving=ServingSettings("127.0.0.1", free_ports(1)[0]),
        delay_cache_until_active=True,
    )
    async with (
        running(Shell(settings, Parts(RoundRobinEngine()), {})) as shell,
        aiohttp.ClientSession(f"http://127.0.0.1:{settings.serving.port}") as session,
    ):
        await until(lambda: shell.server.port > 0)
        async with session.get("/readyz?verbose") as response:
            assert (response.status, "[+]sched-handler-sync ok" in await response.text()) == (200, True)
        assert not any(reflector.synced.is_set() for reflector in shell.reflectors)
        await client.request("DELETE", LEASE)
        await until(lambda: all(reflector.synced.is_set() for reflector in shell.reflectors))
