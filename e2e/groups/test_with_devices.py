"""Groups whose pods share a ResourceClaim, with real controllers: `E2E_SUBJECT=kube-scheduler` shows what is fair."""

from __future__ import annotations

from typing import Any

import pytest

from e2e import builders
from e2e.builders import Object
from e2e.client import State
from e2e.groups.objects import group, member
from e2e.room import Room

GATES = ("GenericWorkload", "GangScheduling", "DRAWorkloadResourceClaims")
RESOURCES = "resource.k8s.io/v1"
REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "grouped"}}


def add_device(room: Room) -> None:
    """One node, and the one device of the class on it."""
    node = f"{room.name}-n1"
    driver = f"{room.name}.example.com"
    room.add_nodes(builders.node(node, cpu="32"))
    room.add_cluster_object(_made("DeviceClass", "grouped", {"selectors": [{"cel": {"expression": "true"}}]}))
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
    room.add_cluster_object(_made("ResourceSlice", f"{room.name}-slice", spec))


def _made(kind: str, name: str, spec: Object, namespace: str = "") -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"kind": kind, "apiVersion": RESOURCES, "metadata": metadata, "spec": spec}


def claim(room: Room, name: str) -> Object:
    return _made("ResourceClaim", name, {"devices": {"requests": [REQUEST]}}, room.name)


def sharing(room: Room, count: int, **entry: str) -> list[Object]:
    entries: list[dict[str, Any]] = [{"name": "gpu", **entry}]
    return [member(room, f"p{number}", "g", resourceClaims=entries) for number in range(count)]


def consumers(state: State) -> list[list[str]]:
    """Of each claim of the room, the kinds and names of its consumers."""
    reserved = [thing.get("status", {}).get("reservedFor", ()) for thing in state.values()]
    return [sorted(f"{one['resource']}/{one['name']}" for one in each) for each in reserved]


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize("count", [2, 20])
def test_a_gang_whose_pods_share_one_claim_starts(room: Room, count: int) -> None:
    add_device(room)
    room.client.create(claim(room, "shared"))
    room.client.create(group(room, "g", count))
    room.add_pods(*sharing(room, count, resourceClaimName="shared"))
    room.wait_bound(count, 60)
    with room.client.watch("ResourceClaim", room.name) as claims:
        assert len(consumers(claims.state)[0]) == count


@pytest.mark.usefixtures("scheduler")
def test_a_claim_of_the_group_is_reserved_for_the_group_alone(room: Room) -> None:
    add_device(room)
    room.client.create(claim(room, "shared"))
    entry = {"resourceClaimName": "shared"}
    room.client.create(group(room, "g", 2, resourceClaims=[{"name": "gpu", **entry}]))
    pods = sharing(room, 3, **entry)
    room.add_pods(*pods[:2])
    room.wait_bound(2, 60)
    room.add_pods(pods[2])
    room.wait_bound(3, 60)
    with room.client.watch("ResourceClaim", room.name) as claims:
        assert consumers(claims.state) == [["podgroups/g"]]


@pytest.mark.usefixtures("scheduler")
def test_a_gang_gets_the_claim_that_is_made_from_its_groups_template(room: Room) -> None:
    add_device(room)
    template = _made("ResourceClaimTemplate", "template", {"spec": {"devices": {"requests": [REQUEST]}}}, room.name)
    room.client.create(template)
    entry = {"resourceClaimTemplateName": "template"}
    room.client.create(group(room, "g", 2, resourceClaims=[{"name": "gpu", **entry}]))
    room.add_pods(*sharing(room, 2, **entry))
    room.wait_bound(2, 60)
    with room.client.watch("ResourceClaim", room.name) as claims:
        assert consumers(claims.state) == [["podgroups/g"]]
