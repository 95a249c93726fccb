"""The demo's GPUs: a class, a pool on each of two nodes, and pods that ask for two GPUs of one NUMA node."""

from __future__ import annotations

from typing import Any, Final

from scheduler.simulate.apiserver import Registry
from scheduler.simulate.apiserver.kinds import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES

Object = dict[str, Any]

DRIVER: Final = "gpu.example.com"
TEMPLATE: Final = "two-gpus"
CLAIM: Final = "gpus"
NUMA_NODE_OF: Final = (0, 0, 1)
"""The NUMA node of each GPU of a node."""


def add_devices(registry: Registry, namespace: str, *nodes: str) -> None:
    """The class, the nodes' pools and the template."""
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    registry.create(DEVICE_CLASSES, "", {"metadata": {"name": "gpus"}, "spec": {"selectors": selectors}})
    devices = [
        {"name": f"gpu-{number}", "attributes": {"numa": {"int": numa}}, "capacity": {"memory": {"value": "80Gi"}}}
        for number, numa in enumerate(NUMA_NODE_OF)
    ]
    for node in nodes:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
        registry.create(RESOURCE_SLICES, "", {"metadata": {"name": f"{node}-gpus"}, "spec": spec})
    large = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
    exactly = {"deviceClassName": "gpus", "count": 2, "selectors": [{"cel": {"expression": large}}]}
    asked = {
        "requests": [{"name": "pair", "exactly": exactly}],
        "constraints": [{"matchAttribute": f"{DRIVER}/numa"}],
    }
    template = {"metadata": {"name": TEMPLATE}, "spec": {"spec": {"devices": asked}}}
    registry.create(RESOURCE_CLAIM_TEMPLATES, namespace, template)


def claiming() -> Object:
    """Fields of a pod's spec: it has a claim made from the template."""
    return {"resourceClaims": [{"name": CLAIM, "resourceClaimTemplateName": TEMPLATE}]}
