"""Objects for tests, with only what a test wants to say spelled out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Object = dict[str, Any]

SCHEDULER = "tandem-scheduler"
IMAGE = "pause"
# KWOK on a shared cluster plays the kubelet for nodes with this annotation only.
PRETENDED = {"kwok.x-k8s.io/node": "fake"}


def namespace(name: str) -> Object:
    return {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}


def node(
    name: str,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: int = 110,
    labels: dict[str, str] | None = None,
    taints: Sequence[Object] = (),
) -> Object:
    room = {"cpu": cpu, "memory": memory, "ephemeral-storage": "100Gi", "pods": str(pods)}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            "annotations": PRETENDED,
        },
        "spec": {"taints": list(taints)},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}],
        },
    }


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Object:
    return {"key": key, "effect": effect, "value": value}


def priority_class(name: str, value: int, **fields: Any) -> Object:
    """`fields`: further ones of the class by their API names."""
    kind = {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1"}
    return {**kind, "metadata": {"name": name}, "value": value, **fields}


def pod_spec(cpu: str = "100m", memory: str = "200Mi", scheduler: str = SCHEDULER, **spec: Any) -> Object:
    container = {"name": "app", "image": IMAGE, "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "schedulerName": scheduler,
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        **spec,
    }


def pod(
    name: str,
    namespace: str,
    cpu: str = "100m",
    memory: str = "200Mi",
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    """`spec` holds further fields of the pod's spec by their API names; `scheduler` names who shall place it."""
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": pod_spec(cpu, memory, **spec)}


def deployment(name: str, namespace: str, replicas: int, **spec: Any) -> Object:
    labels = {"app": name}
    return {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(**spec)},
        },
    }


def job(name: str, namespace: str, completions: int, **spec: Any) -> Object:
    return {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "completions": completions,
            "parallelism": completions,
            "template": {"spec": {**pod_spec(**spec), "restartPolicy": "Never"}},
        },
    }
