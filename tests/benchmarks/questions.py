"""The steps of questions at 5,000 nodes with 30,000 running and 5,000 waiting pods: none may hold up scheduling."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any

from scheduler import testing
from scheduler.controller import garbage
from scheduler.engine.questions.capacity import capacity
from scheduler.engine.questions.edits import AddNodes, Drain
from scheduler.engine.questions.question import Asked, Question
from scheduler.engine.questions.what_helps import what_helps
from scheduler.engine.questions.what_if import what_if
from scheduler.messages.stimuli import ObjectObserved, Synced
from scheduler.objects.kinds import kind_of
from scheduler.testing.documents import pod_json
from tests.engine.driver import Cluster

NODES, RUNNING, WAITING = 5_000, 30_000, 5_000
OWNER = {"ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "rs-web", "controller": True}]}


def questions() -> dict[str, float]:
    """Milliseconds of CPU of the longest step and of all steps of each question; the second asked of two, since the
    first fills caches that live as long as the process."""
    cluster = Cluster()
    engine, now = cluster.engine, cluster.now
    for number in range(NODES):
        node = testing.node(f"n{number}", cpu="8", memory="32Gi", zone=f"z{number % 3}")
        engine.handle(ObjectObserved(kind_of(node), node), now)
    for number in range(RUNNING):
        pod = testing.pod(
            f"r{number}",
            cpu="1",
            memory="1Gi",
            node=f"n{number % NODES}",
            labels={"app": f"a{number % 50}"},
            metadata=OWNER,
        )
        engine.handle(ObjectObserved(kind_of(pod), pod), now)
    for number in range(WAITING):
        pod = testing.pod(f"w{number}", cpu="9", labels={"app": "w"})
        engine.handle(ObjectObserved(kind_of(pod), pod), now)
    engine.handle(Synced(), now)
    # As in production after the first lists: a walk over all of the cluster is no step of a question.
    garbage.collect_seldom()
    garbage.keep_what_is_there()
    engine.schedule_one(now)
    manifest: dict[str, Any] = pod_json("asked", cpu="1")
    big: dict[str, Any] = pod_json("asked", cpu="8", priority=5)
    first = Question((Asked(manifest, 100),))
    asked: dict[str, Callable[[], Generator[None, None, Any]]] = {
        "100 pods": lambda: what_if(engine, first, now),
        "a pod that preempts": lambda: what_if(engine, Question((Asked(big),)), now),
        "drain of 3 nodes": lambda: what_if(
            engine, Question(edits=(Drain("n1"), Drain("n2"), Drain("n3")), with_waiting=False), now
        ),
        "3 more nodes, 5,000 waiting pods": lambda: what_if(engine, Question(edits=(AddNodes("n1", 3),)), now),
        "what helps": lambda: what_helps(engine, "default/w7", now),
        "capacity": lambda: capacity(engine, now),
    }
    found: dict[str, float] = {}
    for name, ask in asked.items():
        _steps(ask())
        steps = _steps(ask())
        found[f"{name}, longest of {len(steps)} steps"] = 1e3 * max(steps)
        found[f"{name}, all steps"] = 1e3 * sum(steps)
    return found


def _steps(question: Generator[None, None, Any]) -> list[float]:
    """Seconds of CPU of each step."""
    steps: list[float] = []
    while True:
        began = time.process_time()
        try:
            next(question)
        except StopIteration:
            return steps
        finally:
            steps.append(time.process_time() - began)
