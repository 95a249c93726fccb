"""What events cost that help no waiting pod, beside upstream's rows of event handling: with 1,000 pods that wait for
room, or 1,000 pods on one node that are updated."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import msgspec

from scheduler.engine.engine import Engine
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, Stimulus, WakingContinued
from scheduler.objects.kinds import Kind, decode
from scheduler.testing.documents import node_json, pod_json
from tests.benchmarks.clusters import engine_with, now, pending, show

NODES = 100
WAITING = 1_000
EVENTS = 1_000
BATCH = 50
IN_VAIN = 100
"""Events that wake all waiting pods."""
NOWHERE: dict[str, Any] = {
    "maxSkew": 1,
    "minDomains": 100_000,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "runs"}},
}
"""A spread constraint that a node with a matching pod does not satisfy, while there are fewer nodes."""


def handling() -> dict[str, float]:
    """Microseconds of CPU for each event. The pods that wait are of one template, or each unlike all others."""
    found: dict[str, float] = {}
    for label, cpu in {"alike": lambda _: "100", "unlike": lambda number: f"{100_000 + number}m"}.items():
        found |= {f"waiting pods {label}, {event}": cost for event, cost in _with_waiting_pods(cpu).items()}
    return found | _in_vain()


def _in_vain() -> dict[str, float]:
    """Pods that fit on none of the nodes: the first attempt of each, and events that wake all of them and help none,
    with the attempts that follow."""
    engine = engine_with(NODES, pods=2 * EVENTS)
    for number in range(EVENTS):
        engine.handle(_observed(Kind.POD, _running(number, f"node-{number % NODES:05}", 1)), now())
    for number in range(WAITING):
        document = pending(f"waits-{number:04}", cpu="1m")
        document["metadata"]["labels"] = {"app": "runs"}
        document["spec"]["topologySpreadConstraints"] = [NOWHERE]
        show(engine, Kind.POD, document)
    began = time.thread_time()
    while engine.schedule_one(now()):
        pass
    first = (time.thread_time() - began) / WAITING
    events = [
        _observed(Kind.POD, _running(number, f"node-{number % NODES:05}", 2, app="others")) for number in range(EVENTS)
    ]
    began = time.thread_time()
    for event in events[:IN_VAIN]:
        engine.handle(event, now())
        while engine.schedule_one(now()):
            pass
    woken = (time.thread_time() - began) / IN_VAIN
    return {
        "the first attempt of each of 1,000 pods of one template": first * 1e6,
        "an event that wakes them in vain, and the attempts after it": woken * 1e6,
    }


def _with_waiting_pods(cpu: Callable[[int], str]) -> dict[str, float]:
    engine = engine_with(NODES, pods=2 * EVENTS)
    for number in range(WAITING):
        show(engine, Kind.POD, pending(f"waits-{number:04}", cpu=cpu(number)))
    while engine.schedule_one(now()):
        pass
    on_one_node = [_running(number, "node-00000", 1) for number in range(EVENTS)]
    relabelled = [_running(number, "node-00000", 2, step="two") for number in range(EVENTS)]
    new_nodes = [_node(EVENTS + number, 1) for number in range(EVENTS)]
    changed_nodes = [_node(EVENTS + number, 2, step="two") for number in range(EVENTS)]
    costs = {
        "a pod appears on a node": _cost(engine, [_observed(Kind.POD, each) for each in on_one_node]),
        "a pod's labels change, 1,000 on its node": _cost(engine, [_observed(Kind.POD, each) for each in relabelled]),
        "a pod is gone": _cost(engine, [ObjectDeleted(Kind.POD, _decoded(Kind.POD, each)) for each in relabelled]),
        "a small node appears": _cost(engine, [_observed(Kind.NODE, each) for each in new_nodes]),
        "a node's labels change": _cost(engine, [_observed(Kind.NODE, each) for each in changed_nodes]),
    }
    return costs


def _running(number: int, node: str, version: int, **labels: str) -> dict[str, Any]:
    document = pod_json(f"runs-{number:04}", cpu="1m", node=node, labels={"app": "runs"} | labels)
    document["metadata"]["resourceVersion"] = f"{version}"
    return document


def _node(number: int, version: int, **labels: str) -> dict[str, Any]:
    document = node_json(
        f"small-{number:04}", cpu="1", labels={"kubernetes.io/hostname": f"small-{number:04}"} | labels
    )
    document["metadata"]["resourceVersion"] = f"{version}"
    return document


def _decoded(kind: Kind, document: dict[str, Any]) -> Any:
    return decode(kind, msgspec.json.encode(document))


def _observed(kind: Kind, document: dict[str, Any]) -> ObjectObserved:
    return ObjectObserved(kind, _decoded(kind, document))


def _cost(engine: Engine, stimuli: list[Stimulus] | list[ObjectDeleted] | list[ObjectObserved]) -> float:
    """The median over batches, in microseconds each; pods that an event wakes wait again before the next batch."""
    times = []
    for start in range(0, len(stimuli), BATCH):
        batch = stimuli[start : start + BATCH]
        began = time.thread_time()
        for stimulus in batch:
            engine.handle(stimulus, now())
            while engine.is_waking:
                engine.handle(WakingContinued(), now())
        times.append((time.thread_time() - began) / len(batch))
        while engine.schedule_one(now()):
            pass
    return statistics.median(times) * 1e6
