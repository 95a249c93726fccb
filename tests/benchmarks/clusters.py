"""Clusters for the benchmarks."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from scheduler.compose import build_engine
from scheduler.config.feature_gates import parse_feature_gates
from scheduler.config.loading import load
from scheduler.engine.engine import Engine
from scheduler.messages.now import Now
from scheduler.messages.stimuli import ObjectObserved, Synced
from scheduler.objects.kinds import Kind, decode
from scheduler.testing.documents import node_json, pod_json

PROFILE = "tandem-scheduler"
ZONES = 10


def now() -> Now:
    return Now(time.monotonic(), time.time_ns())


def engine_with(nodes: int, gates: str = "", **node_fields: Any) -> Engine:
    """An engine with that many nodes of 32 CPUs in ten zones, ready to schedule. ``gates``: the flag of the feature
    gates."""
    engine = build_engine(load(gates=parse_feature_gates(gates)), started=now(), seed=1)
    for number in range(nodes):
        name = f"node-{number:05}"
        zone = f"zone-{number % ZONES}"
        labels = {
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": zone,
            "topology.ebs.csi.aws.com/zone": zone,
        }
        fields: dict[str, Any] = {"cpu": "32", "memory": "128Gi", "pods": 110, "labels": labels}
        show(engine, Kind.NODE, node_json(name, **(fields | node_fields)))
    engine.handle(Synced(), now())
    return engine


def show(engine: Engine, kind: Kind, document: dict[str, Any]) -> None:
    engine.handle(ObjectObserved(kind, decode(kind, msgspec.json.encode(document))), now())


def pending(name: str, **fields: Any) -> dict[str, Any]:
    """A plain pod of ours: 100m, 200Mi unless stated otherwise."""
    fields = {"cpu": "100m", "memory": "200Mi"} | fields
    document = pod_json(name, **fields)
    document["spec"]["schedulerName"] = PROFILE
    document["metadata"]["uid"] = f"uid-{name}"
    return document
