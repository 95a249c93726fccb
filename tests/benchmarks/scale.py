"""Growth with the size of the cluster: ``python -m tests.benchmarks.scale --nodes 1000 10000 100000``.

Nodes and running pods come by the reflectors and the scheduling loop, as in ``sync.py``. Then: a pod of a known class,
with the one row that the pod before it changed; a pod of a class that was never seen; and one node that changes, both
the change itself and what the next pod of a known class pays for it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from scheduler.compose import build_engine
from scheduler.config.loading import load
from scheduler.controller import garbage
from scheduler.engine.engine import Engine
from scheduler.messages.stimuli import ObjectObserved, Synced
from scheduler.objects.kinds import Kind, decode
from tests.benchmarks.clusters import now, pending, show
from tests.benchmarks.cycle import grouped
from tests.benchmarks.sync import TEMPLATES, CannedClient, node, pod, read_lists, resident_bytes

PODS_PER_NODE: Final = 10
KNOWN, UNKNOWN, CHANGES = 300, 30, 60
"""Samples of each."""


class TemplatesClient(CannedClient):
    """Makes its pods from encoded templates: a million are made in seconds."""

    def __init__(self, nodes: int, pods: int) -> None:
        super().__init__({Kind.NODE: nodes, Kind.POD: pods})
        self._nodes = nodes
        self._templates = [
            _parts(msgspec.json.encode(pod(number, nodes)), number, nodes) for number in range(TEMPLATES)
        ]

    def pod(self, number: int) -> msgspec.Raw:
        name, volume, host = _texts(number, self._nodes, number % TEMPLATES)
        text = self._templates[number % TEMPLATES]
        return msgspec.Raw(text.replace(b"@name", name).replace(b"@volume", volume).replace(b"@node", host))


def _texts(number: int, nodes: int, template: int) -> tuple[bytes, bytes, bytes]:
    """What differs between the pods of a template."""
    return (
        f"app-{template}-{number:06}".encode(),
        f"kube-api-access-{number}".encode(),
        f"node-{number % nodes:05}".encode(),
    )


def _parts(text: bytes, number: int, nodes: int) -> bytes:
    """An encoded pod with places for what differs."""
    for part, place in zip(_texts(number, nodes, number), (b"@name", b"@volume", b"@node"), strict=True):
        text = text.replace(part, place)
    return text


def scale(nodes: int, pods: int) -> dict[str, float]:
    """Medians in microseconds of CPU, the first lists in seconds of it, memory in MiB."""
    gc.collect()
    before = resident_bytes()
    engine = build_engine(load(), started=now(), seed=1)
    client = TemplatesClient(nodes, pods)
    seconds, _, keep = asyncio.run(read_lists(engine, client, {Kind.NODE: nodes, Kind.POD: pods}))
    engine.handle(Synced(), now())
    grown = resident_bytes() - before
    found = {"first lists, s of CPU": seconds, "memory, MiB": grown / 2**20}
    gc.freeze()
    for name, make in (("plain", lambda index: pending(f"plain-{index}")), ("spread and affinity", _grouped)):
        for index in range(KNOWN + UNKNOWN + 6 * CHANGES):
            show(engine, Kind.POD, make(index))
        found[f"{name}, known class, µs"] = _median(_decisions(engine, KNOWN))
        if name == "plain":
            found |= _changed_nodes(engine)
        found[f"{name}, unknown class, µs"] = _median(_decisions(engine, UNKNOWN, before=engine.classes.clear))
        _drain(engine)
    del keep
    gc.unfreeze()
    return found


def _grouped(index: int) -> dict[str, Any]:
    """A pod of one workload that spreads over zones and hosts and keeps off its own kind."""
    return grouped(f"grouped-{index}", 0)


def _changed_nodes(engine: Engine) -> dict[str, float]:
    """A change of one node, and the next decision of a known class less one without a change."""
    plain = _median(_decisions(engine, CHANGES))
    found = {}
    changes: tuple[tuple[str, Callable[[dict[str, Any], int], object]], ...] = (
        ("heartbeat", lambda document, turn: document["metadata"].update(resourceVersion=f"1{turn}")),
        ("allocatable", lambda document, turn: document["status"]["allocatable"].update(cpu=str(30 + turn % 2))),
        ("taint", lambda document, turn: document["spec"].update(taints=_TAINTS[turn % 2])),
        ("label", lambda document, turn: document["metadata"]["labels"].update(turn=f"t{turn % 2}")),
        ("image", lambda document, turn: document["status"]["images"].append(_image(turn))),
    )
    for what, change in changes:
        handled: list[float] = []
        decided: list[float] = []
        for turn in range(CHANGES):
            document = node(7 + turn)
            change(document, turn)
            stimulus = _observed(document)
            started = time.thread_time()
            engine.handle(stimulus, now())
            handled.append(time.thread_time() - started)
            decided += _decisions(engine, 1)
        found[f"node changed: {what}, µs"] = _median(iter(handled))
        found[f"node changed: {what}, more in the next decision, µs"] = _median(iter(decided)) - plain
    return found


_TAINTS: Final[tuple[list[dict[str, str]], ...]] = ([], [{"key": "odd", "effect": "PreferNoSchedule"}])


def _image(turn: int) -> dict[str, Any]:
    return {"names": [f"registry.test/pulled-{turn % 2}:v1"], "sizeBytes": 10**8}


def _observed(document: dict[str, Any]) -> Any:
    return ObjectObserved(Kind.NODE, decode(Kind.NODE, msgspec.json.encode(document)))


def _decisions(engine: Engine, count: int, before: Callable[[], None] | None = None) -> Iterator[float]:
    """Seconds of CPU of each."""
    for _ in range(count):
        if before is not None:
            before()
        moment, started = now(), time.thread_time()
        commands = engine.schedule_one(moment)
        yield time.thread_time() - started
        if not commands:
            raise AssertionError("the queue ran dry: the measurement would be of nothing")


def _drain(engine: Engine) -> None:
    while engine.schedule_one(now()) is not None:
        pass


def _median(seconds: Iterator[float]) -> float:
    """Of all but the first, in microseconds."""
    return statistics.median(list(seconds)[1:]) * 1e6


def on_10_000_nodes() -> dict[str, float]:
    return scale(10_000, 10_000 * PODS_PER_NODE)


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.benchmarks.scale", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--pods-per-node", type=int, default=PODS_PER_NODE)
    options = parser.parse_args()
    garbage.collect_seldom()
    columns = {}
    for nodes in options.nodes:
        columns[nodes] = scale(nodes, nodes * options.pods_per_node)
        print(f"{nodes:,} nodes done", flush=True)
    print("| | " + " | ".join(f"{nodes:,} nodes" for nodes in columns) + " |")
    print("|---|" + "---|" * len(columns))
    for name in next(iter(columns.values())):
        print(f"| {name} | " + " | ".join(f"{found[name]:,.1f}" for found in columns.values()) + " |")


if __name__ == "__main__":
    main()
