"""What one step costs while a large gang is tried: the other pods wait for no longer than the longest step."""

from __future__ import annotations

import time
from typing import Any

from scheduler.compose import build_engine
from scheduler.config.feature_gates import parse_feature_gates
from scheduler.config.loading import load
from scheduler.engine.engine import Engine
from scheduler.messages.commands import BindPod
from scheduler.messages.stimuli import Synced
from scheduler.objects.kinds import Kind
from scheduler.testing.documents import node_json
from tests.benchmarks.clusters import now, pending, show

NODES = 1_000
MEMBERS = 500
ROUNDS = 5


def gangs() -> dict[str, float]:
    """Milliseconds of CPU: the longest step, of the best of some rounds, of a gang that starts and of one that does
    not fit."""
    starts = [_times(MEMBERS, MEMBERS) for _ in range(ROUNDS)]
    waits = [_times(MEMBERS, 0) for _ in range(ROUNDS)]
    found: dict[str, float] = {}
    for label, rounds in (("starts", starts), ("does not fit", waits)):
        found[f"the gang {label}: longest step"] = min(max(steps) for steps in rounds)
        found[f"the gang {label}: all steps"] = min(sum(steps) for steps in rounds)
    return found


def _times(members: int, bound: int) -> list[float]:
    engine = _engine(cpu="32" if bound else "8")
    for number in range(members):
        show(engine, Kind.POD, _member(f"m-{number}", cpu="10"))
    show(engine, Kind.POD_GROUP, _group(members))
    times: list[float] = []
    binds = 0
    while True:
        moment = now()
        started = time.process_time_ns()
        commands = engine.schedule_one(moment)
        times.append((time.process_time_ns() - started) / 1e6)
        if commands is None:
            break
        binds += sum(isinstance(command, BindPod) for command in commands)
    assert binds == bound, binds
    return times


def _engine(cpu: str) -> Engine:
    loaded = load(gates=parse_feature_gates("GenericWorkload=true,GangScheduling=true"))
    engine = build_engine(loaded, started=now(), seed=1)
    for number in range(NODES):
        show(engine, Kind.NODE, node_json(f"node-{number:05}", cpu=cpu, memory="128Gi", pods=110))
    engine.handle(Synced(), now())
    return engine


def _member(name: str, **fields: Any) -> dict[str, Any]:
    document = pending(name, **fields)
    document["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    return document


def _group(min_count: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default", "uid": "group-g", "resourceVersion": "1"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
    }
