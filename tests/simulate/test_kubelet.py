from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from scheduler.simulate.apiserver.kinds import PODS
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.kubelet import KubeletSettings
from tests.simulate.playing import add_node, add_pod, until


def _status(cluster: EmbeddedCluster, name: str) -> dict[str, Any]:
    pod = cluster.store.get(PODS, "default", name)
    return {} if pod is None else dict(pod["status"])


async def test_a_bound_pod_runs_and_a_deleted_one_goes() -> None:
    async with EmbeddedCluster(kubelet=KubeletSettings(stop_seconds=0.01)) as cluster:
        add_node(cluster.registry, "n")
        add_pod(cluster.registry, "p", node="n")
        await until(cluster.registry, lambda: _status(cluster, "p").get("phase") == "Running")
        status = _status(cluster, "p")
        assert {"type": "Ready", "status": "True"}.items() <= status["conditions"][-2].items()
        assert status["podIP"] and status["containerStatuses"][0]["ready"]
        cluster.registry.delete(PODS, "default", "p")
        await until(cluster.registry, lambda: not _status(cluster, "p"))


async def test_a_pod_that_does_not_fit_fails_as_on_a_real_kubelet() -> None:
    async with EmbeddedCluster() as cluster:
        add_node(cluster.registry, "n", cpu="1")
        add_pod(cluster.registry, "a", node="n", cpu="800m")
        add_pod(cluster.registry, "b", node="n", cpu="300m")
        await until(cluster.registry, lambda: _status(cluster, "b").get("phase") == "Failed")
        status = _status(cluster, "b")
        assert status["reason"] == "OutOfcpu"
        assert status["message"] == (
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 300, used: 800, capacity: 1000"
        )


async def test_room_is_free_again_when_a_pod_has_gone() -> None:
    async with EmbeddedCluster(kubelet=KubeletSettings(stop_seconds=0)) as cluster:
        add_node(cluster.registry, "n", cpu="1")
        add_pod(cluster.registry, "a", node="n", cpu="800m")
        await until(cluster.registry, lambda: _status(cluster, "a").get("phase") == "Running")
        cluster.registry.delete(PODS, "default", "a")
        await until(cluster.registry, lambda: not _status(cluster, "a"))
        add_pod(cluster.registry, "b", node="n", cpu="800m")
        await until(cluster.registry, lambda: _status(cluster, "b").get("phase") == "Running")


async def test_a_pod_runs_for_its_stated_time_and_then_succeeds() -> None:
    async with EmbeddedCluster(kubelet=KubeletSettings(run_seconds=lambda pod: 0.01)) as cluster:
        add_node(cluster.registry, "n")
        add_pod(cluster.registry, "p", node="n")
        await until(cluster.registry, lambda: _status(cluster, "p").get("phase") == "Succeeded")
        assert _status(cluster, "p")["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


async def test_the_kubeconfig_leads_to_the_cluster(tmp_path: Path) -> None:
    async with EmbeddedCluster(token="secret") as cluster:
        config = yaml.safe_load(cluster.kubeconfig(tmp_path / "config").read_text())
        assert config["clusters"][0]["cluster"]["server"] == cluster.url
        assert config["users"][0]["user"] == {"token": "secret"}
