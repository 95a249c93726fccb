"""First lists: 5,000 nodes and 150,000 running pods come in pages of 500 and are decoded, shared and counted.

The pages are canned answers of a client, read by the reflectors and applied by the scheduling loop as in production;
the network and the API server are left out. Pods are some 3.5 KB of JSON each, half of it managedFields.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import time
import tracemalloc
from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler.compose import build_engine
from scheduler.config.loading import load
from scheduler.controller import garbage
from scheduler.controller.inbox import Inbox
from scheduler.controller.loop import SchedulingLoop
from scheduler.controller.watch.reflector import Reading, Reflector
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.http_exchange import Answer
from scheduler.engine.engine import Engine
from scheduler.objects.kinds import Kind
from scheduler.testing.documents import node_json
from tests.benchmarks.clusters import now, pending

NODES = 5_000
PODS = 150_000
TRACED_PODS = 20_000
"""Traced by tracemalloc, which makes all of it five times slower."""
PAGE = 500
TEMPLATES = 300


class CannedClient(ApiClient):
    """Answers lists with pages that are made when they are asked for; the time that takes is left out."""

    def __init__(self, counts: Mapping[Kind, int]) -> None:
        self.making_seconds = 0.0
        self._counts = {kind.entry.collection_path(): count for kind, count in counts.items()}

    async def request(self, method: str, path: str, **options: Any) -> Answer:
        started = time.process_time()
        start = int(options["query"].get("continue", "0"))
        end = min(start + PAGE, self._counts[path])
        make = self.node if path == Kind.NODE.entry.collection_path() else self.pod
        place = {"resourceVersion": "1", "continue": str(end) if end < self._counts[path] else ""}
        body = msgspec.json.encode({"metadata": place, "items": [make(number) for number in range(start, end)]})
        self.making_seconds += time.process_time() - started
        await asyncio.sleep(0)
        return Answer(200, body)

    def node(self, number: int) -> Any:
        """The node of this number, as JSON encodes it."""
        return node(number)

    def pod(self, number: int) -> Any:
        """The pod of this number, as JSON encodes it."""
        return pod(number, NODES)


def sync() -> dict[str, float]:
    """CPU from a page's bytes to the applied stimuli, growth of the resident set, and what a kept pod costs."""
    garbage.collect_seldom()
    traced = _traced_bytes_a_pod()
    gc.collect()
    before = resident_bytes()
    seconds, longest, keep = asyncio.run(_lists({Kind.NODE: NODES}))
    nodes = resident_bytes() - before
    del keep
    seconds, longest, keep = asyncio.run(_lists({Kind.NODE: NODES, Kind.POD: PODS}))
    grown = resident_bytes() - before
    del keep
    return {
        "seconds of CPU": seconds,
        "µs of CPU a pod": seconds / PODS * 1e6,
        "bytes kept a pod (tracemalloc)": traced,
        "nodes, MiB": nodes / 2**20,
        "all, growth of the resident set, MiB": grown / 2**20,
        "the whole process at most, MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "longest step, ms": longest * 1e3,
    }


def _traced_bytes_a_pod() -> float:
    _, _, keep = asyncio.run(_lists({Kind.NODE: NODES}))
    del keep
    gc.collect()
    tracemalloc.start()
    _, _, keep = asyncio.run(_lists({Kind.NODE: 10}))
    gc.collect()
    empty = tracemalloc.get_traced_memory()[0]
    del keep
    _, _, keep = asyncio.run(_lists({Kind.NODE: 10, Kind.POD: TRACED_PODS}))
    gc.collect()
    bytes_a_pod = (tracemalloc.get_traced_memory()[0] - empty) / TRACED_PODS
    tracemalloc.stop()
    del keep
    return bytes_a_pod


async def _lists(counts: Mapping[Kind, int]) -> tuple[float, float, object]:
    """Seconds of CPU, the longest step in seconds, and what keeps all objects alive."""
    engine = build_engine(load(), started=now(), seed=1)
    seconds, longest, reflectors = await read_lists(engine, CannedClient(counts), counts)
    return seconds, longest, (engine, reflectors)


async def read_lists(engine: Engine, client: CannedClient, counts: Mapping[Kind, int]) -> tuple[float, float, object]:
    """The engine learns the client's objects by reflectors and loop. Seconds of CPU, the longest step in seconds, and
    what keeps all objects alive."""
    inbox = Inbox()
    loop = SchedulingLoop(engine, inbox, lambda _: None, lambda _: False)
    reflectors = [Reflector(kind, client, inbox, Reading(PAGE), step=loop.steps.step) for kind in counts]
    started = time.process_time()
    scheduling = asyncio.create_task(loop.run())
    for listing in [asyncio.create_task(reflector.list_once()) for reflector in reflectors]:
        await listing
    await inbox.emptied()
    seconds = time.process_time() - started - client.making_seconds
    scheduling.cancel()
    await asyncio.gather(scheduling, return_exceptions=True)
    if len(engine.known_pods) != counts.get(Kind.POD, 0):
        raise AssertionError(f"{len(engine.known_pods)} pods are known")
    return seconds, loop.steps.longest_seconds, reflectors


def resident_bytes() -> int:
    """Of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def node(number: int) -> dict[str, Any]:
    name = f"node-{number:05}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"zone-{number % 10}",
        "topology.kubernetes.io/region": "region-1",
        "node.kubernetes.io/instance-type": "large",
    }
    document = node_json(name, cpu="32", memory="128Gi", pods=110, labels=labels)
    document["status"]["images"] = [
        {
            "names": [f"registry.test/app-{image}@sha256:{image:064}", f"registry.test/app-{image}:v1"],
            "sizeBytes": 10**8,
        }
        for image in range(number % 20, number % 20 + 20)
    ]
    return document


def pod(number: int, nodes: int) -> dict[str, Any]:
    """A running pod of one of TEMPLATES workloads, on one of these nodes."""
    template = number % TEMPLATES
    document = pending(f"app-{template}-{number:06}", labels={"app": f"app-{template}", "pod-template-hash": "abc123"})
    document["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": f"app-{template}",
            "uid": f"rs-{template}",
            "controller": True,
        }
    ]
    document["metadata"]["managedFields"] = _MANAGED_FIELDS
    document["spec"]["containers"][0]["env"] = _ENVIRONMENT
    document["spec"]["nodeName"] = f"node-{number % nodes:05}"
    document["spec"]["volumes"] = [{"name": f"kube-api-access-{number}", "projected": {"sources": []}}]
    document["spec"]["tolerations"] = [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    ]
    document["status"] = {
        "phase": "Running",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "image": "app", "imageID": "x"}],
    }
    return document


_MANAGED_FIELDS = [
    {
        "manager": "kubelet",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:status": {
                f"f:field-{number}": {".": {}, "f:lastProbeTime": {}, "f:status": {}, "f:type": {}}
                for number in range(25)
            }
        },
    }
]
_ENVIRONMENT = [{"name": f"VARIABLE_{number}", "value": "some value of it"} for number in range(12)]
