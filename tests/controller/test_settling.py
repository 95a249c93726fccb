"""SIGTERM while an extender or plugin binds: the process waits for that, too, and reports it."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import msgspec
from aiohttp import web

from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.simulate.ports import free_ports
from scheduler.testing.documents import node_json, pod_json
from tests.controller.conftest import PODS, create, read, until
from tests.controller.test_run import ROOT, Scheduler
from tests.controller.write.test_client import serving

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles: [{schedulerName: tandem-scheduler}]
extenders: [{urlPrefix: "URL", bindVerb: bind, httpTimeout: 30s}]
"""


class Binder:
    """An extender that binds when it is let."""

    def __init__(self, client: ApiClient) -> None:
        self.client = client
        self.is_asked = False
        self.go_on = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        asked = msgspec.json.decode(await request.read())
        self.is_asked = True
        await self.go_on.wait()
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": asked["PodName"], "namespace": asked["PodNamespace"], "uid": asked["PodUID"]},
            "target": {"kind": "Node", "name": asked["Node"]},
        }
        await create(self.client, f"{PODS}/{asked['PodName']}/binding", binding)
        return web.json_response({})


async def test_an_extender_that_is_binding_is_waited_for_and_its_binding_is_reported(
    connection: ConnectionSettings, client: ApiClient, tmp_path: Path
) -> None:
    await create(client, "/api/v1/nodes", node_json("n1"))
    await create(client, PODS, pod_json("a"))
    binder = Binder(client)
    async with serving(binder.handle) as url:
        file = tmp_path / "config.yaml"
        file.write_text(CONFIGURATION.replace("URL", url))
        port = free_ports(1)[0]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "scheduler", "run", f"--kubeconfig={connection.kubeconfig}", f"--config={file}"),
            *(f"--secure-port={port}", "--bind-address=127.0.0.1", "--serving-http"),
            stderr=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        scheduler = Scheduler(process, port)
        try:
            await until(lambda: binder.is_asked)
            process.send_signal(signal.SIGTERM)
            await scheduler.until_logged("Requested to terminate, exiting")
            binder.go_on.set()
            assert await scheduler.until_lost() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            await scheduler.reader
    assert (await read(client, f"{PODS}/a"))["spec"]["nodeName"] == "n1"
    (event,) = (await read(client, "/apis/events.k8s.io/v1/namespaces/default/events"))["items"]
    assert event["reason"] == "Scheduled"
    assert "Writes still open are left to the API server" not in scheduler.events
