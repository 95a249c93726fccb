"""What one step costs while a large gang is tried: the other pods wait for no longer than the longest step."""

from __future__ import annotations

import time
from typing import Any

from scheduler.compose import build_engine
from scheduler.config.feature_gates import parse_feature_gates
from scheduler.config.loading import load
from scheduler.controller.garbage import collect_seldom, keep_what_is_there
from scheduler.engine.engine import Engine
from scheduler.messages.commands import BindPod
from scheduler.messages.stimuli import Synced, WakingContinued
from scheduler.objects.kinds import Kind
from scheduler.testing.documents import node_json
from tests.benchmarks.clusters import now, pending, show
from tests.engine.gangs import ZONE

NODES = 1_000
MEMBERS = 500
PLACEMENTS = 100
ROUNDS = 5
GATES = "GenericWorkload=true,GangScheduling=true"


def gangs() -> dict[str, float]:
    """Milliseconds of CPU: the longest step, of the best of some rounds, of a gang that starts and of one that does
    not fit."""
    found: dict[str, float] = {}
    for label, cpu, bound in (("starts", "32", MEMBERS), ("does not fit", "8", 0)):
        rounds = [_times(_engine(cpu), _group(MEMBERS), "10", bound) for _ in range(ROUNDS)]
        found[f"the gang {label}: longest step"] = min(max(steps) for steps in rounds)
        found[f"the gang {label}: all steps"] = min(sum(steps) for steps in rounds)
    return found


def placements() -> dict[str, float]:
    """The same of one round, for a gang that is tried on 100 sets of ten nodes: on all of which it fits, or on none but
    for its last ten members."""
    found: dict[str, float] = {}
    group = _group(MEMBERS, schedulingConstraints={"topology": [{"key": ZONE}]})
    for label, cpu, bound in (("fits everywhere", "64", MEMBERS), ("fits nowhere", "49", 0)):
        engine = _engine(cpu, f"{GATES},TopologyAwareWorkloadScheduling=true")
        steps = _times(engine, group, "1", bound)
        ordered = sorted(steps)
        found[f"the gang {label}: steps"] = len(steps)
        found[f"the gang {label}: longest step, ms"] = ordered[-1]
        found[f"the gang {label}: 999 of 1,000 steps are shorter than, ms"] = ordered[len(ordered) * 999 // 1000]
        found[f"the gang {label}: all steps, ms"] = sum(steps)
    return found


def _times(engine: Engine, group: dict[str, Any], cpu: str, bound: int) -> list[float]:
    for number in range(MEMBERS):
        show(engine, Kind.POD, _member(f"m-{number}", cpu=cpu))
    show(engine, Kind.POD_GROUP, group)
    while engine.is_waking:
        engine.handle(WakingContinued(), now())
    _as_in_production()
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


def _as_in_production() -> None:
    """The settings of the garbage collector."""
    collect_seldom()
    keep_what_is_there()


def _engine(cpu: str, gates: str = GATES) -> Engine:
    loaded = load(gates=parse_feature_gates(gates))
    engine = build_engine(loaded, started=now(), seed=1)
    for number in range(NODES):
        labels = {ZONE: f"rack-{number % PLACEMENTS}"}
        name = f"node-{number:05}"
        show(engine, Kind.NODE, node_json(name, cpu=cpu, memory="128Gi", pods=110, labels=labels))
    engine.handle(Synced(), now())
    return engine


def _member(name: str, **fields: Any) -> dict[str, Any]:
    document = pending(name, **fields)
    document["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    return document


def _group(min_count: int, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default", "uid": "group-g", "resourceVersion": "1"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, **spec},
    }
