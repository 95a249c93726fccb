"""One gang of 100 that preempts on 1,000 full nodes of four pods, beside the naive algorithm's cycles."""

from __future__ import annotations

import time
from typing import Any

from scheduler.engine.attempt import Attempt
from scheduler.engine.engine import Engine
from scheduler.engine.group_cycle import GroupUnit, Member, Trial, forked, search
from scheduler.engine.group_preemption import search_with_preemption
from scheduler.framework.post_filter import Remove
from scheduler.objects.kinds import Kind
from tests.benchmarks.clusters import PROFILE, engine_with, now, pending, show
from tests.engine.naive_group_preemption import outcome_of

NODES = 1_000
PODS_A_NODE = 4
MEMBERS = 100
GATES = "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true"
NAIVE_CYCLES = 20
"""Of the naive algorithm's NODES x PODS_A_NODE + 1 cycles of the group, measured; their mean stands for all."""


def preempting_gang() -> dict[str, float]:
    """Seconds of the whole search; the naive algorithm's, from the mean of some of its cycles; and their ratio, for a
    gang whose members are alike, and for one with a launcher that is larger."""
    found: dict[str, float] = {}
    for label, launcher in {"alike": "8", "a launcher": "16"}.items():
        engine = _full(launcher)
        unit = _unit(engine)
        context = engine._context
        began = time.perf_counter()
        trial = outcome_of(search_with_preemption(forked(context), unit, now()))
        seconds = time.perf_counter() - began
        assert isinstance(trial.room, Remove)
        bare = forked(context)
        for info in list(bare.cache.pods.values()):
            bare.cache.remove_pod(info.uid)
        began = time.perf_counter()
        for _ in range(NAIVE_CYCLES):
            outcome_of(search(forked(bare), unit, now()))
        naive = (time.perf_counter() - began) / NAIVE_CYCLES * (NODES * PODS_A_NODE + 1)
        found |= {
            f"{label}, s": seconds,
            f"{label}, naive, s": naive,
            f"{label}, ratio": naive / seconds,
            f"{label}, victims": len(trial.room.victims),
        }
    return found


def whole_nodes() -> dict[str, float]:
    """Milliseconds of CPU of the steps, each of which other pods wait for, where each member needs all of a node."""
    engine = _full("32", cpu="32")
    searching = search_with_preemption(forked(engine._context), _unit(engine), now())
    steps: list[float] = []
    trial: Trial | None = None
    while trial is None:
        began = time.process_time_ns()
        try:
            if steps:
                searching.send(())
            else:
                next(searching)
        except StopIteration as done:
            trial = done.value
        steps.append((time.process_time_ns() - began) / 1e6)
    assert isinstance(trial.room, Remove)
    return {
        "victims": len(trial.room.victims),
        "steps": len(steps),
        "longest step, ms": max(steps),
        "99 of 100 steps are shorter than, ms": sorted(steps)[len(steps) * 99 // 100],
        "all steps, ms": sum(steps),
    }


def _full(launcher: str, cpu: str = "8") -> Engine:
    engine = engine_with(NODES, GATES)
    for number in range(NODES * PODS_A_NODE):
        there = pending(f"there-{number}", cpu="8", memory="1Gi")
        there["spec"] |= {"nodeName": f"node-{number // PODS_A_NODE:05}", "priority": number % 3}
        there["status"] |= {"phase": "Running", "startTime": f"2026-01-01T{number % 24:02}:00:{number % 60:02}Z"}
        show(engine, Kind.POD, there)
    gang: dict[str, Any] = {"metadata": {"name": "g", "namespace": "default", "uid": "g"}}
    gang["spec"] = {"schedulingPolicy": {"gang": {"minCount": MEMBERS}}, "priority": 100}
    show(engine, Kind.POD_GROUP, gang)
    for number in range(MEMBERS):
        member = pending(f"member-{number}", cpu=cpu if number else launcher, memory="1Gi")
        member["spec"] |= {"schedulingGroup": {"podGroupName": "g"}, "priority": 100}
        show(engine, Kind.POD, member)
    return engine


def _unit(engine: Engine) -> GroupUnit:
    members = []
    for number in range(MEMBERS):
        queued = engine.queue.find(f"default/member-{number}")
        assert queued is not None
        members.append(Member(queued, Attempt(queued.key, queued.uid, PROFILE, 1, 0)))
    return GroupUnit("default/g", engine.profiles[PROFILE], members)
