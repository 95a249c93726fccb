"""The steps of questions: a preemption is tried in steps, and its answer is that of the whole."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from scheduler.engine.commands import RecordAttempt
from scheduler.engine.questions.question import Asked, Question
from scheduler.engine.questions.trial import Trial
from scheduler.engine.questions.what_if import what_if
from scheduler.messages.stimuli import ObjectObserved, WakingContinued
from scheduler.objects.kinds import kind_of
from scheduler.objects.meta import ApiObject
from scheduler.objects.pod import Pod
from scheduler.preemption.pod_columns import PODS_A_STEP
from scheduler.testing.documents import pod_json
from scheduler.testing.objects import node, pod
from tests.engine.driver import Cluster

NODES = 2_000
PODS_A_NODE = 10
OWNER = {"ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "rs-web", "controller": True}]}


def full_cluster() -> Cluster:
    """Each node is full; by its victims' priority some of the nodes that are tried are the best."""
    cluster = Cluster()
    for number in range(NODES):
        show(cluster, node(f"n{number}", cpu="2"))
        for place in range(PODS_A_NODE):
            show(cluster, victim(number, place, cpu="200m", priority=number % 7))
    return cluster


def victim(number: int, place: int, **fields: Any) -> Pod:
    return pod(f"low{number}-{place}", node=f"n{number}", metadata=OWNER, **fields)


def show(cluster: Cluster, obj: ApiObject) -> None:
    """Without the check of the engine's invariants, which takes long with 20,000 pods."""
    cluster.engine.handle(ObjectObserved(kind_of(obj), obj), cluster.now)


def steps_of(question: Generator[None, None, Any]) -> tuple[int, Any]:
    count = 1
    while True:
        try:
            next(question)
        except StopIteration as done:
            return count, done.value
        count += 1


def preemptor() -> Asked:
    return Asked(pod_json("big", cpu="2", priority=10))


def test_a_preemption_is_tried_a_few_pods_at_a_time() -> None:
    cluster = full_cluster()
    wanted = NODES // 10
    steps, answer = steps_of(what_if(cluster.engine, Question((preemptor(),)), cluster.now))
    assert answer.placements[0].victims, "it preempts"
    assert steps >= wanted * PODS_A_NODE // PODS_A_STEP + 3


def test_a_preemption_in_steps_chooses_as_the_scheduler_does() -> None:
    cluster = full_cluster()
    info = cluster.info("big", cpu="2", priority=10)
    _, tried = steps_of(Trial(cluster.engine, cluster.now, seed=3).place_in_steps(info))
    show(cluster, info.pod)
    commands = cluster.engine.schedule_one(cluster.now) or []
    assert not commands, "it pauses, too"
    while cluster.engine.is_waking:
        commands += cluster.engine.handle(WakingContinued(), cluster.now)
    (attempt,) = [command.attempt for command in commands if isinstance(command, RecordAttempt)]
    assert len(tried.victims) == len(attempt.victims) == PODS_A_NODE
    priorities = {f"default/low{number}-{place}": number % 7 for number in range(NODES) for place in range(PODS_A_NODE)}
    assert {priorities[info.key] for info in tried.victims} == {priorities[key] for key in attempt.victims} == {0}


@pytest.mark.parametrize("changed", ["node", "pod"])
def test_a_change_of_the_cluster_between_two_steps_does_not_reach_the_question(changed: str) -> None:
    cluster = full_cluster()
    info = cluster.info("big", cpu="2", priority=10)
    _, undisturbed = steps_of(Trial(cluster.engine, cluster.now).place_in_steps(info))
    placing = Trial(cluster.engine, cluster.now).place_in_steps(info)
    next(placing)
    for number in range(0, NODES, 2):
        if changed == "node":
            show(cluster, node(f"n{number}", cpu="9"))
        else:
            show(cluster, victim(number, 0, cpu="1", priority=9))
    show(cluster, pod("rival", cpu="2", priority=20))
    show(cluster, pod("like-it", cpu="2", priority=10))
    for _ in range(3):
        cluster.engine.schedule_one(cluster.now)
    _, tried = steps_of(placing)
    assert (tried.node, tried.victims) == (undisturbed.node, undisturbed.victims)
