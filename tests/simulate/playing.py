"""Objects for these tests, and waiting for what the players of a cluster do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Unpack

from scheduler.simulate.apiserver import Follower, Registry
from scheduler.simulate.apiserver.kinds import KINDS, NODES, PODS
from scheduler.testing.documents import PodFields, pod_json
from tests.limits import WAIT_SECONDS

Json = dict[str, Any]
STORED = tuple(kind for kind in KINDS if kind.stored)


def add_node(registry: Registry, name: str, cpu: str = "4") -> None:
    registry.create(NODES, "", {"metadata": {"name": name}, "status": {"capacity": {"cpu": cpu, "pods": "110"}}})


def add_pod(registry: Registry, name: str, **fields: Unpack[PodFields]) -> Json:
    """A pod that requests 100m of CPU unless stated."""
    requests: PodFields = {"cpu": "100m"}
    return registry.create(PODS, "default", pod_json(name, **(requests | fields))).object


def workload(name: str, replicas: int = 2, **spec: Any) -> Json:
    """A Deployment, ReplicaSet or StatefulSet whose pods are born on the node `n`."""
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_json(node="n", cpu="100m")["spec"]}
    selector = {"matchLabels": {"app": name}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template, **spec},
    }


async def until(registry: Registry, condition: Callable[[], bool]) -> None:
    """Wait for a change after which the condition holds; a test that waits in vain fails after some seconds."""
    follower = Follower(registry.store, *STORED)
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            while not condition():
                await follower.changes()
    finally:
        follower.close()
