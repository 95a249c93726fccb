"""Start-up: 50,000 running pods and 5,000 nodes come in pages of 500, are decoded and counted."""

from __future__ import annotations

import resource
import time
from typing import Any

import msgspec

from scheduler.compose import build_engine
from scheduler.config.loading import load
from scheduler.messages.stimuli import ObjectObserved, Synced
from scheduler.objects.kinds import Kind
from scheduler.objects.wire import decode_list
from tests.benchmarks.clusters import now, pending
from tests.builders import node_json

NODES = 5_000
PODS = 50_000
PAGE = 500
TEMPLATES = 300


def sync() -> dict[str, float]:
    """Seconds of CPU from bytes to a synced engine, and the process's largest resident set in MiB."""
    engine = build_engine(load(), started=now(), seed=1)
    spent = 0.0
    for kind, count, make in ((Kind.NODE, NODES, _node), (Kind.POD, PODS, _pod)):
        for start in range(0, count, PAGE):
            page = {
                "metadata": {"resourceVersion": "1"},
                "items": [make(number) for number in range(start, min(start + PAGE, count))],
            }
            body = msgspec.json.encode(page)
            started = time.process_time()
            moment = now()
            for obj in decode_list(kind, body).objects:
                engine.handle(ObjectObserved(kind, obj), moment)
            spent += time.process_time() - started
    started = time.process_time()
    engine.handle(Synced(), now())
    spent += time.process_time() - started
    return {"seconds of CPU": spent, "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _node(number: int) -> dict[str, Any]:
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


def _pod(number: int) -> dict[str, Any]:
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
    document["spec"]["nodeName"] = f"node-{number % NODES:05}"
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
