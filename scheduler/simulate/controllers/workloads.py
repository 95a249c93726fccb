"""The controllers of Deployments, ReplicaSets, StatefulSets and Jobs."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from scheduler.simulate.apiserver import Failure, Registry
from scheduler.simulate.apiserver.kinds import (
    DEPLOYMENTS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Kind,
)
from scheduler.simulate.apiserver.pods import with_condition
from scheduler.simulate.controllers.index import Dependents, owner_reference

Object = dict[str, Any]

HASH_LABEL: Final = "pod-template-hash"
_OVER: Final = ("Succeeded", "Failed")


def is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def is_terminating(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def is_active(pod: Object) -> bool:
    """Whether the pod is neither finished nor terminating."""
    return not is_terminating(pod) and pod.get("status", {}).get("phase") not in _OVER


def deployment(registry: Registry, dependents: Dependents, obj: Object) -> None:
    """Keeps one ReplicaSet per template; old ones are scaled down as the new one gets ready."""
    if is_terminating(obj):
        return
    spec, namespace = obj["spec"], obj["metadata"]["namespace"]
    wanted = int(spec["replicas"])
    template_hash = hashlib.sha256(msgspec.json.encode(spec["template"], order="sorted")).hexdigest()[:10]
    sets = dependents.of(obj, REPLICA_SETS)
    current = [one for one in sets if one["metadata"]["labels"].get(HASH_LABEL) == template_hash]
    if not current:
        registry.create(REPLICA_SETS, namespace, _replica_set_of(obj, template_hash))
        return
    new, old = current[0], [one for one in sets if one is not current[0]]
    _set_replicas(registry, new, wanted)
    left = max(0, wanted - int(new["status"].get("readyReplicas", 0)))
    for one in old:
        keep = min(left, int(one["spec"]["replicas"]))
        left -= keep
        _set_replicas(registry, one, keep)
    counts = {
        name: sum(int(one["status"].get(name, 0)) for one in sets)
        for name in ("replicas", "readyReplicas", "availableReplicas")
    }
    now = registry.timestamp()
    available = "True" if counts["availableReplicas"] >= wanted else "False"
    conditions = with_condition(obj["status"].get("conditions") or [], {"type": "Available", "status": available}, now)
    status = {
        **counts, "updatedReplicas": int(new["status"].get("replicas", 0)), "conditions": conditions,
        "observedGeneration": obj["metadata"]["generation"],
    }  # fmt: skip
    _set_status(registry, DEPLOYMENTS, obj, status)


def _replica_set_of(deployment: Object, template_hash: str) -> Object:
    spec, metadata = deployment["spec"], deployment["metadata"]
    template = spec["template"]
    template_metadata = template.get("metadata", {})
    labels = {**template_metadata.get("labels", {}), HASH_LABEL: template_hash}
    selector = spec["selector"]
    return {
        "metadata": {
            "name": f"{metadata['name']}-{template_hash}", "labels": labels,
            "ownerReferences": [owner_reference(DEPLOYMENTS, deployment)],
        },
        "spec": {
            "replicas": spec["replicas"],
            "selector": {**selector, "matchLabels": {**selector.get("matchLabels", {}), HASH_LABEL: template_hash}},
            "template": {**template, "metadata": {**template_metadata, "labels": labels}},
        },
    }  # fmt: skip


def _set_replicas(registry: Registry, replica_set: Object, wanted: int) -> None:
    if int(replica_set["spec"]["replicas"]) == wanted:
        return
    metadata = replica_set["metadata"]
    change = {**replica_set, "spec": {**replica_set["spec"], "replicas": wanted}}
    registry.update(REPLICA_SETS, metadata["namespace"], metadata["name"], change)


def replica_set(registry: Registry, dependents: Dependents, obj: Object) -> None:
    _replicate(registry, dependents, REPLICA_SETS, obj)


def replication_controller(registry: Registry, dependents: Dependents, obj: Object) -> None:
    _replicate(registry, dependents, REPLICATION_CONTROLLERS, obj)


def _replicate(registry: Registry, dependents: Dependents, kind: Kind, obj: Object) -> None:
    if is_terminating(obj):
        return
    namespace, wanted = obj["metadata"]["namespace"], int(obj["spec"]["replicas"])
    pods = [one for one in dependents.of(obj) if is_active(one)]
    for _ in range(wanted - len(pods)):
        registry.create(PODS, namespace, _pod_of(kind, obj, {"generateName": f"{obj['metadata']['name']}-"}))
    for pod in sorted(pods, key=_keep_longest)[: max(0, len(pods) - wanted)]:
        registry.delete(PODS, namespace, pod["metadata"]["name"])
    ready = sum(1 for one in pods if is_ready(one))
    status = {
        "replicas": len(pods), "fullyLabeledReplicas": len(pods), "readyReplicas": ready, "availableReplicas": ready,
        "observedGeneration": obj["metadata"]["generation"],
    }  # fmt: skip
    _set_status(registry, kind, obj, status)


def _keep_longest(pod: Object) -> tuple[bool, bool, bool, int]:
    """Sort key for deleting surplus pods: without node, pending, not ready, then the youngest."""
    phase = pod.get("status", {}).get("phase")
    age = -int(pod["metadata"]["resourceVersion"])
    return "nodeName" in pod["spec"], phase != "Pending", is_ready(pod), age


def _pod_of(kind: Kind, owner: Object, naming: Object) -> Object:
    template = owner["spec"]["template"]
    metadata = template.get("metadata", {})
    kept = {field: metadata[field] for field in ("labels", "annotations", "finalizers") if field in metadata}
    return {
        "metadata": {**kept, **naming, "ownerReferences": [owner_reference(kind, owner)]},
        "spec": template["spec"],
    }


def stateful_set(registry: Registry, dependents: Dependents, obj: Object) -> None:
    """Creates pods with fixed names in sequence (unless the policy is Parallel), and deletes the last one first."""
    if is_terminating(obj):
        return
    namespace, name, wanted = obj["metadata"]["namespace"], obj["metadata"]["name"], int(obj["spec"]["replicas"])
    pods = {one["metadata"]["name"]: one for one in dependents.of(obj)}
    ordered = obj["spec"]["podManagementPolicy"] == "OrderedReady"
    for ordinal in range(wanted):
        pod = pods.get(f"{name}-{ordinal}")
        if pod is None:
            _create_ordinal(registry, obj, ordinal)
        elif pod.get("status", {}).get("phase") in _OVER and not is_terminating(pod):
            registry.delete(PODS, namespace, pod["metadata"]["name"])
        if ordered and (pod is None or not is_ready(pod) or is_terminating(pod)):
            break
    surplus = [one for one in pods.values() if _ordinal(one) >= wanted and not is_terminating(one)]
    for pod in sorted(surplus, key=_ordinal, reverse=True)[: 1 if ordered else None]:
        registry.delete(PODS, namespace, pod["metadata"]["name"])
    ready = sum(1 for one in pods.values() if is_ready(one))
    status = {
        "replicas": len(pods), "readyReplicas": ready, "availableReplicas": ready, "currentReplicas": len(pods),
        "updatedReplicas": len(pods), "observedGeneration": obj["metadata"]["generation"],
    }  # fmt: skip
    _set_status(registry, STATEFUL_SETS, obj, status)


def _ordinal(pod: Object) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


def _create_ordinal(registry: Registry, obj: Object, ordinal: int) -> None:
    namespace, name = obj["metadata"]["namespace"], f"{obj['metadata']['name']}-{ordinal}"
    pod = _pod_of(STATEFUL_SETS, obj, {"name": name})
    labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(ordinal)}
    pod["metadata"]["labels"] = {**pod["metadata"].get("labels", {}), **labels}
    volumes = list(pod["spec"].get("volumes") or ())
    for claim in obj["spec"].get("volumeClaimTemplates") or ():
        claim_name = f"{claim['metadata']['name']}-{name}"
        volumes.append({"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim_name}})
        if registry.store.get(PERSISTENT_VOLUME_CLAIMS, namespace, claim_name) is None:
            body = {"metadata": {"name": claim_name, "labels": labels}, "spec": claim["spec"]}
            registry.create(PERSISTENT_VOLUME_CLAIMS, namespace, body)
    spec = {**pod["spec"], "hostname": name, "subdomain": obj["spec"].get("serviceName", "")}
    if volumes:
        spec["volumes"] = volumes
    try:
        registry.create(PODS, namespace, {**pod, "spec": spec})
    except Failure as failure:
        if failure.reason != "AlreadyExists":
            raise


def job(registry: Registry, dependents: Dependents, obj: Object) -> None:
    """Runs pods until enough have succeeded or too many have failed."""
    if is_terminating(obj) or any(one["status"] == "True" for one in obj["status"].get("conditions") or ()):
        return
    namespace, spec, now = obj["metadata"]["namespace"], obj["spec"], registry.timestamp()
    pods = dependents.of(obj)
    phases = [one.get("status", {}).get("phase") for one in pods]
    succeeded, failed = phases.count("Succeeded"), phases.count("Failed")
    active = [one for one in pods if is_active(one)]
    completions = spec.get("completions")
    status: Object = {"succeeded": succeeded, "failed": failed, "active": len(active), "ready": 0,
                      "startTime": obj["status"].get("startTime", now)}  # fmt: skip
    status["ready"] = sum(1 for one in active if is_ready(one))
    if failed > spec["backoffLimit"]:
        over = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
        status["conditions"] = with_condition([], over, now)
    elif succeeded >= (1 if completions is None else completions) and (completions is not None or not active):
        status["completionTime"] = now
        status["conditions"] = with_condition([], {"type": "Complete", "status": "True"}, now)
    elif not spec.get("suspend"):
        left = spec["parallelism"] if completions is None else completions - succeeded
        wanted = 0 if completions is None and succeeded else min(spec["parallelism"], left) - len(active)
        for _ in range(wanted):
            registry.create(PODS, namespace, _pod_of(JOBS, obj, {"generateName": f"{obj['metadata']['name']}-"}))
    _set_status(registry, JOBS, obj, status)


def _set_status(registry: Registry, kind: Kind, obj: Object, status: Object) -> None:
    metadata = obj["metadata"]
    fresh = {key: value for key, value in status.items() if value or key in ("replicas", "availableReplicas")}
    registry.change(kind, metadata.get("namespace", ""), metadata["name"], lambda old: {**old, "status": fresh})
