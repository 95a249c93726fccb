"""The disruption controller: computes how many pods of each budget may be disrupted."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, Final

from scheduler.simulate.apiserver import Registry
from scheduler.simulate.apiserver.kinds import (
    BUDGETS,
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from scheduler.simulate.apiserver.pods import disruption_conditions
from scheduler.simulate.apiserver.selectors import object_selector_matches
from scheduler.simulate.controllers.index import Dependents, controller_of
from scheduler.simulate.controllers.workloads import is_ready, is_terminating

Object = dict[str, Any]

DISRUPTION_SECONDS: Final = 120.0
"""Time for which a pod counts as disrupted while its deletion is not observed."""
_SCALED: Final = {
    kind.kind: kind for kind in (DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS)
}  # fmt: skip


def budget(registry: Registry, _: Dependents, obj: Object) -> None:
    """Writes the budget's status according to its present pods."""
    namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
    pods = matching_pods(registry, obj)
    disrupted = _still_disrupted(registry, obj, pods)
    healthy = [
        one for one in pods
        if is_ready(one) and not is_terminating(one) and one["metadata"]["name"] not in disrupted
    ]  # fmt: skip
    expected, desired = _wanted(registry, obj, pods)
    status: Object = {
        **obj["status"], "observedGeneration": obj["metadata"]["generation"], "expectedPods": expected,
        "currentHealthy": len(healthy), "desiredHealthy": desired,
        "disruptionsAllowed": max(0, len(healthy) - desired) if expected > 0 else 0,
    }  # fmt: skip
    status.pop("disruptedPods", None)
    if disrupted:
        status["disruptedPods"] = disrupted
    status["conditions"] = disruption_conditions(status, obj["metadata"]["generation"], registry.timestamp())
    registry.change(BUDGETS, namespace, name, lambda old: {**old, "status": status})


def matching_pods(registry: Registry, obj: Object) -> list[Object]:
    selector, namespace = obj["spec"].get("selector"), obj["metadata"]["namespace"]
    return [
        pod for pod in registry.store.list(PODS, namespace)
        if object_selector_matches(selector, pod["metadata"].get("labels") or {})
    ]  # fmt: skip


def _still_disrupted(registry: Registry, obj: Object, pods: list[Object]) -> dict[str, str]:
    here = {pod["metadata"]["name"] for pod in pods if not is_terminating(pod)}
    now = registry.now()
    return {
        name: since
        for name, since in (obj["status"].get("disruptedPods") or {}).items()
        if name in here and (now - datetime.fromisoformat(since)).total_seconds() < DISRUPTION_SECONDS
    }


def _wanted(registry: Registry, obj: Object, pods: list[Object]) -> tuple[int, int]:
    """(number of expected pods, required number of healthy pods)."""
    spec = obj["spec"]
    unavailable, minimum = spec.get("maxUnavailable"), spec.get("minAvailable", 1)
    if unavailable is not None:
        expected = _expected(registry, pods)
        return expected, max(0, expected - _share(unavailable, expected))
    if isinstance(minimum, str):
        expected = _expected(registry, pods)
        return expected, _share(minimum, expected)
    return len(pods), int(minimum)


def _share(value: int | str, whole: int) -> int:
    """A count as it is, a percentage of ``whole`` rounded up."""
    return math.ceil(int(value.rstrip("%")) * whole / 100) if isinstance(value, str) else value


def _expected(registry: Registry, pods: list[Object]) -> int:
    """The desired replicas of the pods' controllers, plus the pods without a controller."""
    scales: dict[str, int] = {}
    for pod in pods:
        uid, replicas = pod["metadata"]["uid"], 1
        reference = controller_of(pod)
        while reference is not None and reference["kind"] in _SCALED:
            kind = _SCALED[reference["kind"]]
            owner = registry.store.get(kind, pod["metadata"]["namespace"], reference["name"])
            if owner is None:
                break
            uid, replicas, reference = owner["metadata"]["uid"], int(owner["spec"]["replicas"]), controller_of(owner)
        scales[uid] = replicas
    return sum(scales.values())
