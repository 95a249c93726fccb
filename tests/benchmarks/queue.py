"""Ten thousand pending pods of a hundred classes: the cost of one event, and the pods that it wakes."""

from __future__ import annotations

import statistics
import time
from typing import Any

import msgspec

from scheduler.controller import garbage
from scheduler.engine.engine import Engine
from scheduler.messages.stimuli import ObjectObserved, Stimulus, WakingContinued
from scheduler.objects.kinds import Kind, decode
from scheduler.testing.documents import node_json, pod_json
from tests.benchmarks.clusters import engine_with, now, pending, show

NODES = 100
CLASSES = 100
PODS = 10_000
EVENTS = 5_000
BATCH = 100
ZONE = "topology.kubernetes.io/zone"


def waiting() -> dict[str, float]:
    """Microseconds of CPU for each kind of event, all of the engine's work included; and how many pods a node woke."""
    engine = _engine_with_waiting_pods()
    measured = {f"{label}, µs each": _each(engine, stimuli) for label, stimuli in _events_of_others().items()}
    woken_before = engine.queue.pending_counts()["unschedulable"]
    arrival = _observed(Kind.NODE, node_json("for-one-class", cpu="32", labels={"class": "4"}))
    steps = [_seconds_of(engine, arrival)]
    while engine.is_waking:
        steps.append(_seconds_of(engine, WakingContinued()))
    woken = woken_before - engine.queue.pending_counts()["unschedulable"]
    measured |= {"a node for one class, pods woken": float(woken), "a node for one class, µs": sum(steps) * 1e6}
    return measured | _wake_of_all()


def _wake_of_all() -> dict[str, float]:
    """All pods wait for CPU, none is like another, and a node for them appears."""
    engine = engine_with(NODES)
    for number in range(PODS):
        show(engine, Kind.POD, pending(f"large-{number:05}", cpu=f"{40_000 + number}m"))
    while engine.schedule_one(now()):
        pass
    garbage.keep_what_is_there()
    steps = [_seconds_of(engine, _observed(Kind.NODE, node_json("large", cpu="900")))]
    while engine.is_waking:
        steps.append(_seconds_of(engine, WakingContinued()))
    return {
        "a node for pods unlike each other, ms": sum(steps) * 1e3,
        "a node for pods unlike each other, longest step, ms": max(steps) * 1e3,
    }


def _seconds_of(engine: Engine, stimulus: Stimulus) -> float:
    started = time.process_time()
    engine.handle(stimulus, now())
    return time.process_time() - started


def _engine_with_waiting_pods() -> Engine:
    """A quarter of the classes each is refused by node affinity, inter-pod affinity, spreading and its requests."""
    engine = engine_with(NODES)
    for number in range(PODS):
        show(engine, Kind.POD, _hopeless(number, number % CLASSES))
    while engine.schedule_one(now()):
        pass
    counts = engine.queue.pending_counts()
    if counts["unschedulable"] != PODS:
        raise AssertionError(f"not all pods wait: {counts}")
    return engine


def _hopeless(number: int, group: int) -> dict[str, Any]:
    document = pending(f"hopeless-{number:05}", labels={"app": f"waits-{group}"})
    spec = document["spec"]
    match group % 4:
        case 0:
            spec["nodeSelector"] = {"class": str(group)}
        case 1:
            term = {"labelSelector": {"matchLabels": {"app": f"never-{group}"}}, "topologyKey": ZONE}
            spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        case 2:
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": f"no-node-has-{group}",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": f"waits-{group}"}},
                }
            ]
        case _:
            spec["containers"][0]["resources"]["requests"]["cpu"] = str(100 + group)
    return document


def _events_of_others() -> dict[str, list[Stimulus]]:
    """Events of another scheduler's pods, except their end, which may rightly help pods that wait for room."""
    waiting_pods = [pod_json(f"other-{number}", cpu="10m", labels={"app": "other"}) for number in range(EVENTS)]
    for number, document in enumerate(waiting_pods):
        document["metadata"] |= {"uid": f"uid-other-{number}", "resourceVersion": f"{number}"}
        document["spec"]["schedulerName"] = "default-scheduler"
    running = [msgspec.json.decode(msgspec.json.encode(document)) for document in waiting_pods]
    for number, document in enumerate(running):
        document["metadata"]["resourceVersion"] = f"{EVENTS + number}"
        document["spec"]["nodeName"] = f"node-{number % NODES:05}"
    ready = [msgspec.json.decode(msgspec.json.encode(document)) for document in running]
    for number, document in enumerate(ready):
        document["metadata"]["resourceVersion"] = f"{2 * EVENTS + number}"
        document["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return {
        "a pod of others appears": [_observed(Kind.POD, document) for document in waiting_pods],
        "a pod of others is bound": [_observed(Kind.POD, document) for document in running],
        "a pod of others changes its status": [_observed(Kind.POD, document) for document in ready],
    }


def _observed(kind: Kind, document: dict[str, Any]) -> ObjectObserved:
    return ObjectObserved(kind, decode(kind, msgspec.json.encode(document)))


def _each(engine: Engine, stimuli: list[Stimulus]) -> float:
    """The median over batches: disturbances of the machine affect only a few of them."""
    times = []
    for start in range(0, len(stimuli), BATCH):
        batch = stimuli[start : start + BATCH]
        moment = now()
        started = time.process_time()
        for stimulus in batch:
            engine.handle(stimulus, moment)
        times.append((time.process_time() - started) / len(batch))
    return statistics.median(times) * 1e6
