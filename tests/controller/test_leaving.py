"""How the shipped command leaves: with open binds, and with plugins that do not end."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.documents import node_json, pod_json
from tests.controller.conftest import PODS, create, read, until
from tests.limits import WAIT_SECONDS

ROOT = Path(__file__).parents[2]


async def log_of_leaving(
    connection: ConnectionSettings, is_time: Callable[[], bool], options: tuple[str, ...]
) -> bytes:
    """The log of a scheduler that gets SIGTERM at that time, and leaves with exit code 0."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scheduler", "run", f"--kubeconfig={connection.kubeconfig}", "--secure-port=0"),
        *options,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        await until(is_time)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(WAIT_SECONDS):
            _, log = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0
    return log


async def test_a_bind_whose_outcome_is_unknown_is_settled_before_the_process_leaves(
    cluster: EmbeddedCluster, connection: ConnectionSettings, client: ApiClient
) -> None:
    """Else it might be carried out once the next leader has given its room away."""
    await create(client, "/api/v1/nodes", node_json("n1"))
    await create(client, PODS, pod_json("p", scheduler="tandem-scheduler"))
    cluster.faults.fail("POST", "/pods/p/binding", 504, reason="Timeout")
    options = ("--leader-elect=false",)
    log = await log_of_leaving(connection, lambda: not cluster.faults.rules, options)
    assert b"Binds settled" in log
    assert (await read(client, f"{PODS}/p"))["spec"]["nodeName"] == "n1"


PLUGIN = """
import asyncio
import threading
from pathlib import Path

from scheduler.plugin import BackgroundPlugin, PermitPlugin


class Clings(BackgroundPlugin, PermitPlugin):
    name = "Clings"

    def permit(self, state, pod, view, node):
        return None

    async def run(self, handle):
        Path(__file__).with_name("has-begun").touch()
        while True:
            try:
                await {waits}
            except asyncio.CancelledError:
                pass
"""

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {resourceName: tandem-scheduler}
profiles: [{schedulerName: tandem-scheduler, plugins: {multiPoint: {enabled: [{name: Clings}]}}}]
---
apiVersion: tandem.scheduling/v1alpha1
kind: TandemConfiguration
plugins: [{name: Clings, path: "clings:Clings"}]
"""


THREADS = "asyncio.gather(*[asyncio.to_thread(threading.Event().wait) for _ in range(64)])"
"""More than an event loop has for its tasks."""


@pytest.mark.parametrize("waits", ["asyncio.Event().wait()", THREADS])
async def test_no_plugin_that_ignores_its_cancellation_keeps_the_process_from_leaving(
    connection: ConnectionSettings, tmp_path: Path, waits: str
) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "clings.py").write_text(PLUGIN.format(waits=waits))
    configuration = tmp_path / "configuration.yaml"
    configuration.write_text(CONFIGURATION)
    options = ("--leader-elect-resource-namespace=default", f"--config={configuration}", f"--plugin-folder={folder}")
    log = await log_of_leaving(connection, (folder / "has-begun").exists, options)
    assert b"Binds settled" in log
    assert b"Lease released" in log and b"Leaving without what does not end" in log
