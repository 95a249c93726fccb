"""The workload that a pod belongs to, as people name it (``deployment/web``); a workload's pods explained together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from typing import Any, Final

from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.engine import Engine
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import controller_of
from scheduler.objects.pod import Pod
from scheduler.queue.queued_pod import QueuedPod

MAX_NAMES: Final = 10
"""Pods named of a group, and nodes named of a workload."""
MAX_MESSAGE: Final = 300
"""Characters kept of an attempt's message."""
_SLICE: Final = 1_000
"""Pods examined in about a millisecond."""
_POD_TEMPLATE_HASH: Final = "pod-template-hash"


def workload_of(pod: Pod, objects: ObjectStore) -> str:
    """``deployment/web``; "" for a pod without a controller. A ReplicaSet counts as its Deployment's."""
    owner = controller_of(pod.metadata)
    if owner is None:
        return ""
    if owner.kind == "ReplicaSet":
        found = objects.get(Kind.REPLICA_SET, f"{pod.metadata.namespace}/{owner.name}")
        above = controller_of(found.metadata) if found is not None else None
        if above is not None:
            return f"{above.kind.lower()}/{above.name}"
        ending = f"-{pod.metadata.labels.get(_POD_TEMPLATE_HASH, '')}"
        if found is None and len(ending) > 1 and owner.name.endswith(ending):
            return f"deployment/{owner.name.removesuffix(ending)}"
    return f"{owner.kind.lower()}/{owner.name}"


def belongs_to(pod: Pod, objects: ObjectStore, workload: str) -> bool:
    """Whether a pod is a workload's: of a Deployment's ReplicaSet it is so under both names."""
    owner = controller_of(pod.metadata)
    if owner is None:
        return False
    return workload == f"{owner.kind.lower()}/{owner.name}" or workload == workload_of(pod, objects)


def last_message(engine: Engine, record: QueuedPod) -> str:
    """Why the last attempt at a waiting pod failed, cut at ``MAX_MESSAGE`` characters; "" if it is not known."""
    attempt = engine.attempt_of(record.key)
    if attempt is None or attempt.uid != record.uid:
        return ""
    return attempt.message if len(attempt.message) <= MAX_MESSAGE else f"{attempt.message[:MAX_MESSAGE]}…"


def workload_page_in_slices(engine: Engine, namespace: str, workload: str) -> Generator[None, None, dict[str, Any]]:
    """A workload's pods: where those are that have a node, and the others by the reason for which they wait.

    Yields after each slice of about a millisecond. ``example``: the first pod of the largest group that waits.
    """
    nodes: Counter[str] = Counter()
    groups: dict[tuple[str, str, str], list[str]] = {}
    total = 0
    for number, info in enumerate(tuple(engine.known_pods), start=1):
        if info.namespace == namespace and belongs_to(info.pod, engine.cache.objects, workload):
            total += 1
            node = info.pod.node_name
            if node:
                nodes[node] += 1
            else:
                groups.setdefault(_standing(engine, info), []).append(info.key)
        if number % _SLICE == 0:
            yield
    waiting = [
        {
            "place": place,
            "rejectedBy": plugins,
            "message": message,
            "count": len(keys),
            "pods": sorted(keys)[:MAX_NAMES],
        }
        for (place, plugins, message), keys in sorted(groups.items(), key=lambda group: -len(group[1]))
    ]
    page: dict[str, Any] = {
        "workload": workload,
        "namespace": namespace,
        "pods": total,
        "placed": nodes.total(),
        "nodes": dict(nodes.most_common(MAX_NAMES)),
        "nodeCount": len(nodes),
        "waiting": waiting,
    }
    if groups:
        page["example"] = min(sorted(groups.values(), key=len)[-1])
    return page


def _standing(engine: Engine, info: PodInfo) -> tuple[str, str, str]:
    """Place, plugins and message: what pods have in common that wait for the same reason."""
    for record in _records(engine, info):
        place = engine.queue.place_of(record).value
        if record.gating_plugin:
            # The gate holds it back now; its last attempt, if there was one, says nothing of that.
            return place, record.gating_plugin, ", ".join(record.gating_reasons)
        return place, ", ".join(sorted(record.rejectors)), last_message(engine, record)
    ours = info.pod.spec.scheduler_name in engine.profiles
    return ("being bound" if ours else f"of scheduler {info.pod.spec.scheduler_name}"), "", ""


def _records(engine: Engine, info: PodInfo) -> Iterator[QueuedPod]:
    waiting = engine.queue.find(info.key)
    if waiting is not None:
        yield waiting
    yield from engine.queue.in_flight.named(info.key)
