"""Other nodes for a pod that has one: every node filtered and scored now, as if the pod had not been placed yet."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.cycle_context import Depth
from scheduler.engine.engine import Engine
from scheduler.engine.outcome import NotPlaced
from scheduler.engine.why_not import refusal_pages, why_not
from scheduler.messages.now import Now
from scheduler.objects.pod import Pod
from scheduler.objects.steps import Steps

MAX_ALTERNATIVES: Final = 10
"""Nodes listed, best first."""


def alternatives_in_slices(engine: Engine, info: PodInfo, now: Now, node: str = "") -> Steps[dict[str, Any]]:
    """The best nodes for a placed pod and one other ``node``, if asked; with pauses for a large pod. Raises KeyError
    for a profile that isn't ours.

    Everything counts as it is now, on a fork of the cluster that lacks this pod. Extenders are not asked.
    """
    cache = engine.cache.fork()
    cache.remove_pod(info.uid)
    pod = _unplaced(info.pod)
    profile = engine.profiles[info.pod.spec.scheduler_name]
    attempt, outcome = yield from engine.preview_in_steps(pod, now, Depth.SCORE_ALL, cache)
    best = sorted(attempt.total, key=lambda name: (-attempt.total[name], name != info.node_name, name))
    page: dict[str, Any] = {
        "feasibleNodes": len(attempt.total),
        "nodes": cache.view.total_nodes,
        "best": [score_entry(attempt, name) for name in best[:MAX_ALTERNATIVES]],
        "own": score_entry(attempt, info.node_name) if info.node_name in attempt.total else {"node": info.node_name},
    }
    if not attempt.total:
        page["message"] = outcome.message if isinstance(outcome, NotPlaced) else ""
    if node:
        page["asked"] = {"node": node}
        row = cache.table.existing_row(node)
        if row is None:
            page["asked"]["unknown"] = True
        elif node in attempt.total:
            page["asked"] |= score_entry(attempt, node) | {"rank": best.index(node) + 1}
        else:
            found = why_not(profile, PodInfo(pod, node_name=""), cache.view, np.array([row]))
            page["asked"]["refusals"] = refusal_pages(found, cache.table.names)
    return page


def score_entry(attempt: Attempt, node: str) -> dict[str, Any]:
    """A node's total and each plugin's weighted part of it."""
    scores = {plugin: of_node[node] for plugin, of_node in attempt.scores.items() if node in of_node}
    return {"node": node, "total": attempt.total[node], "scores": scores}


def _unplaced(pod: Pod) -> Pod:
    spec = msgspec.structs.replace(pod.spec, node_name="")
    return msgspec.structs.replace(pod, spec=spec, status=msgspec.structs.replace(pod.status, nominated_node_name=""))
