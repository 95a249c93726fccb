"""The longest step of a pod that searches for devices for long: between two steps everything else has its turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from scheduler.controller.garbage import keep_what_is_there
from scheduler.engine.engine import Engine
from scheduler.messages.stimuli import WakingContinued
from scheduler.objects.kinds import Kind
from scheduler.plugins.devices.candidates import load_selectors
from tests.benchmarks.clusters import engine_with, now, pending, show
from tests.device_documents import claim, device_class, exactly, gpu, resource_slice

MAX_ALTERNATIVES = 8
"""Of a request: the API server takes no more, of requests 32."""


def steps() -> dict[str, float]:
    """Milliseconds of CPU, longest step and all of them, and how many there were."""
    found: dict[str, float] = {}
    # As the scheduler does, in a thread of its own.
    load_selectors()
    for name, make in _CASES.items():
        engine = make()
        keep_what_is_there()
        spent = _attempt(engine)
        found[f"{name}: longest"] = max(spent) * 1e3
        found[f"{name}: all"] = sum(spent) * 1e3
        found[f"{name}: steps"] = len(spent)
    return found


def _attempt(engine: Engine) -> list[float]:
    spent = [_timed(lambda: engine.schedule_one(now()))]
    while engine.is_waking:
        spent.append(_timed(lambda: engine.handle(WakingContinued(), now())))
    return spent


def _timed(step: Callable[[], object]) -> float:
    started = time.process_time()
    step()
    return time.process_time() - started


def _cluster(nodes: int, requests: list[dict[str, Any]], devices: Iterable[dict[str, Any]], **claimed: Any) -> Engine:
    """Devices that look different on each node."""
    engine = engine_with(nodes)
    show(engine, Kind.DEVICE_CLASS, device_class("gpus", 'device.driver == "gpu.example.com"'))
    for number in range(nodes):
        own = [
            gpu(f"gpu-{place}", attributes={"of": f"node-{number}", "numa": place % 4})
            for place, _ in enumerate(devices)
        ]
        show(engine, Kind.RESOURCE_SLICE, resource_slice(f"node-{number:05}", *own))
    show(engine, Kind.RESOURCE_CLAIM, claim("wanted", requests=requests, **claimed))
    document = pending("hard")
    document["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimName": "wanted"}]
    show(engine, Kind.POD, document)
    return engine


def _one_too_many() -> Engine:
    requests = [{"name": f"r{place}", "exactly": exactly("gpus")} for place in range(9)]
    return _cluster(40, requests, [{}] * 8)


def _alternatives() -> Engine:
    requests = [
        {
            "name": f"r{place}",
            "firstAvailable": [
                exactly("gpus", f'device.attributes["gpu.example.com"].numa == {number % 4}', count=1 + number % 3)
                | {"name": f"a{number}"}
                for number in range(MAX_ALTERNATIVES)
            ],
        }
        for place in range(32)
    ]
    constraints = [{"matchAttribute": "gpu.example.com/numa"}]
    return _cluster(40, requests, [{}] * 128, constraints=constraints)


def _unlike_nodes() -> Engine:
    return _cluster(2_000, [{"name": "r", "exactly": exactly("gpus")}], [{}] * 8)


_CASES = {
    "a device too many, eight a node, until the time limit": _one_too_many,
    "32 requests of 8 alternatives of one NUMA node, 128 devices a node": _alternatives,
    "the first pod of a kind, 2,000 nodes unlike each other": _unlike_nodes,
}
