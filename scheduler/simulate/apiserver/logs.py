"""What a client gets that asks a pod's containers for something: pods here have no containers."""

from __future__ import annotations

import re
from typing import Final

from scheduler.simulate.apiserver import failures
from scheduler.simulate.apiserver.kinds import PODS
from scheduler.simulate.apiserver.registry import Registry
from scheduler.simulate.apiserver.store import Object

LOGS: Final = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/log")
STREAMS: Final = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/(exec|attach)")


def log_of(registry: Registry, namespace: str, name: str, container: str) -> str:
    """The pod's log: one line that says what this cluster is. Raises 404, or 400 if no container has started."""
    pod = registry.stored(PODS, namespace, name).object
    asked = container or _names(pod)[0]
    if asked not in _names(pod):
        raise failures.bad_request(f"container {asked} is not valid for pod {name}")
    phase = pod["status"].get("phase")
    if not pod["status"].get("containerStatuses"):
        node = pod["spec"].get("nodeName")
        waits = f"pod {name} does not have a host assigned" if not node else f'container "{asked}" in pod "{name}" '
        raise failures.bad_request(waits if not node else f"{waits}is waiting to start: ContainerCreating")
    return (
        f"Tandem's embedded cluster runs no containers: pod {namespace}/{name} is {phase} on node "
        f"{pod['spec']['nodeName']} only as an object, so there is no output of container {asked}.\n"
    )


def no_stream(registry: Registry, namespace: str, name: str, verb: str) -> failures.Failure:
    """The refusal of exec and attach. Raises 404 for an unknown pod."""
    registry.stored(PODS, namespace, name)
    text = f"{verb} is not possible: Tandem's embedded cluster runs no containers, its pods are objects only"
    return failures.Failure(501, "NotImplemented", text)


def _names(pod: Object) -> list[str]:
    spec = pod["spec"]
    return [one["name"] for field in ("containers", "initContainers") for one in spec.get(field) or ()]
