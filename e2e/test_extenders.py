"""Promise: HTTP extenders work as with kube-scheduler, and a bad one harms no pod but its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from e2e import builders
from e2e.builders import SCHEDULER
from e2e.extender import Extender
from e2e.provider import Cluster
from e2e.room import Room
from e2e.tandem import Tandem, profile

pytestmark = pytest.mark.tandem_only

DEVICE = "example.com/device"


class Stage:
    """Starts extenders, and a Tandem that is configured with them."""

    def __init__(self, stack: ExitStack, cluster: Cluster, folder: Path, new_tandem: Callable[..., Tandem]) -> None:
        self._stack = stack
        self._cluster = cluster
        self._folder = folder
        self._new_tandem = new_tandem

    def extender(self, **behaviour: Any) -> Extender:
        return self._stack.enter_context(Extender(self._folder, self._cluster.kubeconfig, **behaviour))

    def tandem(self, *extenders: dict[str, Any]) -> Tandem:
        config = {**profile(SCHEDULER), "extenders": list(extenders)}
        return self._stack.enter_context(self._new_tandem(config=config))


@pytest.fixture
def stage(cluster: Cluster, tmp_path: Path, new_tandem: Callable[..., Tandem]) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(stack, cluster, tmp_path, new_tandem)


def managing(*, ignored: bool = True) -> list[dict[str, Any]]:
    """The extender is asked about pods that want the device only."""
    return [{"name": DEVICE, "ignoredByScheduler": ignored}]


def with_device(name: str, room: Room, **spec: Any) -> dict[str, Any]:
    pod = builders.pod(name, room.name, **spec)
    (container,) = pod["spec"]["containers"]
    container["resources"]["limits"] = {DEVICE: "1"}
    container["resources"]["requests"][DEVICE] = "1"
    return pod


def test_three_extenders_narrow_down_prefer_and_bind(room: Room, stage: Stage) -> None:
    machines = [f"machine{number}" for number in range(1, 6)]
    first = stage.extender(passes=["machine1", "machine2", "machine3"], prefers={"machine2": 10})
    second = stage.extender(passes=["machine2", "machine3", "machine5"], prefers={"machine3": 10})
    third = stage.extender(passes=["machine1", "machine2", "machine3"], prefers={"machine2": 50})
    both = {"filterVerb": "filter", "prioritizeVerb": "prioritize"}
    stage.tandem(
        first.configuration(**both, weight=3),
        second.configuration(**both, bindVerb="bind", weight=4, managedResources=managing()),
        third.configuration(**both, weight=10, nodeCacheCapable=True),
    )
    room.add_nodes(*(builders.node(name) for name in machines))
    room.add_pods(with_device("wanted", room))
    assert room.wait_bound(1) == {"wanted": "machine2"}
    (binding,) = second.calls("bind")
    uid = room.pod("wanted")["metadata"]["uid"]
    expected = {"PodName": "wanted", "PodNamespace": room.name, "PodUID": uid, "Node": "machine2"}
    assert binding["body"] == expected
    (event,) = room.wait_events("wanted", "Scheduled")
    assert event["note"] == f"Successfully assigned {room.name}/wanted to machine2"
    # Each was asked about what the one before it left, with objects or names as it can take them.
    whole, left, names = (one.calls("filter")[0]["body"] for one in (first, second, third))
    assert sorted(node["metadata"]["name"] for node in whole["Nodes"]["items"]) == machines
    assert whole["NodeNames"] is None
    assert sorted(node["metadata"]["name"] for node in left["Nodes"]["items"]) == machines[:3]
    assert names["Nodes"] is None
    assert sorted(names["NodeNames"]) == ["machine2", "machine3"]
    assert whole["Pod"]["metadata"]["name"] == "wanted"
    # Objects are whole, with fields that the scheduler itself does not read, and without managed fields.
    assert whole["Pod"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert all("nodeInfo" in node["status"] for node in whole["Nodes"]["items"])
    assert "managedFields" not in whole["Pod"]["metadata"]


def test_an_extender_is_asked_about_pods_that_want_its_resources_only(room: Room, stage: Stage) -> None:
    extender = stage.extender(passes=["b"])
    stage.tandem(extender.configuration(filterVerb="filter", managedResources=managing(), nodeCacheCapable=True))
    room.add_nodes(builders.node("a", cpu="64"), builders.node("b", cpu="1"))
    room.add_pods(with_device("theirs", room), builders.pod("ours", room.name, cpu="2"))
    assert room.wait_bound(2) == {"theirs": "b", "ours": "a"}
    assert {call["body"]["Pod"]["metadata"]["name"] for call in extender.calls()} == {"theirs"}


def test_answers_in_lower_case_are_understood(room: Room, stage: Stage) -> None:
    extender = stage.extender(passes=["b", "c"], prefers={"c": 10}, lower=True)
    verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize"}
    stage.tandem(extender.configuration(**verbs, weight=100, nodeCacheCapable=True))
    room.add_nodes(*(builders.node(name) for name in "abc"))
    room.add_pods(builders.pod("p", room.name))
    assert room.wait_bound(1) == {"p": "c"}


def test_what_an_extender_refuses_is_reported_and_its_pods_wake_on_an_event(room: Room, stage: Stage) -> None:
    extender = stage.extender(passes=[], reason="no device left")
    stage.tandem(extender.configuration(filterVerb="filter", managedResources=managing()))
    room.add_nodes(builders.node("a"), builders.node("b"))
    room.add_pods(with_device("p", room))
    message = room.wait_refused("p")["message"]
    assert message.startswith("0/2 nodes are available: 2 no device left.")
    extender.behave()
    room.add_nodes(builders.node("c"))
    assert set(room.wait_bound(1)) == {"p"}


@pytest.mark.parametrize(
    ("behaviour", "text"),
    [
        ({"delay": 60}, "no answer within 0.5s"),
        ({"is_down": True}, "code 500"),
        ({"claims": "ghost"}, 'claims a filtered node "ghost" which is not found in the input node list'),
        ({"fails": "out of order"}, "out of order"),
    ],
    ids=["slow", "failing", "lying", "complaining"],
)
def test_an_extender_that_fails_fails_its_own_pods_only(
    room: Room, stage: Stage, behaviour: dict[str, Any], text: str
) -> None:
    extender = stage.extender(**behaviour)
    stage.tandem(
        extender.configuration(
            filterVerb="filter", managedResources=managing(), nodeCacheCapable=True, httpTimeout="500ms"
        )
    )
    room.add_nodes(builders.node("a"))
    room.add_pods(with_device("theirs", room))
    (event,) = room.wait_events("theirs", "FailedScheduling")
    assert text in event["note"]
    assert room.wait_refused("theirs")["reason"] == "SchedulerError"
    room.add_pods(*(builders.pod(f"ours-{number}", room.name) for number in range(10)))
    assert len(room.wait_bound(10)) == 10
    assert "nodeName" not in room.pod("theirs")["spec"]
    extender.behave()
    room.wait_placed("theirs", "a", 30)


def test_an_ignorable_extender_that_fails_is_left_out(room: Room, stage: Stage) -> None:
    down = stage.extender(is_down=True)
    up = stage.extender(passes=["b"])
    verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1}
    stage.tandem(down.configuration(**verbs, ignorable=True), up.configuration(filterVerb="filter"))
    room.add_nodes(*(builders.node(name) for name in "abc"))
    room.add_pods(builders.pod("p", room.name))
    assert room.wait_bound(1) == {"p": "b"}
    assert down.calls("filter")


def test_a_failing_prioritize_gives_no_score_and_fails_nothing(room: Room, stage: Stage) -> None:
    down = stage.extender(is_down=True)
    up = stage.extender(prefers={"c": 10})
    stage.tandem(*(one.configuration(prioritizeVerb="prioritize", weight=100) for one in (down, up)))
    room.add_nodes(*(builders.node(name) for name in "abc"))
    room.add_pods(builders.pod("p", room.name))
    assert room.wait_bound(1) == {"p": "c"}
    assert down.calls("prioritize")


def test_an_extender_s_failed_bind_is_tried_again(room: Room, stage: Stage) -> None:
    extender = stage.extender(fails="the device is gone")
    stage.tandem(extender.configuration(bindVerb="bind", managedResources=managing()))
    room.add_nodes(builders.node("a"))
    room.add_pods(with_device("theirs", room), builders.pod("ours", room.name))
    (event,) = room.wait_events("theirs", "FailedScheduling")
    assert "the device is gone" in event["note"]
    assert room.wait_bound(1) == {"ours": "a"}
    extender.behave()
    room.wait_placed("theirs", "a", 30)
    assert {call["body"]["PodName"] for call in extender.calls("bind")} == {"theirs"}


def test_an_extender_chooses_where_room_is_made(room: Room, stage: Stage) -> None:
    extender = stage.extender(victims=["c"])
    stage.tandem(extender.configuration(preemptVerb="preempt", nodeCacheCapable=True))
    room.add_nodes(*(builders.node(name, cpu="1") for name in "abc"))
    room.add_pods(*(builders.pod(f"low-{number}", room.name, cpu="900m") for number in range(3)))
    placed = room.wait_bound(3)
    room.add_cluster_object(builders.priority_class(f"urgent-{room.name}", 1000))
    room.add_pods(builders.pod("urgent", room.name, cpu="900m", priorityClassName=f"urgent-{room.name}"))
    room.wait_placed("urgent", "c", 60)
    (asked,) = {tuple(sorted(call["body"]["NodeNameToMetaVictims"])) for call in extender.calls("preempt")}
    assert asked == ("a", "b", "c")
    (evicted,) = (name for name, node in placed.items() if node == "c")
    assert f"{room.name}/{evicted}" not in room.pods.state


def test_two_slow_extenders_are_asked_for_scores_at_the_same_time(room: Room, stage: Stage) -> None:
    slow = [stage.extender(delay=0.8, prefers={"b": 10}) for _ in range(2)]
    stage.tandem(*(one.configuration(prioritizeVerb="prioritize", weight=50) for one in slow))
    room.add_nodes(*(builders.node(name) for name in "ab"))
    begun = time.monotonic()
    room.add_pods(builders.pod("p", room.name))
    room.wait_placed("p", "b")
    assert time.monotonic() - begun < 1.5
