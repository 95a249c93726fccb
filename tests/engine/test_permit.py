from __future__ import annotations

import pytest

from scheduler.engine.attempt import ERROR, SCHEDULED, UNSCHEDULABLE
from scheduler.framework.plugin import Wait
from scheduler.messages.commands import BindPod, PatchPodStatus
from tests.engine.driver import Cluster
from tests.engine.scripted import scripted


def waiting(name: str = "Waits", seconds: float = 10) -> type:
    return scripted(name, permit=lambda pod, node: Wait(seconds))


def test_a_pod_waits_in_permit_assumed_and_with_its_node_announced() -> None:
    cluster = Cluster(waiting())
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    assert cluster.node_of("a") == "n"
    assert cluster.writes(BindPod) == []
    assert cluster.write(PatchPodStatus, "a").nominated_node_name == "n"
    assert cluster.place("a") == "in flight"


def test_it_is_bound_when_every_plugin_has_allowed_it() -> None:
    cluster = Cluster(waiting("One"), waiting("Two"))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    cluster.allow("a", "One")
    assert cluster.writes(BindPod) == []
    cluster.allow("a", "One")
    cluster.allow("a", "Two")
    assert cluster.write(BindPod, "a").node == "n"
    assert cluster.place("a") == ""
    cluster.settle()
    assert cluster.attempt("a").result == SCHEDULED


def test_one_rejection_is_enough_and_later_words_are_ignored() -> None:
    cluster = Cluster(waiting("One"), waiting("Two"))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    cluster.reject("a", "Two", "not now")
    cluster.allow("a", "One")
    attempt = cluster.attempt("a")
    assert (attempt.result, attempt.message) == (UNSCHEDULABLE, "0/1 nodes are available: 1 not now.")
    assert attempt.rejectors == ("Two",)
    assert cluster.node_of("a") == ""


def test_a_pod_that_was_rejected_in_permit_is_not_woken_by_its_own_failure() -> None:
    cluster = Cluster(waiting())
    cluster.node("n", cpu="2")
    cluster.pod("a", cpu="2", priority=1)
    cluster.pod("b", cpu="2")
    cluster.schedule()
    cluster.schedule()
    cluster.reject("a", "Waits")
    assert cluster.place("a") == "unschedulable"
    assert cluster.place("b") in ("active", "backoff"), "the room is free for others"


@pytest.mark.parametrize(("seconds", "text"), [(10, "10s"), (60, "1m0s"), (3600, "15m0s"), (1.5, "1.5s")])
def test_a_wait_ends_after_its_time_and_says_so(seconds: float, text: str) -> None:
    cluster = Cluster(waiting("Slow", seconds))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    cluster.advance(min(seconds, 900) - 0.5)
    assert cluster.attempts("a") == []
    cluster.advance(1)
    assert cluster.attempts("a")[0].message == (
        f"0/1 nodes are available: 1 rejected due to timeout after waiting {text} at plugin Slow."
    )
    assert cluster.attempts("a")[0].rejectors == ("Slow",)


def test_the_first_of_several_waits_to_end_ends_them_all() -> None:
    cluster = Cluster(waiting("Long", 100), waiting("Short", 5))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    cluster.advance(6)
    assert cluster.attempts("a")[0].rejectors == ("Short",)
    assert cluster.place("a") == "unschedulable"
    cluster.advance(200)
    assert len(cluster.attempts("a")) == 1


def test_a_pod_deleted_while_it_waits_is_removed_without_a_word() -> None:
    cluster = Cluster(waiting())
    cluster.node("n", cpu="2")
    cluster.pod("a", cpu="2", priority=1)
    cluster.pod("b", cpu="2")
    cluster.schedule()
    cluster.schedule()
    cluster.delete("a")
    assert cluster.attempt("a").message == "0/1 nodes are available: 1 removed."
    assert cluster.said("a") == []
    assert cluster.place("a") == ""
    assert cluster.place("b") in ("active", "backoff")
    assert not cluster.engine.bindings.under_way


def test_a_pod_made_again_unseen_while_it_waits_gives_its_room_to_the_new_one() -> None:
    """The watch has missed the deletion, and shows another pod of the name."""
    cluster = Cluster(waiting())
    cluster.node("n", cpu="2")
    cluster.pod("a", cpu="2")
    cluster.schedule()
    cluster.pod("a", cpu="2", uid="pod-a2")
    assert cluster.attempt("a").message == "0/1 nodes are available: 1 removed."
    assert not cluster.engine.bindings.under_way
    cluster.schedule()
    assert [waiter.pod.uid for waiter in cluster.engine.bindings.under_way] == ["pod-a2"]


def test_a_pod_preempted_while_it_waits_goes_back_to_the_queue_and_lives() -> None:
    cluster = Cluster(waiting())
    cluster.node("n", cpu="2")
    cluster.pod("low", cpu="2", priority=1)
    cluster.schedule()
    cluster.pod("high", cpu="2", priority=10)
    cluster.schedule()
    attempt = cluster.attempt("low")
    assert (attempt.result, attempt.message) == (ERROR, "waiting on permit for pod: preempted")
    assert cluster.place("low") == "error backoff"
    assert cluster.said("low", "Preempted") == ["Preempted by pod pod-high on node n (in kube-scheduler memory)."]
    cluster.schedule()
    assert cluster.node_of("high") == "n"
    assert "default/low" in cluster.pods


def test_the_nomination_announced_for_a_wait_is_taken_back_though_it_has_not_come_back_yet() -> None:
    cluster = Cluster(waiting())
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    cluster.reject("a", "Waits")
    first, second = cluster.writes(PatchPodStatus, "a")
    assert first.nominated_node_name == "n"
    assert second.nominated_node_name == ""
