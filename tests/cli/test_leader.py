"""The commands without --server: the leader's pod by a port-forward, over the wiring of production.

The scheduler is a process of its own that takes itself for a pod; the embedded API server forwards to its port.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from scheduler.cli.leader import READER
from scheduler.cli.main import main
from scheduler.simulate.apiserver.kinds import LEASES, NAMESPACES, NODES, POD_GROUPS, PODS
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.demo import ShippedScheduler
from scheduler.testing.documents import node_json, pod_json
from tests.cli.test_connection import Certificate, Recording, serving
from tests.controller.conftest import until
from tests.limits import WAIT_SECONDS

LEADER = ("tandem-system", "tandem-0")
TOKEN = "the-administrators-token"


@asynccontextmanager
async def leading(folder: Path, *flags: str, scheme: str = "https") -> AsyncIterator[EmbeddedCluster]:
    """A cluster in which a scheduler leads, whose pod's port can be reached; `folder/kubeconfig` is the user's."""
    async with EmbeddedCluster(token=TOKEN) as cluster:
        cluster.registry.create(NAMESPACES, "", {"metadata": {"name": "tandem-system"}})
        cluster.registry.create(PODS, "default", pod_json("huge", cpu="9"))
        kubeconfig = cluster.kubeconfig(folder / "kubeconfig")
        pod = "/".join(LEADER)
        async with ShippedScheduler(kubeconfig, folder / "log", *flags, scheme=scheme, pod=pod) as shipped:
            async with asyncio.timeout(WAIT_SECONDS):
                while not any("Successfully acquired lease" in line for line in shipped.log_lines()):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            cluster.server.pod_ports[LEADER] = shipped.port
            yield cluster


async def ask(folder: Path, *arguments: str) -> int:
    return await asyncio.to_thread(main, [*arguments, f"--kubeconfig={folder / 'kubeconfig'}"])


def requests(cluster: EmbeddedCluster, method: str, part: str) -> int:
    return sum(one.method == method and part in one.path for one in cluster.server.served)


async def test_the_leaders_pages_are_reached_by_the_kubeconfig_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with leading(tmp_path) as cluster:
        assert await ask(tmp_path, "queue") == 0, capfd.readouterr().err
        assert "default/huge" in capfd.readouterr().out
        assert await ask(tmp_path, "why", "huge", "--json") == 0
        assert '"pod": "default/huge"' in capfd.readouterr().out
        assert await ask(tmp_path, "why", "absent") == 1
        assert "pod default/absent is not known here" in capfd.readouterr().err
        assert requests(cluster, "POST", f"/serviceaccounts/{READER}/token") == 3
        assert requests(cluster, "GET", "/pods/tandem-0/portforward") == 3
        assert requests(cluster, "POST", "/tokenreviews") >= 1, "the token was shown, and looked at"


async def test_questions_go_the_same_way(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Over the wiring of production: the command line, the port-forward, the token, the page, the scheduler's fork."""
    (tmp_path / "pod.yaml").write_text(
        "kind: Pod\nmetadata: {name: asked}\nspec: {containers: [{name: c, image: i}]}\n"
    )
    async with leading(tmp_path) as cluster:
        cluster.registry.create(NODES, "", node_json("n1", cpu="4"))
        for words, text in (
            (("what-if", "-f", str(tmp_path / "pod.yaml"), "--max"), "default/asked"),
            (("what-if", "--drain", "n1", "--add-nodes", "1", "--like", "n1"), "n1-new-1"),
            (("why", "huge", "--what-helps"), "request 5 cpu less: 4 in place of 9"),
            (("capacity",), "default/huge"),
            (("nodes",), "n1"),
            (("nodes", "n1"), "cpu: 0 of 4 taken"),
            (("decisions",), "default/huge"),
        ):
            assert await ask(tmp_path, *words) == 0, capfd.readouterr().err
            assert text in capfd.readouterr().out
        assert await ask(tmp_path, "what-if", "--drain", "absent") == 1
        assert "node 'absent' is not known" in capfd.readouterr().err
        assert requests(cluster, "POST", "/subjectaccessreviews") >= 1


async def test_another_server_behind_the_pods_port_gets_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(leading(tmp_path))
        impostor = await stack.enter_async_context(serving(Recording(), Certificate(tmp_path).context))
        cluster.server.pod_ports[LEADER] = int(impostor.url.rpartition(":")[2])
        assert await ask(tmp_path, "queue") == 1
        assert impostor.seen == []
    assert "has another certificate than expected" in capfd.readouterr().err


async def test_what_is_in_the_way_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async with leading(tmp_path) as cluster:
        del cluster.server.pod_ports[LEADER]
        assert await ask(tmp_path, "queue") == 1
        assert "pod tandem-system/tandem-0: error forwarding port" in capfd.readouterr().err
        assert await ask(tmp_path, "queue", "--scheduler", "tandem-system/another") == 1
        said = " ".join(capfd.readouterr().err.split())
        assert "the scheduler's Lease tandem-system/another can't be read" in said
        assert "another Lease with --scheduler, or with --server a scheduler that runs without one" in said
        assert await ask(tmp_path, "queue", "--scheduler", "another") == 1
        assert "must be NAMESPACE/LEASE" in capfd.readouterr().err
        lease = cluster.registry.stored(LEASES, *("tandem-system", "tandem-scheduler")).object
        assert "tandem.scheduling/pages" in lease["metadata"]["annotations"]


async def test_a_leader_that_is_no_pod_with_https_is_asked_by_its_address(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with leading(tmp_path, scheme="http") as cluster:
        assert await ask(tmp_path, "queue") == 1
        assert "say where it is with --server" in capfd.readouterr().err
        assert requests(cluster, "POST", "/token") == 0


async def test_what_would_help_is_asked_of_a_group_and_of_a_member(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    async with leading(tmp_path, "--feature-gates=GenericWorkload=true,GangScheduling=true") as cluster:
        cluster.registry.create(NODES, "", node_json("n1", cpu="3"))
        gang = {"metadata": {"name": "train"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}}
        cluster.registry.create(POD_GROUPS, "default", gang)
        for number in range(4):
            member = pod_json(f"train-{number}", cpu="1", spec={"schedulingGroup": {"podGroupName": "train"}})
            cluster.registry.create(PODS, "default", member)
        await until(lambda: all(pod["status"].get("conditions") for pod in cluster.store.list(PODS, "default")))
        for words in (("train",), ("train-3",), ("default/train", "--json")):
            assert await ask(tmp_path, "why", *words, "--what-helps") == 0, capfd.readouterr().err
            printed = capfd.readouterr().out
            assert "request 250m cpu less: 750m in place of 1 in each pod" in printed
            assert "one more node like n1" in printed
            assert ("It starts with its group default/train." in printed) == (words == ("train-3",))
        assert await ask(tmp_path, "why", "job/train", "--what-helps") == 1
        assert "asks about one pod or group" in capfd.readouterr().err
