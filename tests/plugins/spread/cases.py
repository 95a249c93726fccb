"""What the tests of PodTopologySpread share: nodes in zones, pods that spread."""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.plugin import State
from scheduler.framework.shortcuts import Fitting
from scheduler.messages.status import SKIP
from scheduler.objects.node import Node
from scheduler.plugins.spread.pod_topology_spread import (
    PodTopologySpread,
)
from scheduler.testing.objects import node, pod
from tests.plugins.clusters import info

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WEB = {"app": "web"}
UNEVEN = ("node(s) didn't match pod topology spread constraints",)
MISSING = ("node(s) didn't match pod topology spread constraints (missing required label)",)
DELETED = "2026-01-01T00:00:00Z"

PLUGIN = PodTopologySpread()


def web(name: str, node_name: str, **fields: Any) -> Any:
    return pod(name, node=node_name, **{"labels": WEB, **fields})


def zones(*zones: str | None) -> list[Node]:
    return [node(f"n{index}", zone=zone) for index, zone in enumerate(zones)]


def asking(*constraints: dict[str, Any], **fields: Any) -> PodInfo:
    return info(spread=constraints, **{"labels": WEB, **fields})


def normalized(pod: PodInfo, view: View, rows: list[int] | None = None, plugin: PodTopologySpread = PLUGIN) -> Any:
    """Node name -> score, None where the plugin skips; ``rows``: the feasible ones. Asked by group, too."""
    feasible = view.ordered_rows if rows is None else np.array(rows)
    state = plugin.pre_score(pod, view, feasible)
    if state is SKIP:
        return None
    assert isinstance(state, State)
    scores = plugin.normalize(state, plugin.score(state, pod, view, feasible), view, feasible)
    codes = np.ones(view.table.size, np.int16)
    codes[feasible] = 0
    by_group = plugin.score_by_group(state, pod, view, Fitting(codes, len(feasible), version=1))
    if by_group is not None:
        assert by_group.finals[by_group.groups[feasible]].tolist() == scores.tolist()
    return {view.table.names[row]: score for row, score in zip(feasible.tolist(), scores.tolist(), strict=True)}
