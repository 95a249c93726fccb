"""Preemptions whose room others take again and again: the rounds are counted, and the node is left out for a while."""

from __future__ import annotations

from scheduler.messages.commands import PatchPodStatus
from scheduler.testing.fragments import owner_json
from tests.engine.driver import Cluster
from tests.engine.test_preemption_policy import REMOVAL, full, try_high


def lose_the_room(cluster: Cluster, node: str, number: int) -> None:
    """The victim goes, and another scheduler fills the room before the preemptor is tried."""
    (last,) = [pod.metadata.name for pod in cluster.pods.values() if pod.node_name == node]
    for kind in REMOVAL:
        cluster.succeed(cluster.write(kind, last))
    cluster.pod(f"v-{node}-{number}", cpu="1", node=node, priority=1)


def test_a_node_that_others_fill_again_and_again_is_left_alone_after_some_rounds() -> None:
    cluster = full("a", breaker={"rounds": 3, "window": "10m"})
    for number in range(3):
        assert try_high(cluster) == "a", number
        lose_the_room(cluster, "a", number)
    assert "1 Preemption is suspended on the node: others took the room again and again" in try_high(cluster)
    assert cluster.said("high")[-1].endswith("others took the room again and again.")
    assert cluster.engine.room.suspensions == {"taken_again": 1}
    assert cluster.writes(PatchPodStatus, "v-a-2") == []


def test_rounds_on_several_nodes_stop_none_of_them() -> None:
    cluster = full("a", "b", breaker={"rounds": 2})
    assert try_high(cluster) == "a"
    lose_the_room(cluster, "a", 0)
    cluster.pod("v-a-0", cpu="1", node="a", priority=50)
    assert try_high(cluster) == "b"
    assert (cluster.engine.room.suspensions, cluster.problems()) == ({}, [])


def test_the_breaker_opens_again_when_the_rounds_are_old() -> None:
    cluster = full("a", breaker={"rounds": 2, "window": "2m"})
    for number in range(2):
        assert try_high(cluster) == "a"
        lose_the_room(cluster, "a", number)
    try_high(cluster)
    cluster.advance(119)
    assert cluster.place("high") == "unschedulable"
    cluster.advance(1)
    assert try_high(cluster) == "a"


def test_without_rounds_there_is_no_breaker() -> None:
    cluster = full("a", breaker={"rounds": 0})
    for number in range(8):
        assert try_high(cluster) == "a"
        lose_the_room(cluster, "a", number)


def test_preemptions_that_help_are_never_stopped() -> None:
    owner = owner_json("ReplicaSet", "r")
    cluster = Cluster(tandem={"preemption": {"breaker": {"rounds": 2}}})
    cluster.node("a", cpu="6")
    for number in range(6):
        cluster.pod(f"low-{number}", cpu="1", node="a", priority=1)
    for number in range(6):
        cluster.pod(f"high-{number}", cpu="1", priority=100, owner=owner)
    cluster.settle()
    assert {cluster.node_of(f"high-{number}") for number in range(6)} == {"a"}
    assert cluster.engine.room.suspensions == {}


def test_pods_of_one_controller_share_their_rounds_where_they_fail_on_the_node() -> None:
    owner = owner_json("ReplicaSet", "r")
    cluster = full("a", breaker={"rounds": 2})
    for number in range(2):
        name = f"high-{number}"
        cluster.pod(name, cpu="1", priority=100, owner=owner)
        cluster.schedule()
        assert cluster.nominated(name) == "a"
        cluster.settle()
        assert cluster.node_of(name) == "a"
        # The kubelet finds the room taken: the pod fails, and its controller makes another.
        cluster.pod(name, cpu="1", priority=100, owner=owner, node="a", phase="Failed")
        cluster.pod(f"v-a-{number}", cpu="1", node="a", priority=1)
    cluster.pod("high-2", cpu="1", priority=100, owner=owner)
    attempt = cluster.schedule()
    assert attempt is not None and "others took the room again and again" in attempt.message
