"""Labels and spec of a scenario's pods, by their number."""

from __future__ import annotations

from typing import Any, Final

from e2e.bench.claims import HOST, ZONE
from scheduler.testing.fragments import affinity_json, node_term, pod_term, spread_json

ZONES: Final = 10
DEPLOYMENTS: Final = 300


def plain(index: int) -> dict[str, Any]:
    return {}


def spread_over_zones_and_hosts(index: int) -> dict[str, Any]:
    labels = {"app": f"a{index % 10}"}
    return {
        "labels": labels,
        "topologySpreadConstraints": [spread_json(ZONE, labels), spread_json(HOST, labels, soft=True)],
    }


def apart_from_its_group(index: int) -> dict[str, Any]:
    labels = _group(index, 2500)
    return {"labels": labels, "affinity": affinity_json(anti_required=[pod_term(labels, HOST)])}


def with_its_group_in_one_zone(index: int) -> dict[str, Any]:
    labels = _group(index, 100)
    return {"labels": labels, "affinity": affinity_json(required=[pod_term(labels, ZONE)])}


def rather_in_one_zone(index: int) -> dict[str, Any]:
    return {"affinity": affinity_json(node_preferred=[(10, node_term(f"{ZONE} In zone-{index % ZONES}"))])}


def of_a_daemon_set(number: int, node: str) -> dict[str, Any]:
    """As the controller of DaemonSets makes it: for one node, by its name."""
    tolerated = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
    return {
        "labels": {"app": f"agent-{number}"},
        "affinity": affinity_json(node_required=[node_term(fields=[f"metadata.name In {node}"])]),
        "tolerations": [tolerated],
    }


def one_of_many_deployments(index: int) -> dict[str, Any]:
    """Five kinds of pods in turn: plain, spread, apart, together, picky; requests differ by deployment."""
    number = index % DEPLOYMENTS
    labels = {"app": f"app-{number}"}
    kinds: tuple[dict[str, Any], ...] = (
        {},
        {"topologySpreadConstraints": [spread_json(ZONE, labels)]},
        {"affinity": affinity_json(anti_preferred=[(50, pod_term(labels, HOST))])},
        {"affinity": affinity_json(required=[pod_term(labels, ZONE)])},
        {"nodeSelector": {ZONE: f"zone-{number % ZONES}"}},
    )
    return {"labels": labels, "cpu": f"{50 + 10 * (number % 20)}m", **kinds[number % len(kinds)]}


def _group(index: int, size: int) -> dict[str, str]:
    return {"group": f"g{index // size}"}
