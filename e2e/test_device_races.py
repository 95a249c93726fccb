"""Promise: whatever comes in between, no device is given twice and every pod that can have one gets it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from e2e import builders
from e2e.client import ApiError, Watch
from e2e.room import Room
from e2e.subject import Scheduler
from e2e.test_devices import add_template, devices_held, gpus, pod, with_gpus


def claims(room: Room) -> list[dict[str, Any]]:
    return room.client.list("ResourceClaim", room.name)


def check_nothing_is_held_twice(room: Room) -> None:
    held = devices_held(room)
    assert len(held) == len(set(held))


def pods_with_a_device_each(room: Room, count: int, nodes: str = "a", devices_a_node: int = 8) -> None:
    with_gpus(room, *nodes, count=devices_a_node)
    add_template(room, 1)
    room.add_pods(*(pod(room, f"p{number}") for number in range(count)))


def wait_allocated(watch: Watch) -> None:
    """Until the first claim is allocated."""
    watch.wait_until(lambda state: any(one.get("status", {}).get("allocation") for one in state.values()), 30, "one")


def test_of_two_pods_that_race_for_one_device_one_gets_it_and_then_the_other(room: Room, subject: Scheduler) -> None:
    pods_with_a_device_each(room, 2, devices_a_node=1)
    subject.start().wait_ready()
    (winner,) = room.wait_bound(1)
    (loser,) = {"p0", "p1"} - {winner}
    assert "cannot allocate all claims" in room.wait_refused(loser)["message"]
    assert len(devices_held(room)) == 1
    room.client.delete("Pod", winner, room.name)
    room.wait_placed(loser, "a", 60)


def test_a_scheduler_killed_between_reservation_and_binding_gives_no_device_twice(
    room: Room, subject: Scheduler
) -> None:
    pods_with_a_device_each(room, 40, nodes="ab", devices_a_node=20)
    with room.client.watch("ResourceClaim", room.name) as watch:
        subject.start()
        wait_allocated(watch)
        subject.kill()
    check_nothing_is_held_twice(room)
    subject.start().wait_ready()
    room.wait_bound(40, 60)
    check_nothing_is_held_twice(room)
    assert len(devices_held(room)) == 40


def test_a_pool_that_shrinks_meanwhile_takes_nothing_from_those_that_have_their_devices(
    room: Room, scheduler: Scheduler
) -> None:
    pods_with_a_device_each(room, 4)
    smaller = gpus("a", 2)["spec"]
    smaller["pool"]["generation"] = 2
    room.client.patch("ResourceSlice", "a-gpus", None, {"spec": {key: smaller[key] for key in ("pool", "devices")}})
    bound = room.wait_bound(2)
    check_nothing_is_held_twice(room)
    room.add_pods(pod(room, "late"))
    room.wait_refused("late")
    assert bound.items() <= room.wait_bound(2).items()
    check_nothing_is_held_twice(room)


def test_a_claim_deleted_while_its_pod_is_bound_costs_no_other_pod_its_device(room: Room, subject: Scheduler) -> None:
    pods_with_a_device_each(room, 4, devices_a_node=4)
    with room.client.watch("ResourceClaim", room.name) as watch:
        watch.wait_until(lambda state: len(state) == 4, 30, "claims")
        first = claims(room)[0]
        subject.start()
        wait_allocated(watch)
        room.client.delete("ResourceClaim", first["metadata"]["name"], room.name)
    owner = first["metadata"]["ownerReferences"][0]["name"]
    others = {"p0", "p1", "p2", "p3"} - {owner}
    room.pods.wait_until(
        lambda state: all(one["spec"].get("nodeName") for name, one in state.items() if name in others),
        60,
        "the others",
    )
    check_nothing_is_held_twice(room)


@contextmanager
def meddling(room: Room) -> Iterator[list[str]]:
    """Another client keeps writing to each claim of the room: any write of the scheduler may meet a newer version.
    Yields the claims that were written to."""
    is_over = threading.Event()
    written: list[str] = []

    def meddle() -> None:
        while not is_over.wait(0.001):
            for one in claims(room):
                name = one["metadata"]["name"]
                annotations = {"example.com/count": str(len(written))}
                with suppress(ApiError):
                    room.client.patch("ResourceClaim", name, room.name, {"metadata": {"annotations": annotations}})
                    written.append(name)

    meddler = threading.Thread(target=meddle)
    meddler.start()
    try:
        yield written
    finally:
        is_over.set()
        meddler.join(30)


def test_claims_that_another_client_keeps_writing_to_are_allocated_all_the_same(room: Room, subject: Scheduler) -> None:
    """Each write of the scheduler may meet a newer version: a conflict, and another try."""
    pods_with_a_device_each(room, 8)
    with room.client.watch("ResourceClaim", room.name) as watch:
        watch.wait_until(lambda state: len(state) == 8, 30, "claims")
    with meddling(room) as written:
        subject.start().wait_ready()
        room.wait_bound(8, 60)
    assert len(set(written)) == 8
    check_nothing_is_held_twice(room)
    assert len(devices_held(room)) == 8


def test_claims_made_for_extended_resources_are_allocated_while_another_client_writes_to_them(
    room: Room, subject: Scheduler
) -> None:
    resource = f"example.com/{room.name}"
    with_gpus(room, "a", count=8, extendedResourceName=resource)
    asking = [builders.pod(f"p{number}", room.name) for number in range(8)]
    for one in asking:
        amounts = {resource: "1"}
        one["spec"]["containers"][0].setdefault("resources", {}).update(requests=amounts, limits=amounts)
    room.add_pods(*asking)
    with meddling(room):
        subject.start().wait_ready()
        room.wait_bound(8, 60)
    check_nothing_is_held_twice(room)
    assert len(devices_held(room)) == len(claims(room)) == 8
