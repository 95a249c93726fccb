"""What a change of one node costs the decisions after it: ``python -m tests.benchmarks.node_changes --nodes 5000``.

Pods of 60 deployments in turn, selected by Services, of the five kinds of the bench's ``mixed`` row; the classes of all
are known. Ten changes of a kind, each of another node, and six decisions after each: medians in microseconds of CPU.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any, Final

from e2e.bench.shapes import one_of_many_deployments
from scheduler.engine.engine import Engine
from scheduler.messages.stimuli import ObjectObserved
from scheduler.objects.kinds import Kind
from scheduler.testing.documents import node_json
from tests.benchmarks.clusters import ZONES, engine_with, now, pending, show
from tests.builders import service

DEPLOYMENTS: Final = 60
_TURNS, _DECISIONS = 10, 6
"""Each class decides once after changes of one kind."""
_KNOWN: Final = 4
"""Decisions of a class after which nothing about it is new."""

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"

Change = Callable[[dict[str, Any], int], object]

CHANGES: Final[dict[str, Change | None]] = {
    "nothing": None,
    "heartbeat": lambda document, turn: document["metadata"].update(resourceVersion=f"1{turn}"),
    "amount": lambda document, turn: document["status"]["allocatable"].update(cpu="31"),
    "label": lambda document, turn: document["metadata"]["labels"].update(turn=str(turn)),
    "taint": lambda document, turn: document["spec"].update(taints=[{"key": "odd", "effect": "NoSchedule"}]),
    "cordon": lambda document, turn: document["spec"].update(unschedulable=True),
    "image": lambda document, turn: document["status"].update(images=[{"names": [f"i{turn}"], "sizeBytes": 10**8}]),
    "zone": lambda document, turn: document["metadata"]["labels"].update({ZONE: "zone-3"}),
    "new node": lambda document, turn: _rename(document, f"later-{turn}"),
}


def node_changes(nodes: int) -> dict[str, float]:
    engine = engine_with(nodes)
    for number in range(DEPLOYMENTS):
        selected = service(f"app-{number}", {"app": f"app-{number}"})
        engine.handle(ObjectObserved(Kind.SERVICE, selected), now())
    rounds = _KNOWN + 2 * len(CHANGES)
    for index in range(rounds * DEPLOYMENTS + _TURNS * _DECISIONS):
        show(engine, Kind.POD, _pod(index))
    gc.collect()
    gc.freeze()
    found: dict[str, float] = {}
    _decide(engine, _KNOWN * DEPLOYMENTS)
    for place, (what, change) in enumerate(CHANGES.items()):
        _decide(engine, DEPLOYMENTS)
        handled: list[float] = []
        first: list[float] = []
        later: list[float] = []
        for turn in range(_TURNS):
            document = _node(100 * place + turn)
            started = time.thread_time()
            if change is not None:
                change(document, turn)
                show(engine, Kind.NODE, document)
            handled.append(time.thread_time() - started)
            first += _decide(engine, 1)
            later += _decide(engine, _DECISIONS - 1)
        medians = (statistics.median(each) * 1e6 for each in (handled, first, later))
        found |= dict(zip((what, f"{what}, the next decision", f"{what}, decisions after it"), medians, strict=True))
    gc.unfreeze()
    return found


def on_5_000_nodes() -> dict[str, float]:
    return node_changes(5_000)


def _pod(index: int) -> dict[str, Any]:
    """A pod of deployment ``index % DEPLOYMENTS``, of which the bench has more."""
    fields = one_of_many_deployments(index % DEPLOYMENTS)
    document = pending(f"pod-{index:05}", labels=fields.pop("labels"), cpu=fields.pop("cpu"))
    document["spec"] |= fields
    return document


def _node(number: int) -> dict[str, Any]:
    """One of ``engine_with``."""
    name, zone = f"node-{number:05}", f"zone-{number % ZONES}"
    labels = {HOST: name, ZONE: zone, "topology.ebs.csi.aws.com/zone": zone}
    return node_json(name, cpu="32", memory="128Gi", pods=110, labels=labels)


def _rename(document: dict[str, Any], name: str) -> None:
    document["metadata"] |= {"name": name, "uid": name}
    document["metadata"]["labels"][HOST] = name


def _decide(engine: Engine, count: int) -> list[float]:
    """Seconds of CPU of each."""
    found: list[float] = []
    for _ in range(count):
        moment, started = now(), time.thread_time()
        commands = engine.schedule_one(moment)
        found.append(time.thread_time() - started)
        if not commands:
            raise AssertionError("the queue ran dry: the measurement would be of nothing")
    return found


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.benchmarks.node_changes", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[5_000, 100_000])
    columns = {nodes: node_changes(nodes) for nodes in parser.parse_args().nodes}
    print("| | " + " | ".join(f"{nodes:,} nodes" for nodes in columns) + " |")
    print("|---|" + "---|" * len(columns))
    for what in CHANGES:
        names = (what, f"{what}, the next decision", f"{what}, decisions after it")
        cells = ["; ".join(f"{found[name]:,.0f}" for name in names) for found in columns.values()]
        print(f"| {what} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
