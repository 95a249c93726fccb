"""Nodes in zones, and pods that want to be near others or away from them, for the tests of InterPodAffinity."""

from __future__ import annotations

from typing import Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.node import Node
from scheduler.plugins.affinity.inter_pod_affinity import InterPodAffinity
from scheduler.testing.fragments import affinity_json
from scheduler.testing.objects import node, pod
from tests.plugins.clusters import info

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WEB = {"app": "web"}
AFFINITY = ("node(s) didn't match pod affinity rules",)
ANTI_AFFINITY = ("node(s) didn't match pod anti-affinity rules",)
EXISTING = ("node(s) didn't satisfy existing pods anti-affinity rules",)

PLUGIN = InterPodAffinity()


def zones(*zones: str | None) -> list[Node]:
    return [node(f"n{index}", zone=zone) for index, zone in enumerate(zones)]


def asking(labels: dict[str, str] | None = None, namespace: str = "default", **affinity: Any) -> PodInfo:
    return info(labels=labels or {}, namespace=namespace, affinity=affinity_json(**affinity))


def placed(name: str, node_name: str = "n0", labels: dict[str, str] | None = None, **fields: Any) -> Any:
    affinity = {key: fields.pop(key) for key in list(fields) if key.endswith(("required", "preferred"))}
    return pod(
        name,
        node=node_name,
        labels=WEB if labels is None else labels,
        affinity=affinity_json(**affinity) if affinity else None,
        **fields,
    )
