"""The whole way of a pod that asks for devices through the engine: 5,000 nodes with eight GPUs each.

What is measured ends at the engine's door: cycle, reservation, the answers of all writes and what the watch shows of
them. The median is that of a pod of a shape that is known, the mean that of all pods, garbage collection included.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from e2e.bench import devices as objects
from scheduler.engine.engine import Engine
from scheduler.messages.claim_commands import CreateClaim, ReserveClaim
from scheduler.messages.commands import BindPod
from scheduler.messages.stimuli import ObjectObserved, WakingContinued, WriteFinished
from scheduler.objects.kinds import Kind, decode
from scheduler.objects.resource_claims import EXTENDED_RESOURCE_CLAIM_ANNOTATION
from tests.benchmarks.clusters import engine_with, now, pending, show

NODES = 5_000
PODS = 2_000

Document = dict[str, Any]
KINDS = {kind.entry.name: kind for kind in (Kind.DEVICE_CLASS, Kind.RESOURCE_SLICE)}


def claims() -> dict[str, float]:
    """Microseconds a pod: one GPU, two of one NUMA node, a part of a GPU, an extended resource."""
    return {
        "a GPU a pod": _from_template(objects.with_gpus, objects.one_large),
        "two of one NUMA node": _from_template(objects.with_gpus, objects.two_together),
        "parts with shared counters": _from_template(objects.with_divided_gpus, objects.one_of_each_part),
        "extended resources of 50 classes": _extended(),
    }


def _cluster(pools: Any) -> Engine:
    engine = engine_with(NODES)
    for document in pools([f"node-{number:05}" for number in range(NODES)]):
        document["metadata"]["uid"] = document["metadata"]["name"]
        show(engine, KINDS[document["kind"]], document)
    return engine


def _from_template(pools: Any, templates: Any) -> float:
    engine = _cluster(pools)
    for number, template in zip(range(PODS), itertools.cycle(list(templates("default"))), strict=False):
        name = f"pod-{number}"
        document = pending(name)
        show(engine, Kind.RESOURCE_CLAIM, _claim(document, template["spec"]["spec"]))
        from_template = {"name": "gpus", "resourceClaimTemplateName": template["metadata"]["name"]}
        document["spec"]["resourceClaims"] = [from_template]
        document["status"] = {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": name}]}
        show(engine, Kind.POD, document)
    return _run(engine)


def _extended() -> float:
    engine = _cluster(objects.with_gpus_of_many_kinds)
    for number in range(PODS):
        document = pending(f"pod-{number}")
        document["spec"]["containers"][0]["resources"]["requests"][objects.resource(number % objects.KINDS)] = "1"
        show(engine, Kind.POD, document)
    return _run(engine)


def _claim(pod: Document, spec: Document) -> Document:
    # As the API server stores it, with defaults.
    for request in spec["devices"]["requests"]:
        request["exactly"]["allocationMode"] = "ExactCount"
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"claim-{name}",
        "resourceVersion": "1",
        "ownerReferences": [owner],
    }
    return {"kind": "ResourceClaim", "apiVersion": objects.API, "metadata": metadata, "spec": spec}


def _run(engine: Engine) -> float:
    """Mean microseconds a pod."""
    times: list[float] = []
    versions = itertools.count(2)
    for _ in range(PODS):
        spent = time.process_time()
        commands = list(engine.schedule_one(now()) or ())
        while engine.is_waking:
            commands += engine.handle(WakingContinued(), now())
        spent = time.process_time() - spent
        is_bound = False
        while commands:
            command = commands.pop()
            is_bound = is_bound or isinstance(command, BindPod)
            for stimulus in _answers(command, versions):
                started = time.process_time()
                commands += engine.handle(stimulus, now())
                spent += time.process_time() - started
        if not is_bound:
            raise AssertionError("a pod was not bound: the measurement would be of nothing")
        times.append(spent)
    return statistics.mean(times) * 1e6


def _answers(command: Any, versions: Iterator[int]) -> Iterator[Any]:
    match command:
        case ReserveClaim():
            consumer = msgspec.to_builtins(command.consumer)
            known = {"status": {}} | msgspec.to_builtins(command.known)
            if command.allocation is not None:
                known["status"]["allocation"] = msgspec.to_builtins(command.allocation)
        case CreateClaim():
            consumer = {"resource": "pods", "name": command.pod.name, "uid": command.pod.uid}
            owner = {"apiVersion": "v1", "kind": "Pod", "name": command.pod.name, "uid": command.pod.uid}
            known = {
                "metadata": {
                    "name": f"{command.pod.name}-extended",
                    "namespace": command.pod.namespace,
                    "uid": f"{command.pod.uid}-extended",
                    "annotations": {EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"},
                    "ownerReferences": [owner | {"controller": True}],
                },
                "spec": {"devices": {"requests": msgspec.to_builtins(command.requests)}},
                "status": {"allocation": msgspec.to_builtins(command.allocation)},
            }
        case BindPod():
            yield WriteFinished(command.ticket, True, 201)
            return
        case _:
            return
    known["status"]["reservedFor"] = [consumer]
    known["metadata"]["resourceVersion"] = str(next(versions))
    claim = decode(Kind.RESOURCE_CLAIM, msgspec.json.encode(known))
    yield WriteFinished(command.ticket, True, 200, written=claim)
    yield ObjectObserved(Kind.RESOURCE_CLAIM, claim)
