"""Promise: claims that many pods share, and claims left over by a scheduler that was killed, end as they should."""

from __future__ import annotations

from typing import Any

import pytest

from e2e import builders
from e2e.room import Room
from e2e.subject import Scheduler
from e2e.test_device_races import check_nothing_is_held_twice, claims, pods_with_a_device_each, wait_allocated
from e2e.test_devices import device_class, devices_held, gpus, wanted, with_gpus

MAX_PODS_OF_A_CLAIM = 256
"""Entries of ``status.reservedFor`` that the API server takes."""


def sharing(room: Room, name: str) -> dict[str, Any]:
    """A pod that uses the room's claim ``shared``."""
    return builders.pod(
        name,
        room.name,
        cpu="1m",
        memory="1Mi",
        resourceClaims=[{"name": "gpus", "resourceClaimName": "shared"}],
    )


@pytest.mark.long
def test_a_claim_is_shared_by_256_pods_and_the_next_one_gets_the_place_of_one_that_goes(
    room: Room, subject: Scheduler
) -> None:
    count = MAX_PODS_OF_A_CLAIM + 1
    room.add_nodes(builders.node("a", pods=2 * count))
    room.add_cluster_object(device_class(room))
    room.add_cluster_object(gpus("a", 1))
    spec = wanted(room, 1)
    metadata = {"name": "shared", "namespace": room.name}
    api = "resource.k8s.io/v1"
    room.client.create({"apiVersion": api, "kind": "ResourceClaim", "metadata": metadata, "spec": spec})
    room.add_pods(*(sharing(room, f"p{number}") for number in range(count)))
    subject.start().wait_ready()
    bound = room.wait_bound(MAX_PODS_OF_A_CLAIM, 120)
    (last,) = {f"p{number}" for number in range(count)} - bound.keys()
    condition = room.pods.wait_until(lambda state: _failure(state[f"{room.name}/{last}"]), 60, "the last pod's failure")
    assert "add reservation to claim" in condition["message"]
    assert "must have at most 256 items" in condition["message"]
    (claim,) = claims(room)
    assert len(claim["status"]["reservedFor"]) == MAX_PODS_OF_A_CLAIM
    room.client.delete("Pod", min(bound), room.name)
    room.wait_placed(last, "a", 90)
    (claim,) = claims(room)
    assert last in {one["name"] for one in claim["status"]["reservedFor"]}
    assert devices_held(room) == [("a", "gpu-0")]


def _failure(pod: dict[str, Any]) -> dict[str, Any] | None:
    """The pod's PodScheduled condition, once an attempt has failed while its claim was written."""
    conditions = pod.get("status", {}).get("conditions", ())
    return next((one for one in conditions if "reservation to claim" in one.get("message", "")), None)


def asking(room: Room, count: int, devices: int) -> None:
    """Pods with an extended resource of which a node has devices."""
    resource = f"example.com/{room.name}"
    with_gpus(room, "a", count=devices, extendedResourceName=resource)
    pods = [builders.pod(f"p{number}", room.name, cpu="1m", memory="1Mi") for number in range(count)]
    for one in pods:
        amounts = {resource: "1"}
        one["spec"]["containers"][0].setdefault("resources", {}).update(requests=amounts, limits=amounts)
    room.add_pods(*pods)


def test_claims_that_a_killed_scheduler_left_for_extended_resources_leak_nothing(
    room: Room, subject: Scheduler
) -> None:
    """It was killed between making claims and binding their pods: some have devices, some not yet."""
    asking(room, 30, devices=30)
    with room.client.watch("ResourceClaim", room.name) as watch:
        subject.start()
        watch.wait_until(lambda state: len(state) >= 3, 30, "claims")
        subject.kill()
    check_nothing_is_held_twice(room)
    subject.start().wait_ready()
    room.wait_bound(30, 90)
    with room.client.watch("ResourceClaim", room.name) as watch:
        left = watch.wait_until(lambda state: list(state.values()) if len(state) == 30 else None, 60, "a claim a pod")
    owners = {one["metadata"]["ownerReferences"][0]["name"] for one in left}
    assert owners == {f"p{number}" for number in range(30)}
    named = {
        one["status"]["extendedResourceClaimStatus"]["resourceClaimName"] for one in room.client.list("Pod", room.name)
    }
    assert named == {one["metadata"]["name"] for one in left}
    check_nothing_is_held_twice(room)
    assert len(devices_held(room)) == 30


def test_a_slice_that_shrinks_while_pods_are_bound_gives_no_device_twice(room: Room, subject: Scheduler) -> None:
    """Some claims have their devices by then, some are being written: whatever is written stays."""
    pods_with_a_device_each(room, 16, devices_a_node=16)
    smaller = gpus("a", 4)["spec"]
    smaller["pool"]["generation"] = 2
    with room.client.watch("ResourceClaim", room.name) as watch:
        watch.wait_until(lambda state: len(state) == 16, 30, "claims")
        subject.start()
        wait_allocated(watch)
        room.client.patch("ResourceSlice", "a-gpus", None, {"spec": {key: smaller[key] for key in ("pool", "devices")}})
    bound = room.pods.wait_until(_bound_once_settled, 60, "each pod to be bound or refused")
    check_nothing_is_held_twice(room)
    assert len(devices_held(room)) == bound


def _bound_once_settled(pods: dict[str, dict[str, Any]]) -> int:
    """How many pods are bound, once all others were refused for want of devices; 0 before."""
    bound = [one for one in pods.values() if one["spec"].get("nodeName")]
    conditions = [one for pod in pods.values() for one in pod.get("status", {}).get("conditions", ())]
    refused = [one for one in conditions if "cannot allocate all claims" in one.get("message", "")]
    return len(bound) if len(bound) + len(refused) == len(pods) else 0
