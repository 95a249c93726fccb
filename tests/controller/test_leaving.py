"""What the shipped command does with open binds when it is asked to leave."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.documents import node_json, pod_json
from tests.controller.conftest import PODS, create, read, until

ROOT = Path(__file__).parents[2]


async def test_a_bind_whose_outcome_is_unknown_is_settled_before_the_process_leaves(
    cluster: EmbeddedCluster, connection: ConnectionSettings, client: ApiClient
) -> None:
    """Else it might be carried out once the next leader has given its room away."""
    await create(client, "/api/v1/nodes", node_json("n1"))
    await create(client, PODS, pod_json("p", scheduler="tandem-scheduler"))
    cluster.faults.fail("POST", "/pods/p/binding", 504, reason="Timeout")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scheduler", "run", f"--kubeconfig={connection.kubeconfig}"),
        *("--leader-elect=false", "--secure-port=0"),
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        await until(lambda: not cluster.faults.rules)
        process.send_signal(signal.SIGTERM)
        _, log = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0 and b"Binds settled" in log
    assert (await read(client, f"{PODS}/p"))["spec"]["nodeName"] == "n1"
