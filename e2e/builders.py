"""Objects as a client sends them to the API server, with only what a test wants to say spelled out.

Pods and nodes are those of `scheduler.testing`, without what the API server sets itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from scheduler.testing.documents import node_json, pod_json

Object = dict[str, Any]

SCHEDULER: Final = "tandem-scheduler"
IMAGE: Final = "pause"
PRETENDED: Final = {"kwok.x-k8s.io/node": "fake"}
"""KWOK on a shared cluster plays the kubelet for nodes with this annotation only."""
STORAGE: Final = {"ephemeral-storage": "100Gi"}
SET_BY_THE_SERVER: Final = ("uid", "creationTimestamp")


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
    document = node_json(
        name,
        cpu=cpu,
        memory=memory,
        pods=pods,
        labels=labels,
        taints=taints,
        annotations=PRETENDED,
        allocatable=STORAGE,
    )
    return _as_sent(document)


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Object:
    return {"key": key, "effect": effect, "value": value}


def priority_class(name: str, value: int, **fields: Any) -> Object:
    """`fields`: further ones of the class by their API names."""
    kind = {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1"}
    return {**kind, "metadata": {"name": name}, "value": value, **fields}


def pod(
    name: str,
    namespace: str,
    cpu: str = "100m",
    memory: str = "200Mi",
    labels: dict[str, str] | None = None,
    scheduler: str = SCHEDULER,
    **spec: Any,
) -> Object:
    """`spec` holds further fields of the pod's spec by their API names."""
    own = {"terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False}
    document = pod_json(
        name,
        namespace=namespace,
        cpu=cpu,
        memory=memory,
        labels=labels or {},
        scheduler=scheduler,
        image=IMAGE,
        spec=own | spec,
    )
    del document["status"]
    return _as_sent(document)


def pod_spec(**spec: Any) -> Object:
    """The spec of `pod`, for a template."""
    document: Object = pod("", "", **spec)["spec"]
    return document


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


def _as_sent(document: Object) -> Object:
    metadata = {name: value for name, value in document["metadata"].items() if name not in SET_BY_THE_SERVER}
    return document | {"metadata": metadata}
