"""The cost of remembered attempts: 10,000 pods that fit nowhere on 5,000 nodes, each of a different class."""

from __future__ import annotations

import time

from scheduler.objects.kinds import Kind
from tests.benchmarks.clusters import engine_with, now, pending, show

NODES = 5_000
PODS = 10_000
_MIB = 2**20


def unschedulable_pods() -> dict[str, float]:
    """MiB of resident memory that 10,000 failed attempts add, and microseconds of one."""
    engine = engine_with(NODES)
    for number in range(NODES):
        there = pending(f"there-{number}", cpu="16")
        there["spec"] |= {"nodeName": f"node-{number:05}", "priority": 1000}
        show(engine, Kind.POD, there)
    for number in range(PODS):
        show(engine, Kind.POD, pending(f"hopeless-{number}", cpu=f"{17000 + number}m"))
    before = _resident()
    started = time.perf_counter()
    for _ in range(PODS):
        if not engine.schedule_one(now()):
            raise AssertionError("the queue ran dry: the measurement would be of nothing")
    spent = time.perf_counter() - started
    return {"MiB": (_resident() - before) / _MIB, "µs an attempt": spent / PODS * 1e6}


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
