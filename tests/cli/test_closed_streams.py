"""A scheduler that is started with closed standard streams, as by a supervisor that has no place for its output."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

import scheduler
from scheduler.simulate.apiserver.kinds import NODES, PODS
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.documents import node_json, pod_json
from tests.limits import WAIT_SECONDS


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
async def test_closed_standard_streams_do_not_keep_a_scheduler_from_placing_pods(tmp_path: Path, closed: str) -> None:
    async with EmbeddedCluster() as cluster:
        cluster.registry.create(NODES, "", node_json("n1", cpu="2"))
        cluster.registry.create(PODS, "default", pod_json("p", cpu="1"))
        command = [sys.executable, "-m", "scheduler", "run", f"--kubeconfig={cluster.kubeconfig(tmp_path / 'k')}"]
        command += ["--leader-elect=false", "--serving-http", "--bind-address=127.0.0.1", "--secure-port=0"]
        environment = {**os.environ, "PYTHONPATH": str(Path(scheduler.__file__).parent.parent)}
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", f'exec "$0" "$@" {closed}', *command, env=environment
        )
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while not cluster.registry.stored(PODS, "default", "p").object["spec"].get("nodeName"):
                    assert process.returncode is None
                    await asyncio.sleep(0.05)
                process.send_signal(signal.SIGTERM)
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
