"""A trial's fork: gone with the trial, whatever the trial did."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from scheduler.engine.questions.edits import Drain
from scheduler.engine.questions.trial import Trial
from scheduler.engine.questions.what_helps import what_helps
from scheduler.engine.questions.what_if import Asked, Question, what_if
from scheduler.objects.steps import run_to_end
from tests.engine.driver import Cluster
from tests.engine.questions.asking import OWNER, deployment


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


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
