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
from scheduler.engine.explain import pod_page_in_slices
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, WakingContinued
from scheduler.objects.kinds import Kind, decode
from scheduler.testing.documents import node_json
from tests.benchmarks.clusters import engine_with, now, pending, show
from tests.benchmarks.hostile_objects import (
    AT_THE_LIMIT,
    HOST,
    LIMIT_BYTES,
    NODES,
    Case,
    Documents,
    apart_from,
    asking_for,
    class_with_terms,
    keys,
    labelled,
    named_nodes,
    no_nodes,
    node,
    nodes_of,
    preferring,
    spreading,
    term,
    tolerating,
    volume_with_terms,
    with_claims,
    with_terms,
)


def hostile() -> dict[str, float]:
    """``step``: milliseconds of CPU of the longest single step (an object is decoded, a stimulus handled, a slice of an
    attempt) from the object's arrival to its deletion, and which it is: see ``_steps``. ``later``: microseconds of CPU
    of the attempt at a plain pod after it, median, and ``before``. ``MiB``: what stays allocated once the pod is
    gone."""
    garbage.collect_seldom()
    found: dict[str, float] = {}
    for name in _CASES:
        found |= measured(name)
    found |= {f"{name}: MiB": _kept(make) for name, make in _KEPT.items()}
    return found


def measured(name: str) -> dict[str, float]:
    before, make = _CASES[name]
    engine = engine_with(NODES)
    for document in before():
        show(engine, Kind.NODE, document)
    for number in range(150):
        show(engine, Kind.POD, pending(f"plain-{number}"))
    _attempts(engine, 20)
    usual = statistics.median(_attempts(engine, 40)) * 1e6
    gc.collect()  # The engine of the case before, which is none of this one's steps.
    documents = make()
    if make in AT_THE_LIMIT.values():
        assert max(len(msgspec.json.encode(document)) for _, document in documents) <= LIMIT_BYTES
    steps, later = _steps(engine, documents)
    longest = max(steps, key=steps.__getitem__)
    return {
        f"{name}: before": usual,
        f"{name}: step ({longest})": steps[longest] * 1e3,
        f"{name}: later": statistics.median(later) * 1e6,
    }


def _steps(engine: Engine, documents: Documents) -> tuple[dict[str, float], list[float]]:
    """Seconds of the longest step of each kind, and those of the attempts at plain pods meanwhile."""
    steps: dict[str, float] = {}

    def step(called: str, act: Callable[[], Any]) -> Any:
        started = time.process_time()
        result = act()
        steps[called] = max(steps.get(called, 0.0), time.process_time() - started)
        return result

    def show_all(called: str, shown: Documents) -> None:
        for kind, document in shown:
            text = msgspec.json.encode(document)
            obj = step("decode", partial(decode, kind, text))
            step(called, partial(engine.handle, ObjectObserved(kind, obj), now()))
            while engine.is_waking:
                step(called, partial(engine.handle, WakingContinued(), now()))

    def attempt(called: str) -> None:
        step(called, partial(engine.schedule_one, now()))
        while engine.is_waking:
            step(called, partial(engine.handle, WakingContinued(), now()))

    def why(called: str) -> None:
        slices = pod_page_in_slices(engine, "default/hostile", now())
        while step(called, partial(next, slices, slices)) is not slices:
            pass

    show_all("arrival", documents)
    attempt("attempt")
    why("why")
    later = _attempts(engine, 40)
    attempted = engine.attempt_of("default/hostile")
    placed = attempted.node if attempted is not None else ""
    show_all("update", [_updated(kind, document, placed) for kind, document in documents])
    show_all("event", nodes_of([node_json("node-00000", cpu="64", memory="128Gi", pods=110)]))
    attempt("attempt again")
    why("why")
    later += _attempts(engine, 20)
    for kind, document in reversed(documents):
        obj = decode(kind, msgspec.json.encode(_updated(kind, document, placed)[1]))
        step("deletion", partial(engine.handle, ObjectDeleted(kind, obj), now()))
    return steps | {"plain attempt": max(later)}, later


def _updated(kind: Kind, document: dict[str, Any], node: str) -> tuple[Kind, dict[str, Any]]:
    """Bound if it is a pod that has a node, else with a label or a condition more."""
    if kind is Kind.POD:
        changed = {"spec": {**document["spec"], "nodeName": node}} if node else {"status": {"conditions": [_CONDITION]}}
        return kind, document | changed
    labels = {**document["metadata"].get("labels", {}), "a": "b"}
    return kind, document | {"metadata": {**document["metadata"], "labels": labels}}


_CONDITION = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def _attempts(engine: Engine, count: int) -> list[float]:
    """Of each the longest step."""
    return [_attempt(engine) for _ in range(count)]


def _attempt(engine: Engine) -> float:
    steps = [_timed(partial(engine.schedule_one, now()))]
    while engine.is_waking:
        steps.append(_timed(partial(engine.handle, WakingContinued(), now())))
    return max(steps)


def _timed(step: Callable[[], object]) -> float:
    started = time.process_time()
    step()
    return time.process_time() - started


_CASES: dict[str, Case] = {
    "a pod that asks about 1,000 keys that no node has": (
        no_nodes,
        lambda: with_terms([term(f"key-{number}", "x") for number in range(1_000)]),
    ),
    "a pod that asks about 20,000 keys that no node has": (
        no_nodes,
        lambda: with_terms([term(f"key-{number}", "x") for number in range(20_000)]),
    ),
    "a pod that asks about 5,000 keys of one node": (
        lambda: node(labels=keys(5_000)),
        lambda: with_terms([term(f"key-{number}", f"value-{number}") for number in range(5_000)]),
    ),
    "a pod that asks for 20,000 values of one key": (
        no_nodes,
        lambda: with_terms([term(HOST, f"node-{number:05}") for number in range(20_000)]),
    ),
    "a pod that names 10,000 nodes, a term each": (no_nodes, named_nodes),
    "a pod that prefers 10,000 nodes, a term each": (no_nodes, preferring),
    "a pod apart from 5,000 others, a preferred term each": (
        no_nodes,
        lambda: apart_from(5_000, 0, is_preferred=True),
    ),
    "a pod apart from 500 others in 200 namespaces": (no_nodes, lambda: apart_from(500, 200)),
    "a pod with 20,000 labels": (no_nodes, lambda: labelled(20_000)),
    "a pod with 100 claims, 500 static volumes in its zone": (no_nodes, lambda: with_claims(100, 500)),
    "a pod with 2,000 claims of a class without volumes": (no_nodes, lambda: with_claims(2_000, 0)),
    "a pod that asks for 2,000 resources that no node has": (no_nodes, lambda: asking_for(2_000, "1")),
    "a foreign pod with 2,000 resources of amount 0": (no_nodes, lambda: asking_for(2_000, "0", "nowhere")),
    "a pod with 15,000 tolerations, a node with 5,000 taints": (
        lambda: node(taints=[f"taint-{number}=x:NoSchedule" for number in range(5_000)]),
        tolerating,
    ),
    "a pod with 1,000 spread constraints": (no_nodes, lambda: spreading(1_000)),
    "a claim whose class has 1,000 topology terms": (
        no_nodes,
        lambda: class_with_terms(
            [{"matchLabelExpressions": [{"key": HOST, "values": [f"node-{n:05}"]}]} for n in range(1_000)]
        ),
    ),
    "a claim whose volume has 1,000 affinity terms": (
        no_nodes,
        lambda: volume_with_terms([term(HOST, f"node-{number:05}") for number in range(1_000)]),
    ),
    "a node with 5,000 labels": (
        no_nodes,
        lambda: [(Kind.NODE, document) for document in node(labels=keys(5_000))],
    ),
    "a node with 5,000 taints": (
        no_nodes,
        lambda: [
            (Kind.NODE, document)
            for document in node(taints=[f"taint-{number}=x:NoSchedule" for number in range(5_000)])
        ],
    ),
    **{f"a pod of 1.5 MB, or what it needs: {name}": (no_nodes, make) for name, make in AT_THE_LIMIT.items()},
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


def _asked_and_gone(engine: Engine, documents: Documents) -> None:
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
        engine, with_terms([term(f"key-{number}", "x") for number in range(1_000)])
    ),
    "2,000 resources of amount 0 of a foreign pod": lambda engine: _asked_and_gone(
        engine, asking_for(2_000, "0", "nowhere")
    ),
    "a resource of its own on each of 5,000 nodes": _own_resources,
    "40 pods of 198 KiB": _big_pods,
}
