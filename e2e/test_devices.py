"""Promise: pods get the devices that their claims ask for, and no device is given twice."""

from __future__ import annotations

from typing import Any

from e2e import builders
from e2e.room import Room
from e2e.subject import Scheduler

DRIVER = "gpu.example.com"
API = "resource.k8s.io/v1"


def device_class(room: Room, **spec: Any) -> dict[str, Any]:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": f"{room.name}-gpus"},
        "spec": {"selectors": [selector], **spec},
    }


def gpus(node: str, count: int) -> dict[str, Any]:
    """A slice: the first half of the GPUs is on NUMA node 0."""
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"numa": {"int": 2 * number // count}, "model": {"string": "a100"}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for number in range(count)
    ]
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpus"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def with_gpus(room: Room, *nodes: str, count: int, **spec: Any) -> None:
    room.add_nodes(*(builders.node(node) for node in nodes))
    room.add_cluster_object(device_class(room, **spec))
    for node in nodes:
        room.add_cluster_object(gpus(node, count))


def wanted(room: Room, count: int) -> dict[str, Any]:
    """What a claim asks for: GPUs of one NUMA node with at least 40Gi."""
    memory = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
    exactly = {
        "deviceClassName": f"{room.name}-gpus",
        "count": count,
        "selectors": [{"cel": {"expression": memory}}],
    }
    return {
        "devices": {
            "requests": [{"name": "gpus", "exactly": exactly}],
            "constraints": [{"matchAttribute": f"{DRIVER}/numa"}],
        }
    }


def add_template(room: Room, count: int) -> None:
    room.client.create(
        {
            "apiVersion": API,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "gpus", "namespace": room.name},
            "spec": {"spec": wanted(room, count)},
        }
    )


def pod(room: Room, name: str) -> dict[str, Any]:
    claims = [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]
    return builders.pod(name, room.name, resourceClaims=claims)


def devices_held(room: Room) -> list[tuple[str, str]]:
    """(pool, device) of every allocation in the room."""
    claims = room.client.list("ResourceClaim", room.name)
    return [
        (result["pool"], result["device"])
        for claim in claims
        for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    ]


def test_claims_made_from_a_template_get_devices_of_one_numa_node(room: Room, scheduler: Scheduler) -> None:
    with_gpus(room, "a", "b", count=4)
    add_template(room, 2)
    room.add_pods(*(pod(room, f"p{number}") for number in range(5)))
    room.wait_bound(4)
    condition = room.pods.wait_until(
        lambda state: next((found for one in state.values() if (found := refused(one))), None), 30, "a refusal"
    )
    assert condition["message"].startswith("0/2 nodes are available: 2 cannot allocate all claims.")
    held = devices_held(room)
    assert len(held) == len(set(held)) == 8
    for claim in room.client.list("ResourceClaim", room.name):
        results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        assert len({int(result["device"].rpartition("-")[2]) // 2 for result in results}) <= 1


def test_a_pod_that_waits_gets_the_devices_of_one_that_goes(room: Room, scheduler: Scheduler) -> None:
    with_gpus(room, "a", count=2)
    add_template(room, 1)
    room.add_pods(*(pod(room, f"p{number}") for number in range(3)))
    bound = room.wait_bound(2)
    room.client.delete("Pod", sorted(bound)[0], room.name)
    (waiting,) = {"p0", "p1", "p2"} - bound.keys()
    room.wait_placed(waiting, "a", 60)


def test_an_extended_resource_is_given_by_devices(room: Room, scheduler: Scheduler) -> None:
    with_gpus(room, "a", count=2, extendedResourceName=f"example.com/{room.name}")
    amount = {f"example.com/{room.name}": "2"}
    thing = builders.pod("p", room.name)
    thing["spec"]["containers"][0].setdefault("resources", {}).update(requests=amount, limits=amount)
    room.add_pods(thing)
    room.wait_placed("p", "a")
    status = room.client.get("Pod", "p", room.name)["status"]["extendedResourceClaimStatus"]
    (mapping,) = status["requestMappings"]
    assert mapping["resourceName"] == f"example.com/{room.name}"
    assert devices_held(room) == [("a", "gpu-0"), ("a", "gpu-1")]


def refused(one: dict[str, Any]) -> dict[str, Any] | None:
    for condition in one["status"].get("conditions", ()):
        is_refusal = condition["type"] == "PodScheduled" and condition["status"] == "False"
        if is_refusal and "cannot allocate" in condition.get("message", ""):
            found: dict[str, Any] = condition
            return found
    return None
