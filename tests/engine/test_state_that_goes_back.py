"""The API server's state goes back, as when etcd is restored from a backup: what was granted may be gone again."""

from __future__ import annotations

import random

import pytest

from scheduler.cluster.cache import ClusterCache
from scheduler.messages.commands import BindPod, DeletePod, ReportKnownObjects
from scheduler.messages.stimuli import Reconciled, ReconciliationStarted
from scheduler.objects.pod import Pod
from tests.engine.restoring import Restorable


def bound_unseen() -> Restorable:
    """Pod a is bound to the only node that has room, as the API server has answered; no watch shows it."""
    cluster = Restorable()
    cluster.node("n", cpu="4")
    cluster.pod("a", cpu="3")
    before = cluster.state
    cluster.schedule_all()
    cluster.succeed_unseen(cluster.write(BindPod, "a"))
    cluster.goes_to(before)
    return cluster


def test_a_pod_whose_binding_was_answered_and_is_gone_is_placed_again() -> None:
    cluster = bound_unseen()
    cluster.is_listed()
    cluster.pod("b", cpu="3")
    cluster.schedule_all()
    assert cluster.node_of("a") == "n" and cluster.node_of("b") == ""
    assert cluster.is_reconciled() == ["pod default/a is no longer bound to node n"]
    assert cluster.place("a") == "active" and cluster.engine.cache.assumed_count == 0
    cluster.advance(60)
    cluster.settle()
    assert sorted([cluster.pods["default/a"].node_name, cluster.pods["default/b"].node_name]) == ["", "n"]
    assert cluster.is_reconciled() == []


def test_a_binding_that_is_under_way_or_shown_is_not_one_that_is_gone() -> None:
    cluster = Restorable()
    cluster.node("n", cpu="4")
    for name in ("a", "b", "c"):
        cluster.pod(name, cpu="1")
    cluster.schedule_all()
    cluster.succeed(cluster.write(BindPod, "a"))
    cluster.succeed_unseen(cluster.write(BindPod, "b"))
    reported = next(one for one in cluster.feed(ReconciliationStarted()) if isinstance(one, ReportKnownObjects))
    assert [(pod.name, node) for pod, node in reported.unconfirmed] == [("b", "n")]
    cluster.watch("b")
    lost = {cluster.uid(name): "n" for name in "abc"} | {"unknown": "n"}
    assert cluster.feed(Reconciled({}, {}, lost_bindings=lost)) == []
    assert [cluster.node_of(name) for name in "abc"] == ["n", "n", "n"]


def test_a_pod_that_was_assumed_on_another_node_meanwhile_keeps_its_room() -> None:
    cluster = bound_unseen()
    assert cluster.feed(Reconciled({}, {}, lost_bindings={cluster.uid("a"): "m"})) == []
    assert cluster.node_of("a") == "n"


def test_a_victim_whose_granted_deletion_is_gone_is_removed_again_for_the_pod_that_waits() -> None:
    cluster = Restorable()
    cluster.lingering = {"low"}
    cluster.node("n", cpu="3")
    cluster.pod("low", cpu="3", node="n", priority=1)
    cluster.pod("high", cpu="3", priority=9)
    before = cluster.state
    cluster.is_watched = False
    cluster.settle()
    assert cluster.engine.room.leaving == 1
    cluster.goes_to(before)
    cluster.is_listed()
    assert cluster.is_reconciled() == [], "the watch may not have shown it yet"
    cluster.advance(61)
    cluster.schedule_all()
    assert cluster.is_reconciled() == ["pod default/low no longer terminates"]
    assert cluster.engine.room.leaving == 0
    cluster.lingering = set()
    cluster.advance(60)
    cluster.settle()
    assert cluster.pods["default/high"].node_name == "n"
    assert not cluster.writes(DeletePod)


def test_a_victim_that_is_not_even_bound_any_more_is_placed_again() -> None:
    cluster = Restorable()
    cluster.lingering = {"low"}
    cluster.node("n", cpu="3")
    cluster.pod("low", cpu="3", priority=1)
    before = cluster.state
    cluster.settle()
    cluster.pod("high", cpu="3", priority=9)
    cluster.is_watched = False
    cluster.settle()
    cluster.is_watched = True
    cluster.watch("low")
    assert cluster.engine.room.leaving == 1
    cluster.goes_to(before)
    cluster.is_listed()
    cluster.settle()
    assert cluster.pods["default/low"].node_name == ""
    cluster.advance(61)
    assert cluster.is_reconciled() == ["pod default/low no longer terminates"]
    cluster.settle()
    assert cluster.pods["default/low"].node_name == "n"


def test_a_pod_that_is_bound_elsewhere_after_a_gap_gives_its_room_to_those_that_wait() -> None:
    cluster = Restorable()
    for name in ("n", "m"):
        cluster.node(name, cpu="4")
    cluster.pod("a", cpu="3", node="n")
    cluster.pod("b", cpu="3", node_selector={"kubernetes.io/hostname": "n"})
    cluster.settle()
    cluster.pod("a", cpu="3", node="m")
    assert cluster.node_of("a") == "m"
    assert cluster.place("b") in ("active", "backoff")


def busy(rng: random.Random, cluster: Restorable, names: list[str]) -> None:
    """Something happens, of which the engine may see nothing."""
    cluster.is_watched = rng.random() < 0.8
    what = rng.random()
    if what < 0.3:
        names.append(f"p{len(names)}")
        cluster.pod(names[-1], cpu=str(rng.randint(1, 3)), priority=rng.choice((0, 0, 0, 5)))
    elif what < 0.4 and cluster.pods:
        cluster.delete(rng.choice(sorted(cluster.pods)))
    elif what < 0.5:
        name = f"n{rng.randint(0, 3)}"
        if name in cluster.nodes and not any(pod.node_name == name for pod in cluster.pods.values()):
            cluster.remove_node(name)
        else:
            cluster.node(name, cpu="4")
    elif what < 0.8:
        cluster.schedule_all()
    for command in list(cluster.unanswered):
        if rng.random() < 0.6 and command in cluster.unanswered:
            (cluster.succeed if rng.random() < 0.6 else cluster.succeed_unseen)(command)
    cluster.advance(rng.choice((0.0, 1.0, 20.0)))


def looks(cache: ClusterCache) -> object:
    placed = sorted((uid, info.node_name, info.is_terminating) for uid, info in cache.pods.items())
    return placed, sorted(cache.node_names()), cache.assumed_count


@pytest.mark.parametrize("seed", range(40))
def test_after_a_restore_and_a_comparison_all_is_as_for_a_scheduler_that_has_just_started(seed: int) -> None:
    rng = random.Random(seed)
    cluster, names = Restorable(), list[str]()
    cluster.lingering = {f"p{number}" for number in range(0, 100, 3)}
    cluster.nodes_like(3, cpu="4")
    for _ in range(rng.randint(5, 25)):
        busy(rng, cluster, names)
    saved = cluster.state
    for _ in range(rng.randint(5, 25)):
        busy(rng, cluster, names)
    cluster.is_watched = False
    while cluster.unanswered:
        cluster.succeed(cluster.unanswered[0])
    cluster.goes_to(saved)
    for name in [name for name in saved[0] if saved[0][name].is_terminating]:
        # A kubelet ends what terminates.
        del cluster.pods[name]
    cluster.is_listed()
    cluster.lingering = set()
    cluster.settle()
    cluster.advance(61)
    cluster.is_reconciled()
    for _ in range(3):
        cluster.settle()
        cluster.advance(330)
    cluster.settle()
    assert cluster.is_reconciled() == []
    assert not cluster.refused
    fresh = Restorable()
    fresh.goes_to(cluster.state)
    fresh.is_listed()
    assert looks(cluster.engine.cache) == looks(fresh.engine.cache)
    fresh.settle()
    assert {key: pod.node_name for key, pod in fresh.pods.items()} == {
        key: pod.node_name for key, pod in cluster.pods.items()
    }
    for node in cluster.nodes:
        assert sum(_cpus(pod) for pod in cluster.pods.values() if pod.node_name == node) <= 4


def _cpus(pod: Pod) -> int:
    return int(pod.spec.containers[0].resources.requests["cpu"])
