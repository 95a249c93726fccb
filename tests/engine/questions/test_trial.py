"""A trial's fork: gone with the trial, whatever the trial did."""

from __future__ import annotations

import weakref

from scheduler import testing
from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.questions.edits import Drain
from scheduler.engine.questions.question import Asked, Question
from scheduler.engine.questions.trial import Trial
from scheduler.engine.questions.what_helps import what_helps
from scheduler.engine.questions.what_if import what_if
from scheduler.objects.steps import run_to_end
from scheduler.testing.fragments import spread_json
from tests.engine.driver import Cluster
from tests.engine.gangs import ZONE
from tests.engine.questions.asking import OWNER, deployment


def a_cluster() -> Cluster:
    cluster = Cluster()
    cluster.nodes_like(3, cpu="2")
    cluster.pod("low", cpu="2", node="n0", metadata=OWNER)
    cluster.pod("high", cpu="2", priority=5)
    return cluster


def test_a_fork_is_gone_with_its_trial_without_the_garbage_collector(without_collector: None) -> None:
    """The collector runs seldom in production, and a fork that stays costs its parent."""
    cluster = a_cluster()
    trial = Trial(cluster.engine, cluster.now)
    for name in ("a", "b", "c"):
        run_to_end(trial.place_in_steps(cluster.info(name, cpu="1", priority=9)))
    fork = weakref.ref(trial.cache)
    del trial
    assert fork() is None


def test_questions_leave_no_fork_behind(without_collector: None) -> None:
    cluster = a_cluster()
    before = len(cluster.engine.cache.table._forks)
    questions = [
        what_if(cluster.engine, Question((Asked(deployment(9)),), (Drain("n0"),), finds_max=True), cluster.now),
        what_helps(cluster.engine, "default/high", cluster.now),
    ]
    for question in questions:
        for _ in question:
            pass
    question = what_if(cluster.engine, Question((Asked(deployment(9)),)), cluster.now)
    next(question)
    question.close()
    del question, questions
    assert sum(ref() is not None for ref in cluster.engine.cache.table._forks) <= before


def test_a_class_that_the_engine_meets_after_the_fork_is_worked_out_in_the_fork() -> None:
    """It stands on counts of pods that the fork does not keep: no change of the fork's pods would have shown there."""
    cluster = Cluster()
    for zone in "ab":
        cluster.node(f"n{zone}", cpu="4", zone=zone)
    labels = {"app": "x"}
    cluster.pod("other", node="na", cpu="1", labels=labels)
    asked = testing.pod("p", cpu="1", labels=labels, spread=[spread_json(ZONE, labels, max_skew=1)])
    trial = Trial(cluster.engine, cluster.now)
    cluster.engine.preview(asked, cluster.now)
    for number in range(2):
        trial.cache.observe_pod(PodInfo(testing.pod(f"more{number}", node="nb", cpu="1", labels=labels)))
    names = trial.cache.table.names
    assert [names[row] for row in trial.filtered(PodInfo(asked)).fits.nonzero()[0].tolist()] == ["na"]
