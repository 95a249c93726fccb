"""Questions about a cluster, run to their answer; and nothing of the cluster changes."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from scheduler.engine.questions.answers import Answer
from scheduler.engine.questions.edits import (
    Edit,
)
from scheduler.engine.questions.question import Asked, Question
from scheduler.engine.questions.trial import Basis
from scheduler.engine.questions.what_if import what_if
from tests.engine.driver import Cluster

Found = TypeVar("Found")

OWNER = {"ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "rs-web", "controller": True}]}
DAEMON = {"ownerReferences": [{"kind": "DaemonSet", "name": "agent", "uid": "ds", "controller": True}]}


def deployment(replicas: int, cpu: str = "1", name: str = "web", **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": "0"}}
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}], **spec},
    }
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


def ask(cluster: Cluster, *edits: Edit, basis: Basis | None = None, **fields: Any) -> Answer:
    return answered(cluster, what_if(cluster.engine, Question(edits=edits, **fields), cluster.now, basis))


def answered(cluster: Cluster, steps: Generator[None, None, Found]) -> Found:
    """The answer of a question, after which the cluster must be what it was."""
    with unchanged(cluster):
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: Found = end.value
                return found


@contextmanager
def unchanged(cluster: Cluster) -> Iterator[None]:
    def state() -> object:
        engine = cluster.engine
        view = engine.cache.view
        placed = {uid: info.node_name for uid, info in engine.cache.pods.items()}
        nominated = {uid: engine.nominator.nominated_node(uid) for uid in engine.known_pods.uids}
        waiting = [(record.key, record.attempts) for record in engine.queue.active_pods() + engine.queue.pool_pods()]
        return placed, nominated, waiting, view.versions, engine.cache.journal.version, engine.cache.node_names()

    before = state()
    yield
    assert state() == before
    cluster.engine.check()


def nodes_of(answer: Answer) -> dict[str, str]:
    return {one.pod.partition("/")[2]: one.node for one in answer.placements}


def asked(*manifests: dict[str, Any], replicas: int | None = None) -> tuple[Asked, ...]:
    return tuple(Asked(one, replicas) for one in manifests)
