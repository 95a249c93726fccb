"""Promise: a pod that waits is bound as soon as it can be, the most important first, and no other is tried for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from e2e import builders
from e2e.attempts import attempts, wait_attempt
from e2e.room import Room, placements, refusal
from e2e.subject import Scheduler

AT_ONCE = 1.0
"""Seconds from an event to the binding of a pod that it helps."""
BACK_OFF = 2.1
"""Seconds after which the back-off of a pod that was refused once is over, whole seconds counted."""
GATE = [{"name": "tandem.test/wait"}]
FINALIZER = "tandem.test/stay"
TOLERANT = [{"operator": "Exists"}]


@contextmanager
def _bound_within_a_second(room: Room, *names: str) -> Iterator[None]:
    """What happens in the block lets these pods be bound within a second of its end."""
    yield
    happened = time.monotonic()
    room.pods.wait_until(lambda state: set(names) <= placements(state).keys(), 10, f"{names} bound")
    for name in names:
        took = _bound_at(room, name) - happened
        assert took < AT_ONCE, f"{name} was bound after {took:.2f} s"


def _bound_at(room: Room, name: str) -> float:
    """When the watch showed the pod with a node, on the monotonic clock."""
    return next(
        seen.at
        for seen in room.pods.history
        if seen.thing["metadata"]["name"] == name and seen.thing["spec"].get("nodeName")
    )


def _in_room(room: Room, **labels: str) -> dict[str, Any]:
    """A node selector that only the room's own nodes meet."""
    return {"nodeSelector": {"room": room.name, **labels}}


def _node(room: Room, name: str, cpu: str = "4", **rest: Any) -> builders.Object:
    labels = {"room": room.name, **rest.pop("labels", {})}
    return builders.node(name, cpu, labels=labels, **rest)


def _add_waiting(room: Room, *pods: builders.Object) -> None:
    """Add pods that cannot be placed, and wait until each was tried, or held back at its gate."""
    room.add_pods(*pods)
    names = {pod["metadata"]["name"] for pod in pods}
    room.pods.wait_until(
        lambda state: all(refusal(state.get(f"{room.name}/{name}")) for name in names), 20, "all of them refused"
    )


def _bystanders(room: Room) -> list[builders.Object]:
    """Pods that wait for something else each."""
    return [
        builders.pod("wants-a-giant", room.name, cpu="512", **_in_room(room)),
        builders.pod("wants-a-floppy", room.name, **_in_room(room, disk="floppy")),
        builders.pod("wants-a-key", room.name, **_in_room(room), schedulingGates=[{"name": "tandem.test/key"}]),
    ]


def test_a_new_node_helps_only_the_pod_that_fits_there(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(_node(room, "a"))
    _add_waiting(room, builders.pod("picky", room.name, **_in_room(room, disk="ssd")), *_bystanders(room))
    before = attempts(scheduler, room, "picky")
    with _bound_within_a_second(room, "picky"):
        room.add_nodes(_node(room, "b", labels={"disk": "ssd"}))
    assert attempts(scheduler, room) == before


def test_a_label_helps_only_the_pod_that_selects_it(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(_node(room, "a"))
    missing = [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]
    _add_waiting(
        room,
        builders.pod("picky", room.name, **_in_room(room, disk="ssd")),
        builders.pod("wants-a-claim", room.name, volumes=missing, **_in_room(room)),
        *_bystanders(room),
    )
    before = attempts(scheduler, room, "picky")
    with _bound_within_a_second(room, "picky"):
        room.client.patch("Node", "a", None, {"metadata": {"labels": {"disk": "ssd"}}})
    assert attempts(scheduler, room) == before


def test_a_taint_removed_helps_only_the_pod_that_tolerates_the_rest(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(_node(room, "a", taints=[builders.taint("repair"), builders.taint("special")]))
    special = [{"key": "special", "operator": "Exists"}]
    _add_waiting(
        room,
        builders.pod("special", room.name, tolerations=special, **_in_room(room)),
        builders.pod("plain", room.name, **_in_room(room)),
        builders.pod("gated", room.name, schedulingGates=GATE, tolerations=TOLERANT, **_in_room(room)),
    )
    before = attempts(scheduler, room, "special")
    with _bound_within_a_second(room, "special"):
        room.client.patch("Node", "a", None, {"spec": {"taints": [builders.taint("special")]}})
    assert attempts(scheduler, room) == before


def test_a_pod_deleted_helps_only_the_pod_that_wants_its_room(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(_node(room, "a", cpu="1"))
    room.add_pods(builders.pod("there", room.name, cpu="1", **_in_room(room)))
    room.wait_running(1)
    others = [pod for pod in _bystanders(room) if pod["metadata"]["name"] != "wants-a-giant"]
    _add_waiting(room, builders.pod("next", room.name, cpu="1", **_in_room(room)), *others)
    before = attempts(scheduler, room, "next")
    with _bound_within_a_second(room, "next"):
        room.client.delete("Pod", "there", room.name)
    assert attempts(scheduler, room) == before


def test_a_gate_lifted_lets_its_pod_go_and_no_other(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(_node(room, "a"))
    twice = [*GATE, {"name": "tandem.test/second"}]
    _add_waiting(room, builders.pod("held", room.name, schedulingGates=twice, **_in_room(room)), *_bystanders(room))
    assert room.wait_refused("held")["reason"] == "SchedulingGated"
    assert room.events_about("held") == [], "a gated pod was tried"
    before = attempts(scheduler, room, "held")
    _lift(room, "held", "tandem.test/second")
    assert attempts(scheduler, room, "held") == before
    assert "held" not in placements(room.pods.state), "one gate still holds it"
    with _bound_within_a_second(room, "held"):
        _lift(room, "held", "tandem.test/wait")
    assert attempts(scheduler, room) == before


def _lift(room: Room, pod: str, gate: str) -> None:
    room.client.patch("Pod", pod, room.name, {"spec": {"schedulingGates": [{"name": gate, "$patch": "delete"}]}})


def test_while_nothing_else_is_to_be_done_no_back_off_keeps_a_pod_waiting(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(_node(room, "a", cpu="4"))
    selector = _in_room(room)
    room.add_pods(*(builders.pod(f"small-{i}", room.name, cpu="1", **selector) for i in range(4)))
    room.wait_running(4)
    _add_waiting(room, builders.pod("big", room.name, cpu="4", **selector))
    for number, victim in enumerate(("small-0", "small-1", "small-2"), start=2):
        room.client.delete("Pod", victim, room.name)
        wait_attempt(scheduler, room, "big", number)
    # Refused four times it would have to back off for eight seconds.
    with _bound_within_a_second(room, "big"):
        room.client.delete("Pod", "small-3", room.name)


def test_room_that_appears_goes_to_the_most_important(room: Room, scheduler: Scheduler) -> None:
    for rank, name in enumerate(("fifth", "fourth", "third", "second", "first")):
        room.add_cluster_object(builders.priority_class(f"{room.name}-{name}", rank, preemptionPolicy="Never"))
    room.add_nodes(_node(room, "a", cpu="3"))
    room.add_pods(builders.pod("there", room.name, cpu="3", **_in_room(room)))
    room.wait_running(1)
    _add_waiting(
        room,
        *(
            builders.pod(name, room.name, cpu="1", priorityClassName=f"{room.name}-{name}", **_in_room(room))
            for name in ("third", "first", "fifth", "second", "fourth")
        ),
    )
    assert room.pods.holds_for(lambda state: len(placements(state)) == 1, BACK_OFF)
    with _bound_within_a_second(room, "first", "second", "third"):
        room.client.delete("Pod", "there", room.name)
    assert not {"fourth", "fifth"} & placements(room.pods.state).keys()


@pytest.fixture
def lingering(room: Room) -> Iterator[Callable[..., builders.Object]]:
    """Makes pods that, once deleted, go on terminating until `_let_go` or the end of the test."""
    made: list[str] = []

    def make(name: str, **spec: Any) -> builders.Object:
        pod = builders.pod(name, room.name, **spec)
        pod["metadata"]["finalizers"] = [FINALIZER]
        made.append(name)
        return pod

    yield make
    for name in made:
        if f"{room.name}/{name}" in room.pods.state:
            _let_go(room, name)


def _let_go(room: Room, name: str) -> None:
    room.client.patch("Pod", name, room.name, {"metadata": {"finalizers": None}})


def test_a_nomination_outlives_the_scheduler(
    room: Room, subject: Scheduler, lingering: Callable[..., builders.Object]
) -> None:
    ranks = {"low": 10, "middle": 20, "high": 1000}
    for name, value in ranks.items():
        room.add_cluster_object(builders.priority_class(f"{room.name}-{name}", value))
    low, middle, high = ({"priorityClassName": f"{room.name}-{name}", **_in_room(room)} for name in ranks)
    subject.start().wait_ready()
    room.add_nodes(_node(room, "a", cpu="4"))
    room.add_pods(lingering("victim", cpu="3", **low))
    room.wait_running(1)
    room.add_nodes(_node(room, "b", cpu="4"))
    room.add_pods(builders.pod("dearer", room.name, cpu="4", **middle))
    room.wait_running(2)
    room.add_pods(builders.pod("preemptor", room.name, cpu="2", **high))
    room.wait_nominated("preemptor", "a")
    subject.kill()
    subject.start().wait_ready()
    # The free CPU of node a is enough for this one, but not with what the preemptor is about to take.
    room.add_pods(builders.pod("latecomer", room.name, cpu="1", **_in_room(room)))
    assert "Insufficient cpu" in room.wait_refused("latecomer")["message"]
    assert room.pod("preemptor")["status"].get("nominatedNodeName") == "a"
    with _bound_within_a_second(room, "preemptor", "latecomer"):
        _let_go(room, "victim")
    assert placements(room.pods.state) == {"dearer": "b", "preemptor": "a", "latecomer": "a"}
    assert "deletionTimestamp" not in room.pod("dearer")["metadata"]


def test_of_two_hundred_hopeless_pods_each_gets_a_report_and_an_event_wakes_only_those_it_helps(
    room: Room, scheduler: Scheduler
) -> None:
    kinds, each = ("red", "green", "blue", "grey"), 50
    room.add_nodes(_node(room, "a"), _node(room, "b"))
    pods = [
        builders.pod(f"{kind}-{i}", room.name, cpu="10m", memory="1Mi", **_in_room(room, colour=kind))
        for kind in kinds
        for i in range(each)
    ]
    _add_waiting(room, *pods)
    reason = "node(s) didn't match Pod's node affinity/selector"
    for pod in pods:
        name = pod["metadata"]["name"]
        (event,) = room.wait_events(name, "FailedScheduling", 20)
        assert reason in event["note"]
        assert event["note"] == room.wait_refused(name)["message"]
    green = {pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"].startswith("green")}
    before = attempts(scheduler, room, *green)
    with _bound_within_a_second(room, *green):
        room.client.patch("Node", "b", None, {"metadata": {"labels": {"colour": "green"}}})
    assert placements(room.pods.state) == dict.fromkeys(green, "b")
    assert attempts(scheduler, room) == before
    assert set(before.values()) <= {1}, "a hopeless pod was tried again without need"
