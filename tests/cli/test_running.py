"""The commands against a scheduler that runs: a process of its own, beside an embedded cluster."""

import asyncio
from pathlib import Path

import pytest

from scheduler.cli.main import main
from scheduler.simulate.apiserver.kinds import NAMESPACES, NODES, PODS
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.demo import ShippedScheduler
from scheduler.simulate.workload import node_document, pod_document
from tests.limits import WAIT_SECONDS


async def test_a_running_scheduler_answers_why_and_queue_and_leaves_with_zero_when_it_is_told_to(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with EmbeddedCluster() as cluster:
        cluster.registry.create(NAMESPACES, "", {"metadata": {"name": "tandem-system"}})
        cluster.registry.create(NODES, "", node_document("n1", cpu=2))
        for name, cpu in (("fits", "1"), ("huge", "9")):
            cluster.registry.create(PODS, "default", pod_document(name, cpu=cpu))
        async with ShippedScheduler(cluster.kubeconfig(tmp_path / "kubeconfig"), tmp_path / "log") as shipped:
            async with asyncio.timeout(WAIT_SECONDS):
                while not {"fits", "huge"} <= await tried(shipped):  # noqa: ASYNC110 - another process sets no event
                    await asyncio.sleep(0.05)
            server = ["--server", shipped.url]
            assert await asyncio.to_thread(main, ["why", "huge", *server]) == 0
            assert "Insufficient cpu" in capfd.readouterr().out
            assert await asyncio.to_thread(main, ["why", "default/fits", "--json", *server]) == 0
            assert '"node": "n1"' in capfd.readouterr().out
            assert await asyncio.to_thread(main, ["queue", *server]) == 0
            assert "default/huge" in capfd.readouterr().out
            assert await asyncio.to_thread(main, ["why", "absent", *server]) == 1
            assert "pod default/absent is not known here" in capfd.readouterr().err
        assert shipped.exit_code == 0, "".join(shipped.log_lines())


async def tried(shipped: ShippedScheduler) -> set[str]:
    return {name for name in ("fits", "huge") if (await shipped.why(f"default/{name}")).get("attempt")}
