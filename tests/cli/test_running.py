"""The commands against a scheduler that runs: a process of its own, beside an embedded cluster."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from scheduler.cli.main import main
from scheduler.simulate.apiserver.kinds import NAMESPACES, NODES, PODS
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.demo import ShippedScheduler
from scheduler.testing.documents import node_json, pod_json
from tests.limits import WAIT_SECONDS


async def test_a_running_scheduler_answers_why_and_queue_and_exits_with_zero_on_a_signal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with EmbeddedCluster() as cluster:
        cluster.registry.create(NAMESPACES, "", {"metadata": {"name": "tandem-system"}})
        cluster.registry.create(NODES, "", node_json("n1", cpu="2"))
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
        for name, cpu in (("fits", "1"), ("huge", "9")):
            document = pod_json(name, cpu=cpu)
            document["metadata"]["ownerReferences"] = [owner]
            cluster.registry.create(PODS, "default", document)
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
            assert await asyncio.to_thread(main, ["why", "huge", "--node", "n1", *server]) == 0
            assert "cpu: needs 9, " in capfd.readouterr().out
            assert await asyncio.to_thread(main, ["why", "fits", *server]) == 0
            assert "if it were not placed yet: 1 of 1 nodes would fit" in capfd.readouterr().out
            assert await asyncio.to_thread(main, ["why", "rs/web", *server]) == 0
            assert "1 of 2 pods have a node" in capfd.readouterr().out
            assert await asyncio.to_thread(main, ["queue", "--plugin", "NodeAffinity", *server]) == 0
            assert "default/huge" not in capfd.readouterr().out
            assert await asyncio.to_thread(main, ["queue", "-n", "default", "--pods", *server]) == 0
            assert "default/huge" in capfd.readouterr().out
            https = shipped.url.replace("http:", "https:")
            assert await asyncio.to_thread(main, ["why", "huge", "--server", https]) == 1
            assert f"it serves plain HTTP. Use --server {shipped.url}" in capfd.readouterr().err
            async with aiohttp.ClientSession(shipped.url) as session:
                for path, said in (
                    ("/", '"/debug/queue"'),
                    ("/metrics", "rest_client_requests_total{"),
                    ("/metrics/resources", 'kube_pod_resource_request{namespace="default",pod="fits",node="n1"'),
                    ("/metrics/slis", "kubernetes_healthchecks_total{"),
                    ("/configz", '"tandemconfig"'),
                ):
                    async with session.get(path) as answer:
                        assert said in await answer.text(), path
            assert await asyncio.to_thread(main, ["why", "absent", *server]) == 1
            assert "pod default/absent is not known here" in capfd.readouterr().err
        assert shipped.exit_code == 0, "".join(shipped.log_lines())


async def test_after_a_restart_why_of_a_bound_pod_says_what_can_still_be_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with EmbeddedCluster() as cluster:
        cluster.registry.create(NAMESPACES, "", {"metadata": {"name": "tandem-system"}})
        for name, cpu in (("n1", "4"), ("n2", "2")):
            cluster.registry.create(NODES, "", node_json(name, cpu=cpu))
        cluster.registry.create(PODS, "default", pod_json("fits", cpu="1"))
        kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")
        async with ShippedScheduler(kubeconfig, tmp_path / "log") as first, asyncio.timeout(WAIT_SECONDS):
            while not (await first.why("default/fits")).get("node"):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
        async with ShippedScheduler(kubeconfig, tmp_path / "log") as second:
            assert await asyncio.to_thread(main, ["why", "fits", "--node", "n2", "--server", second.url]) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert said.startswith("default/fits is on n1")
    assert "before this scheduler started at" in said and "that attempt is not known here" in said
    assert "if it were not placed yet: 2 of 2 nodes would fit" in said
    assert "Node n2: fits, number 2 by its score" in said


async def test_a_copy_that_does_not_lead_says_so_in_its_answers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    async with EmbeddedCluster() as cluster:
        cluster.registry.create(NAMESPACES, "", {"metadata": {"name": "tandem-system"}})
        cluster.registry.create(PODS, "default", pod_json("huge", cpu="9"))
        kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")
        async with ShippedScheduler(kubeconfig, tmp_path / "log") as leader, asyncio.timeout(WAIT_SECONDS):
            while not (await leader.why("default/huge")).get("attempt"):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
            async with ShippedScheduler(kubeconfig, tmp_path / "other-log") as standby:
                for words in (["why", "huge"], ["queue"], ["queue", "--pods"]):
                    assert await asyncio.to_thread(main, [*words, "--server", leader.url]) == 0
                    assert "does not lead" not in capfd.readouterr().out
                    assert await asyncio.to_thread(main, [*words, "--server", standby.url]) == 0
                    assert capfd.readouterr().out.startswith("This copy does not lead: it tries no pod"), words
                assert (await standby.queue())["isLeading"] is False
                assert "isLeading" not in await leader.queue()
                assert await first_event(leader) == 'event: copy\ndata: {"isLeading":true}\n\n'
                assert await first_event(standby) == 'event: copy\ndata: {"isLeading":false}\n\n'


async def first_event(shipped: ShippedScheduler) -> str:
    """The first event of the stream that the page in the browser listens to."""
    async with aiohttp.ClientSession() as session, session.get(f"{shipped.url}/debug/live") as answer:
        await answer.content.readuntil(b"\n\n")
        return (await answer.content.readuntil(b"\n\n")).decode()


async def tried(shipped: ShippedScheduler) -> set[str]:
    return {name for name in ("fits", "huge") if (await shipped.why(f"default/{name}")).get("attempt")}
