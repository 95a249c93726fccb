"""One cycle at 5,000 nodes, from pop to command: a class never seen before, and one seen before with one dirty row."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from scheduler.engine.engine import Engine
from scheduler.objects.kinds import Kind
from tests.benchmarks.clusters import engine_with, now, pending, show

NODES = 5_000
GROUPS = 500
PODS_THERE = 10_000


def plain() -> dict[str, float]:
    """Microseconds: pods of one class, and the same with the class cache emptied before each."""
    engine = engine_with(NODES)
    for number in range(1_500):
        show(engine, Kind.POD, pending(f"plain-{number}"))
    known = _median(engine, 1_000)
    fresh = _median(engine, 300, before=engine.classes.clear)
    return {"class known, one dirty row": known, "class unknown": fresh}


def spread_and_affinity() -> dict[str, float]:
    """Microseconds, uncached: zone spread and host anti-affinity in play, 10,000 pods in 500 groups there already."""
    engine = engine_with(NODES)
    for number in range(PODS_THERE):
        document = grouped(f"there-{number}", number % GROUPS)
        document["spec"]["nodeName"] = f"node-{number % NODES:05}"
        show(engine, Kind.POD, document)
    for number in range(600):
        show(engine, Kind.POD, grouped(f"new-{number}", number % GROUPS))
    return {"class unknown": _median(engine, 500, before=engine.classes.clear)}


def grouped(name: str, group: int) -> dict[str, Any]:
    """A pod that spreads over zones and hosts with those of its group, and keeps off their hosts."""
    document = pending(name, labels={"app": f"app-{group}"})
    selector = {"matchLabels": {"app": f"app-{group}"}}
    document["spec"] |= {
        "topologySpreadConstraints": [
            {
                "maxSkew": 5,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
            },
            {
                "maxSkew": 3,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": selector,
            },
        ],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
                ]
            }
        },
    }
    return document


def _median(engine: Engine, count: int, before: Callable[[], None] | None = None) -> float:
    times = []
    for _ in range(count):
        if before is not None:
            before()
        moment = now()
        started = time.perf_counter()
        commands = engine.schedule_one(moment)
        times.append(time.perf_counter() - started)
        if not commands:
            raise AssertionError("the queue ran dry: the measurement would be of nothing")
    return statistics.median(times[1:]) * 1e6
