from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.making_room.granted import BUDGET_SECONDS
from scheduler.engine.making_room.policies import REFUSED_SECONDS
from scheduler.framework.post_filter import NominationMode
from scheduler.messages.commands import DeletePod, EvictPod, PatchPodStatus
from scheduler.messages.stimuli import WriteFinished
from scheduler.testing.fragments import owner_json
from tests.builders import budget
from tests.engine.driver import Answerable, Cluster

PREEMPTING = "high"

REMOVAL: tuple[type[Answerable], ...] = (PatchPodStatus, DeletePod)
"""The writes that remove a victim, in their order."""


def full(*nodes: str, **preemption: Any) -> Cluster:
    """Each node is filled by one victim, ``v-NODE``; the first node's is the least important."""
    cluster = Cluster(tandem={"preemption": preemption})
    for number, name in enumerate(nodes):
        cluster.node(name, cpu="1")
        victim(cluster, name, priority=number + 1)
    return cluster


def victim(cluster: Cluster, node: str, **fields: Any) -> None:
    cluster.pod(f"v-{node}", cpu="1", node=node, labels={"app": f"v-{node}"}, **fields)


def try_high(cluster: Cluster, **fields: Any) -> str:
    """Try ``high``; the node it is nominated to, or the message that says why there is none."""
    if "default/high" not in cluster.pods:
        cluster.pod(PREEMPTING, cpu="1", priority=100, **fields)
    attempt = cluster.schedule()
    assert attempt is not None and attempt.pod == "default/high", attempt
    return attempt.nominated_node if attempt.nomination_mode is NominationMode.SET else attempt.message


# --- budgets ----------------------------------------------------------------------------------------------------------


def test_by_default_a_budget_is_broken_where_nothing_else_helps_and_strictly_it_never_is() -> None:
    for policy, wanted in (("bestEffort", True), ("strict", False)):
        cluster = full("a", pdbPolicy=policy)
        cluster.show(budget("guard", {"app": "v-a"}, allowed=0))
        answer = try_high(cluster)
        assert (answer == "a") is wanted
        if not wanted:
            assert "1 Preemption would violate a PodDisruptionBudget" in answer
            assert not cluster.writes(EvictPod) and not cluster.writes(DeletePod)


def test_a_policy_that_a_reload_brings_holds_from_the_next_attempt_on() -> None:
    cluster = full("a", pdbPolicy="bestEffort")
    cluster.show(budget("guard", {"app": "v-a"}, allowed=0))
    strict = full(pdbPolicy="strict").engine
    assert cluster.engine.replace_profiles(cluster.profiles, strict.settings, cluster.now)
    assert "1 Preemption would violate a PodDisruptionBudget" in try_high(cluster)
    assert cluster.writes(DeletePod) == []


def test_a_refused_eviction_sends_the_preemptor_to_the_next_candidate_for_a_while() -> None:
    cluster = full("a", "b", pdbPolicy="strict")
    assert try_high(cluster) == "a"
    cluster.fail(cluster.write(EvictPod, "v-a"), 429, "Cannot evict pod", "TooManyRequests")
    assert try_high(cluster) == "b"
    assert cluster.write(EvictPod).pod.name == "v-b"
    assert cluster.engine.room.suspensions == {"eviction_refused": 1}


def test_a_node_whose_eviction_was_refused_is_tried_again_after_a_minute() -> None:
    cluster = full("a", pdbPolicy="strict")
    assert try_high(cluster) == "a"
    cluster.fail(cluster.write(EvictPod, "v-a"), 429, "Cannot evict pod", "TooManyRequests")
    assert "1 Preemption is suspended on the node: an eviction was refused" in try_high(cluster)
    assert cluster.nominated("high") == ""
    cluster.advance(REFUSED_SECONDS - 1)
    assert cluster.place("high") == "unschedulable"
    cluster.advance(1)
    assert try_high(cluster) == "a"


def test_victims_evicted_before_another_was_refused_are_not_waited_for() -> None:
    cluster = Cluster(tandem={"preemption": {"pdbPolicy": "strict"}})
    cluster.node("a", cpu="2")
    cluster.node("b", cpu="2")
    for name, node, priority in (("first", "a", 2), ("last", "a", 1), ("other", "b", 3)):
        cluster.pod(name, cpu="2" if node == "b" else "1", node=node, priority=priority)
    cluster.lingering.add("first")
    cluster.pod("high", cpu="2", priority=100)
    cluster.schedule()
    assert cluster.nominated("high") == "a"
    cluster.succeed(cluster.write(EvictPod, "first"))
    cluster.fail(cluster.write(EvictPod, "last"), 429, "Cannot evict pod", "TooManyRequests")
    cluster.schedule()
    assert cluster.nominated("high") == "b"


def test_two_preemptors_do_not_spend_one_disruption_twice() -> None:
    cluster = full("a", "b")
    for name in ("v-a", "v-b"):
        cluster.change(name, labels={"app": "web"})
    victim(cluster, "c", priority=50)
    cluster.node("c", cpu="1")
    cluster.show(budget("guard", {"app": "web"}, allowed=1))
    assert try_high(cluster) == "a"
    cluster.pod("second", cpu="1", priority=90)
    cluster.schedule()
    assert cluster.nominated("second") == "c", "a pricier victim, but no broken budget"


def test_a_victim_counts_against_the_budget_until_the_budget_itself_does_so() -> None:
    cluster = full("a", "b")
    for name in ("v-a", "v-b"):
        cluster.change(name, labels={"app": "web"})
    cluster.show(budget("guard", {"app": "web"}, allowed=2))
    assert try_high(cluster) == "a"
    for kind in REMOVAL:
        cluster.succeed(cluster.write(kind, "v-a"))
    in_flight = cluster.engine.room.victims_in_flight
    assert [info.name for info in in_flight(cluster.now)] == ["v-a"], "gone, but the budget does not say so yet"
    cluster.show(budget("guard", {"app": "web"}, allowed=1))
    assert in_flight(cluster.now) == ()


def test_a_victim_that_a_budget_counts_before_its_deletion_is_answered_is_not_counted_twice() -> None:
    cluster = full("a")
    cluster.show(budget("guard", {"app": "v-a"}, allowed=2))
    assert try_high(cluster) == "a"
    cluster.succeed(cluster.write(PatchPodStatus, "v-a"))
    in_flight = cluster.engine.room.victims_in_flight
    assert [info.name for info in in_flight(cluster.now)] == ["v-a"]
    cluster.delete("v-a")
    cluster.show(budget("guard", {"app": "v-a"}, allowed=1))
    assert in_flight(cluster.now) == ()
    deletion = cluster.write(DeletePod, "v-a")
    cluster.unanswered.remove(deletion)
    cluster.feed(WriteFinished(deletion.ticket, True, 200))
    assert in_flight(cluster.now) == ()
    assert not cluster.engine.room.granted.counted


def test_a_victim_without_a_change_of_a_budget_is_forgotten_in_the_end() -> None:
    cluster = full("a")
    cluster.show(budget("guard", {"app": "web"}, allowed=2))
    assert try_high(cluster) == "a"
    for kind in REMOVAL:
        cluster.succeed(cluster.write(kind, "v-a"))
    assert cluster.engine.room.victims_in_flight(cluster.now)
    cluster.time += BUDGET_SECONDS
    cluster.schedule()
    assert cluster.engine.room.victims_in_flight(cluster.now) == ()


def test_a_victim_is_not_kept_for_budgets_where_its_namespace_has_none() -> None:
    cluster = full("a")
    cluster.show(budget("guard", {"app": "v-a"}, namespace="elsewhere"))
    assert try_high(cluster) == "a"
    for kind in REMOVAL:
        cluster.succeed(cluster.write(kind, "v-a"))
    assert cluster.engine.room.victims_in_flight(cluster.now) == ()


# --- scope and preference ---------------------------------------------------------------------------------------------


def test_with_own_scope_the_pods_of_other_schedulers_stay() -> None:
    cluster = Cluster(tandem={"preemption": {"victimScope": "own"}})
    for name, scheduler in (("a", "default-scheduler"), ("b", "tandem-scheduler")):
        cluster.node(name, cpu="1")
        victim(cluster, name, priority=1 if name == "a" else 5, scheduler=scheduler)
    assert try_high(cluster) == "b"


def test_pods_of_daemon_sets_are_preferably_left_alone_where_that_is_asked_for() -> None:
    owner = owner_json("DaemonSet", "d")
    chosen = []
    for seed in range(8):
        cluster = Cluster(tandem={"preemption": {"preferOtherThanDaemonSets": True}}, seed=seed)
        for name in ("a", "b"):
            cluster.node(name, cpu="1")
            victim(cluster, name, priority=1, owner=owner if name == "a" else None)
        chosen.append(try_high(cluster))
    assert set(chosen) == {"b"}


# --- victims that do not end ------------------------------------------------------------------------------------------


def start_dying(cluster: Cluster, node: str) -> None:
    """The victim is deleted, but stays."""
    cluster.lingering.add(f"v-{node}")
    for kind in REMOVAL:
        cluster.succeed(cluster.write(kind, f"v-{node}"))
    for patch in cluster.writes(PatchPodStatus, "high"):
        cluster.succeed(patch)
    cluster.engine.queue.activate(["default/high"], cluster.now)


def test_a_preemptor_waits_for_dying_victims_but_not_longer_than_the_timeout() -> None:
    cluster = full("a", "b", nominationTimeout="60s")
    assert try_high(cluster) == "a"
    start_dying(cluster, "a")
    assert "not eligible due to a terminating pod on the nominated node" in try_high(cluster)
    cluster.advance(59)
    assert cluster.place("high") == "unschedulable"
    cluster.advance(1)
    assert try_high(cluster) == "b"
    assert cluster.engine.room.suspensions == {"victims_remained": 1}


def test_with_no_other_node_the_nomination_is_given_up_and_renewed_later() -> None:
    cluster = full("a", nominationTimeout="60s")
    assert try_high(cluster) == "a"
    start_dying(cluster, "a")
    try_high(cluster)
    cluster.advance(60)
    assert "1 Preemption is suspended on the node: its victims did not end in time" in try_high(cluster)
    assert cluster.nominated("high") == ""
    for patch in cluster.writes(PatchPodStatus, "high"):
        cluster.succeed(patch)
    cluster.advance(60)
    assert try_high(cluster) == "a"


def test_after_a_restart_dying_victims_get_the_whole_timeout_once() -> None:
    cluster = full("b", nominationTimeout="60s")
    cluster.node("a", cpu="1")
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    victim(cluster, "a", priority=1, status={"conditions": [condition]}, deleted="2027-01-15T08:00:00Z")
    assert "terminating pod" in try_high(cluster, nominated="a")
    cluster.advance(60)
    assert try_high(cluster) == "b"


def test_a_preemptor_that_goes_leaves_no_deadline_behind() -> None:
    cluster = full("a", nominationTimeout="60s", pdbPolicy="strict")
    assert try_high(cluster) == "a"
    cluster.fail(cluster.write(EvictPod, "v-a"), 429, "Cannot evict pod", "TooManyRequests")
    cluster.delete("high")
    waiting = set(cluster.engine.deadlines.waiting)
    assert {key[0] for key in waiting if isinstance(key, tuple)} <= {"preemption-round"}


# --- how many, and in which mode --------------------------------------------------------------------------------------


def test_beyond_the_limit_a_preemptor_is_put_off_until_another_preemption_has_ended() -> None:
    cluster = Cluster(tandem={"limits": {"runningPreemptions": 1}})
    for name in ("a", "b"):
        cluster.node(name, cpu="1")
        victim(cluster, name, priority=1)
    cluster.pod("first", cpu="1", priority=100)
    cluster.pod("second", cpu="1", priority=90)
    cluster.schedule_all()
    assert cluster.nominated("first") and not cluster.nominated("second")
    assert "not eligible due to too many preemptions running." in cluster.attempt("second").message
    assert cluster.place("second") == "unschedulable"
    end_a_preemption(cluster)
    assert cluster.place("second") == "active"
    cluster.schedule_all()
    assert cluster.nominated("second")


def two_put_off() -> Cluster:
    """Two preemptions run, which is the limit; ``third`` and ``fourth`` are put off until one of them ends."""
    cluster = Cluster(tandem={"limits": {"runningPreemptions": 2}})
    for name in ("a", "b", "c", "d"):
        cluster.node(name, cpu="1")
        victim(cluster, name, priority=1)
    for name, priority in (("first", 100), ("second", 90), ("third", 80), ("fourth", 70)):
        cluster.pod(name, cpu="1", priority=priority)
    cluster.schedule_all()
    return cluster


def end_a_preemption(cluster: Cluster, of: str = "first") -> None:
    removed = cluster.attempt(of).victims[0].partition("/")[2]
    cluster.lingering.add(removed)
    for kind in REMOVAL:
        cluster.succeed(cluster.write(kind, removed))


def test_a_pod_that_was_put_off_and_then_placed_does_not_use_up_the_turn_of_the_next_one() -> None:
    cluster = two_put_off()
    cluster.node("new", cpu="1")
    cluster.schedule_all()
    assert cluster.node_of("third") == "new"
    assert cluster.place("fourth") == "unschedulable"
    end_a_preemption(cluster)
    assert cluster.place("fourth") == "active"


def test_a_pod_that_was_put_off_and_then_deleted_does_not_use_up_the_turn_of_the_next_one() -> None:
    cluster = two_put_off()
    cluster.delete("third")
    end_a_preemption(cluster)
    assert cluster.place("fourth") == "active"


def test_a_pod_that_was_put_off_and_then_preempts_does_not_use_up_the_turn_of_the_next_one() -> None:
    """The turn of ``third`` comes, but it is gone before it is tried; an event wakes ``fourth`` meanwhile."""
    cluster = two_put_off()
    cluster.pod("fifth", cpu="1", priority=60)
    cluster.schedule_all()
    end_a_preemption(cluster, of="first")
    cluster.delete("third")
    cluster.delete("v-d")
    cluster.pod("v-d-again", cpu="1", node="d", priority=1)
    cluster.advance(20)
    cluster.schedule_all()
    assert cluster.nominated("fourth") and not cluster.nominated("fifth")
    end_a_preemption(cluster, of="second")
    assert cluster.place("fifth") == "active"


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_in_synchronous_mode_no_pod_is_tried_while_victims_are_removed(mode: str) -> None:
    cluster = full("a", mode=mode)
    cluster.node("b", cpu="1", labels={"only": "small"})
    victim(cluster, "b", priority=1000)
    assert try_high(cluster) == "a"
    cluster.node("c", cpu="100m")
    cluster.pod("small", cpu="100m")
    attempt = cluster.schedule()
    assert (attempt is None) is (mode == "sync")
    cluster.settle()
    assert (cluster.node_of("high"), cluster.node_of("small")) == ("a", "c")


def test_in_synchronous_mode_the_preemptor_waits_until_the_removal_has_been_answered() -> None:
    cluster = full("a", mode="sync")
    assert try_high(cluster) == "a"
    cluster.succeed(cluster.write(PatchPodStatus, "v-a"))
    delete = cluster.write(DeletePod, "v-a")
    cluster.take_effect(delete)
    cluster._watch_if_there(delete)
    assert cluster.place("high") == "gated"
    cluster.unanswered.append(delete)
    cluster.fail(delete, 404, "not found")
    assert cluster.place("high") == "active"


def test_a_write_without_an_answer_is_judged_by_what_the_watch_shows() -> None:
    for is_gone in (True, False):
        cluster = full("a")
        assert try_high(cluster) == "a"
        cluster.succeed(cluster.write(PatchPodStatus, "v-a"))
        delete = cluster.write(DeletePod, "v-a")
        if is_gone:
            cluster.delete("v-a")
        cluster.fail(delete, 0, "timed out")
        assert cluster.ended_removals() == {"success" if is_gone else "error": 1}
