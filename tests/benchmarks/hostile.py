"""What one object at the limit of its size (1.5 MB) costs: the longest uninterrupted step that it causes, what the pods
after it pay, and the bytes that stay."""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from scheduler.controller import garbage
from scheduler.engine.engine import Engine
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, WakingContinued
from scheduler.objects.kinds import Kind, decode
from scheduler.testing.documents import node_json
from tests.benchmarks.clusters import engine_with, now, pending, show

NODES = 5_000
HOST = "kubernetes.io/hostname"


def hostile() -> dict[str, float]:
    """``step``: milliseconds of CPU of the longest single call of the engine (a stimulus, a pod's attempt) from the
    object's arrival to its deletion. ``later``: microseconds of CPU of the attempt at a plain pod after it, median, and
    ``before``. ``MiB``: what stays allocated once the pod is gone."""
    garbage.collect_seldom()
    found: dict[str, float] = {}
    for name, (before, documents) in _CASES.items():
        engine = engine_with(NODES)
        gc.collect()  # The engine of the case before, which is none of this one's steps.
        for document in before():
            show(engine, Kind.NODE, document)
        for number in range(150):
            show(engine, Kind.POD, pending(f"plain-{number}"))
        _attempts(engine, 20)
        found[f"{name}: before"] = statistics.median(_attempts(engine, 40)) * 1e6
        steps = []
        for kind, document in documents():
            obj = decode(kind, msgspec.json.encode(document))
            steps.append(_timed(partial(engine.handle, ObjectObserved(kind, obj), now())))
        later = _attempts(engine, 60)
        steps.append(_timed(partial(engine.handle, ObjectDeleted(kind, obj), now())))
        found[f"{name}: step"] = max([*steps, *later]) * 1e3
        found[f"{name}: later"] = statistics.median(later) * 1e6
    found |= {f"{name}: MiB": _kept(make) for name, make in _KEPT.items()}
    return found


def _attempts(engine: Engine, count: int) -> list[float]:
    """Of each the longest step."""
    return [_attempt(engine) for _ in range(count)]


def _attempt(engine: Engine) -> float:
    steps = [_timed(lambda: engine.schedule_one(now()))]
    while engine.is_waking:
        steps.append(_timed(lambda: engine.handle(WakingContinued(), now())))
    return max(steps)


def _timed(step: Callable[[], object]) -> float:
    started = time.process_time()
    step()
    return time.process_time() - started


# --- objects ----------------------------------------------------------------------------------------------------------


def _term(key: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def _with_terms(terms: list[dict[str, Any]]) -> list[tuple[Kind, dict[str, Any]]]:
    document = pending("hostile")
    required = {"nodeSelectorTerms": terms}
    document["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    document["spec"]["priority"] = 100
    return [(Kind.POD, document)]


def _tolerating() -> list[tuple[Kind, dict[str, Any]]]:
    document = pending("hostile")
    document["spec"]["tolerations"] = [
        {"key": f"taint-{number}", "operator": "Exists", "effect": "NoSchedule"} for number in range(15_000)
    ]
    document["spec"]["priority"] = 100
    return [(Kind.POD, document)]


def _named_nodes() -> list[tuple[Kind, dict[str, Any]]]:
    name = "metadata.name"
    fields = [{"key": name, "operator": "In", "values": [f"node-{number:05}"]} for number in range(10_000)]
    return _with_terms([{"matchFields": [field]} for field in fields])


def _preferring() -> list[tuple[Kind, dict[str, Any]]]:
    document = pending("hostile")
    terms = [{"weight": 1, "preference": _term(HOST, f"node-{number % NODES:05}")} for number in range(10_000)]
    document["spec"]["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    document["spec"]["priority"] = 100
    return [(Kind.POD, document)]


def _apart_from(count: int, namespaces: int, *, is_preferred: bool = False) -> list[tuple[Kind, dict[str, Any]]]:
    document = pending("hostile")
    named = {"namespaces": [f"namespace-{number}" for number in range(namespaces)]} if namespaces else {}
    terms: list[dict[str, Any]] = [
        {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": f"app-{number}"}}, **named}
        for number in range(count)
    ]
    if is_preferred:
        weighted = [{"weight": 1, "podAffinityTerm": term} for term in terms]
        document["spec"]["affinity"] = {
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
        }
    else:
        document["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    document["spec"]["priority"] = 100
    return [(Kind.POD, document)]


def _labelled(count: int) -> list[tuple[Kind, dict[str, Any]]]:
    document = pending("hostile", labels=_keys(count))
    document["spec"]["priority"] = 100
    return [(Kind.POD, document)]


def _with_claims(claims: int, volumes: int) -> list[tuple[Kind, dict[str, Any]]]:
    """A pod with claims of a class whose static volumes are all in one zone."""
    storage_class = {
        "metadata": {"name": "static"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    fields = {"accessModes": ["ReadWriteOnce"], "storageClassName": "static"}
    zone = {"required": {"nodeSelectorTerms": [_term("topology.kubernetes.io/zone", "zone-1")]}}
    documents: list[tuple[Kind, dict[str, Any]]] = [(Kind.STORAGE_CLASS, storage_class)]
    for number in range(volumes):
        spec = {**fields, "capacity": {"storage": "1Gi"}, "nodeAffinity": zone}
        volume = {"metadata": {"name": f"volume-{number}"}, "spec": spec, "status": {"phase": "Available"}}
        documents.append((Kind.PERSISTENT_VOLUME, volume))
    for number in range(claims):
        metadata = {"name": f"claim-{number}", "namespace": "default", "uid": f"claim-{number}"}
        spec = {**fields, "resources": {"requests": {"storage": "1Gi"}}}
        documents.append((Kind.PERSISTENT_VOLUME_CLAIM, {"metadata": metadata, "spec": spec}))
    document = pending("hostile")
    document["spec"]["volumes"] = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": f"claim-{number}"}} for number in range(claims)
    ]
    document["spec"]["priority"] = 100
    return [*documents, (Kind.POD, document)]


def _asking_for(count: int, amount: str, node: str = "") -> list[tuple[Kind, dict[str, Any]]]:
    document = pending("hostile", requests={f"example.com/r-{number}": amount for number in range(count)})
    document["spec"]["priority"] = 100
    if node:
        document["spec"] |= {"nodeName": node, "schedulerName": "other"}
    return [(Kind.POD, document)]


def _spreading(count: int) -> list[tuple[Kind, dict[str, Any]]]:
    document = pending("hostile", labels={"app": "x"})
    document["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": f"key-{number}",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": f"app-{number}"}},
        }
        for number in range(count)
    ]
    document["spec"]["priority"] = 100
    return [(Kind.POD, document)]


def _claiming(claim: dict[str, Any], *others: tuple[Kind, dict[str, Any]]) -> list[tuple[Kind, dict[str, Any]]]:
    """A pod with a claim ``data``, whose spec this is, and what is there besides."""
    fields = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    document = pending("hostile")
    document["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    document["spec"]["priority"] = 100
    metadata: dict[str, Any] = {"name": "data", "namespace": "default", "uid": "claim"}
    status = {"phase": "Bound" if "volumeName" in claim else "Pending"}
    if "volumeName" in claim:
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    claimed = {"metadata": metadata, "spec": {**fields, **claim}, "status": status}
    return [*others, (Kind.PERSISTENT_VOLUME_CLAIM, claimed), (Kind.POD, document)]


def _class_with_terms(count: int) -> list[tuple[Kind, dict[str, Any]]]:
    terms = [{"matchLabelExpressions": [{"key": HOST, "values": [f"node-{number:05}"]}]} for number in range(count)]
    storage_class = {
        "metadata": {"name": "odd"},
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": terms,
    }
    return _claiming({"storageClassName": "odd"}, (Kind.STORAGE_CLASS, storage_class))


def _volume_with_terms(count: int) -> list[tuple[Kind, dict[str, Any]]]:
    terms = [_term(HOST, f"node-{number:05}") for number in range(count)]
    volume = {
        "metadata": {"name": "odd"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "default", "name": "data", "uid": "claim"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
        "status": {"phase": "Bound"},
    }
    return _claiming({"volumeName": "odd"}, (Kind.PERSISTENT_VOLUME, volume))


def _node(**fields: Any) -> list[dict[str, Any]]:
    return [node_json("odd", cpu="32", memory="128Gi", pods=110, **fields)]


def _no_nodes() -> list[dict[str, Any]]:
    return []


def _keys(count: int) -> dict[str, str]:
    return {f"key-{number}": f"value-{number}" for number in range(count)}


_CASES: dict[str, tuple[Callable[[], list[dict[str, Any]]], Callable[[], list[tuple[Kind, dict[str, Any]]]]]] = {
    "a pod that asks about 1,000 keys that no node has": (
        _no_nodes,
        lambda: _with_terms([_term(f"key-{number}", "x") for number in range(1_000)]),
    ),
    "a pod that asks about 20,000 keys that no node has": (
        _no_nodes,
        lambda: _with_terms([_term(f"key-{number}", "x") for number in range(20_000)]),
    ),
    "a pod that asks about 5,000 keys of one node": (
        lambda: _node(labels=_keys(5_000)),
        lambda: _with_terms([_term(f"key-{number}", f"value-{number}") for number in range(5_000)]),
    ),
    "a pod that asks for 20,000 values of one key": (
        _no_nodes,
        lambda: _with_terms([_term(HOST, f"node-{number:05}") for number in range(20_000)]),
    ),
    "a pod that names 10,000 nodes, a term each": (_no_nodes, _named_nodes),
    "a pod that prefers 10,000 nodes, a term each": (_no_nodes, _preferring),
    "a pod apart from 5,000 others, a preferred term each": (
        _no_nodes,
        lambda: _apart_from(5_000, 0, is_preferred=True),
    ),
    "a pod apart from 500 others in 200 namespaces": (_no_nodes, lambda: _apart_from(500, 200)),
    "a pod with 20,000 labels": (_no_nodes, lambda: _labelled(20_000)),
    "a pod with 100 claims, 500 static volumes in its zone": (_no_nodes, lambda: _with_claims(100, 500)),
    "a pod with 2,000 claims of a class without volumes": (_no_nodes, lambda: _with_claims(2_000, 0)),
    "a pod that asks for 2,000 resources that no node has": (_no_nodes, lambda: _asking_for(2_000, "1")),
    "a foreign pod with 2,000 resources of amount 0": (_no_nodes, lambda: _asking_for(2_000, "0", "nowhere")),
    "a pod with 15,000 tolerations, a node with 5,000 taints": (
        lambda: _node(taints=[f"taint-{number}=x:NoSchedule" for number in range(5_000)]),
        _tolerating,
    ),
    "a pod with 1,000 spread constraints": (_no_nodes, lambda: _spreading(1_000)),
    "a claim whose class has 1,000 topology terms": (_no_nodes, lambda: _class_with_terms(1_000)),
    "a claim whose volume has 1,000 affinity terms": (_no_nodes, lambda: _volume_with_terms(1_000)),
    "a node with 5,000 labels": (
        _no_nodes,
        lambda: [(Kind.NODE, document) for document in _node(labels=_keys(5_000))],
    ),
    "a node with 5,000 taints": (
        _no_nodes,
        lambda: [
            (Kind.NODE, document)
            for document in _node(taints=[f"taint-{number}=x:NoSchedule" for number in range(5_000)])
        ],
    ),
}


# --- bytes that stay --------------------------------------------------------------------------------------------------


def _kept(make: Callable[[Engine], None]) -> float:
    engine = engine_with(NODES)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    make(engine)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - before) / 2**20


def _asked_and_gone(engine: Engine, documents: list[tuple[Kind, dict[str, Any]]]) -> None:
    for kind, document in documents:
        obj = decode(kind, msgspec.json.encode(document))
        engine.handle(ObjectObserved(kind, obj), now())
        engine.schedule_one(now())
        engine.handle(ObjectDeleted(kind, obj), now())


def _own_resources(engine: Engine) -> None:
    for number in range(NODES):
        name = f"node-{number:05}"
        labels = {HOST: name, "topology.kubernetes.io/zone": f"zone-{number % 10}"}
        show(
            engine,
            Kind.NODE,
            node_json(
                name, cpu="32", memory="128Gi", pods=110, labels=labels, allocatable={f"example.com/r-{number}": "1"}
            ),
        )


def _big_pods(engine: Engine) -> None:
    for number in range(40):
        document = pending(f"big-{number}", annotations={"blob": f"{number}" + "x" * 198 * 1024})
        _asked_and_gone(engine, [(Kind.POD, document)])


_KEPT: dict[str, Callable[[Engine], None]] = {
    "1,000 keys that no node has": lambda engine: _asked_and_gone(
        engine, _with_terms([_term(f"key-{number}", "x") for number in range(1_000)])
    ),
    "2,000 resources of amount 0 of a foreign pod": lambda engine: _asked_and_gone(
        engine, _asking_for(2_000, "0", "nowhere")
    ),
    "a resource of its own on each of 5,000 nodes": _own_resources,
    "40 pods of 198 KiB": _big_pods,
}
