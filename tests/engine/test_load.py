"""Many hopeless pods: they neither flood the API server nor keep the others waiting, and no stranger ends the work."""

from __future__ import annotations

from scheduler.messages.commands import BindPod, PatchPodStatus, WriteEvent
from scheduler.messages.stimuli import ObjectObserved
from scheduler.objects.kinds import Kind
from scheduler.testing.objects import node
from tests.engine.driver import Cluster

HOPELESS = 200


def hopeless_cluster(**fields: object) -> Cluster:
    cluster = Cluster()
    cluster.node("n", cpu="1")
    for number in range(HOPELESS):
        cluster.pod(f"huge{number}", cpu="9", **fields)
    return cluster


def test_however_often_hopeless_pods_are_tried_each_gets_one_report() -> None:
    cluster = hopeless_cluster()
    cluster.settle(rounds=10 * HOPELESS)
    for round_ in range(3):
        cluster.advance(15)
        cluster.engine.queue.activate([f"default/huge{number}" for number in range(HOPELESS)], cluster.now)
        cluster.settle(rounds=10 * HOPELESS)
        assert len(cluster.attempts("huge0")) == round_ + 2
    assert sum(isinstance(command, WriteEvent) for command in cluster.sent) == HOPELESS
    assert sum(isinstance(command, PatchPodStatus) for command in cluster.sent) == HOPELESS


def test_hopeless_pods_that_are_woken_again_and_again_do_not_starve_a_lesser_one() -> None:
    cluster = hopeless_cluster(priority=1000)
    cluster.pod("good", cpu="500m", priority=0)
    for tries in range(2 * HOPELESS):
        cluster.schedule()
        if cluster.writes(BindPod, "good"):
            break
        cluster.node("n", cpu="1", labels={"tries": str(tries)})
        cluster.pod(f"gone{tries}", cpu="1m", node="n")
        cluster.delete(f"gone{tries}")
    assert tries <= HOPELESS, "each of the others had its turn, and none a second one"


def test_an_event_that_helps_no_pod_causes_no_attempt() -> None:
    cluster = hopeless_cluster()
    cluster.settle(rounds=10 * HOPELESS)
    cluster.advance(15)
    for number in range(50):
        cluster.node("other", cpu="2", labels={"heartbeat": str(number)})
        cluster.pod(f"stranger{number}", spec={"schedulerName": "default-scheduler"})
        cluster.settle()
    assert {len(cluster.attempts(f"huge{number}")) for number in range(HOPELESS)} == {1}


def test_a_pod_whose_profile_is_gone_when_its_turn_comes_is_let_go_and_the_next_is_tried() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="4")
    cluster.pod("a", priority=1)
    cluster.pod("b")
    profile = dict(cluster.engine.profiles)
    cluster.engine.profiles = {}
    cluster.engine.schedule_one(cluster.now)
    assert len(cluster.engine.queue.in_flight) == 0
    cluster.engine.profiles = profile
    assert cluster.schedule() is not None
    assert cluster.node_of("b") == "n"


def test_a_list_that_repeats_what_is_known_causes_no_attempts() -> None:
    cluster = hopeless_cluster()
    cluster.settle(rounds=10 * HOPELESS)
    cluster.advance(15)
    for pod in list(cluster.pods.values()):
        cluster.feed(ObjectObserved(Kind.POD, pod))
    cluster.feed(ObjectObserved(Kind.NODE, cluster.nodes["n"]))
    assert cluster.schedule() is None
    assert node("n").metadata.name in cluster.nodes
