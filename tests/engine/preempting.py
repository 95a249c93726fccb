"""A cluster in which room has to be made: one node, pods on it that may go, and how their going is answered."""

from __future__ import annotations

from typing import Any

from scheduler.messages.commands import DeletePod, PatchPodStatus
from tests.engine.driver import Cluster

GATED = "waiting for the preemption for this pod to be finished"


def cluster_of(cpu: str = "4", **fields: Any) -> Cluster:
    cluster = Cluster(**fields)
    cluster.node("n", cpu=cpu)
    return cluster


def running(
    cluster: Cluster, count: int, cpu: str = "1", *, priority: int = 1, name: str = "low", node: str = "n"
) -> None:
    for number in range(count):
        cluster.pod(f"{name}{number}", cpu=cpu, priority=priority, node=node)


def is_gated(cluster: Cluster, name: str) -> bool:
    """Activated, the pod stays where it is."""
    cluster.engine.queue.activate([f"default/{name}"], cluster.now)
    return cluster.place(name) == "gated"


def remove(cluster: Cluster, *names: str) -> None:
    """The writes about these victims arrive."""
    for name in names:
        cluster.succeed(cluster.write(PatchPodStatus, name))
        cluster.succeed(cluster.write(DeletePod, name))


def own_status(cluster: Cluster, *names: str) -> None:
    for name in names:
        for patch in cluster.writes(PatchPodStatus, name):
            cluster.succeed(patch)


def bound(cluster: Cluster, name: str) -> str:
    pod = cluster.pods.get(f"default/{name}")
    return "" if pod is None else pod.node_name
