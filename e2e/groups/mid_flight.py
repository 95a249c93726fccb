"""Gangs whose objects are deleted while they are tried, placed or bound, by any API of groups."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from e2e import builders
from e2e.builders import Object
from e2e.room import Room, placements

GANGS, MEMBERS = 12, 8
MAX_DELAY_SECONDS = 0.06
"""About as long as a gang needs from its last pod's creation to its last binding."""


def check_all_or_none(
    room: Room,
    describe: Callable[[str, int], object],
    member: Callable[[str, str], Object],
    forget: Callable[[str], None],
) -> None:
    """Of each gang all pods start or none; those of which none did start once they are described again.

    ``describe``: creates the object of a group of this name and quorum. ``member``: a pod of this name and group.
    ``forget``: deletes the object.
    """
    chance = random.Random(1)
    room.add_nodes(*[builders.node(f"{room.name}-n{number}", cpu="60") for number in range(2)])
    names = [f"g{number}" for number in range(GANGS)]
    for name in names:
        describe(name, MEMBERS)
        room.client.create_all([member(f"{name}-{number}", name) for number in range(MEMBERS)])
        time.sleep(chance.random() * MAX_DELAY_SECONDS)
        forget(name)
    room.add_pods(builders.pod("last", room.name))
    room.pods.wait_until(lambda state: "last" in placements(state), 30, "the pod of no group on a node")

    def started() -> list[int]:
        bound = [pod.rpartition("-")[0] for pod in placements(room.pods.state)]
        return [bound.count(name) for name in names]

    room.pods.wait_until(lambda _: set(started()) <= {0, MEMBERS}, 30, "all or none of each group")
    assert room.pods.holds_for(lambda _: set(started()) <= {0, MEMBERS}, 3)
    for name, count in zip(names, started(), strict=True):
        if not count:
            describe(name, MEMBERS)
    room.wait_bound(GANGS * MEMBERS + 1)
