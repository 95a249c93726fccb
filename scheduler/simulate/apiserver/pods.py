"""The pod subresources binding and eviction."""

from __future__ import annotations

from typing import Any, Final

from scheduler.simulate.apiserver import failures
from scheduler.simulate.apiserver.deletion import DeleteOptions
from scheduler.simulate.apiserver.kinds import BUDGETS, PODS
from scheduler.simulate.apiserver.registry import Registry, uid_conflict
from scheduler.simulate.apiserver.selectors import object_selector_matches

Object = dict[str, Any]

_BUDGET_VIOLATED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL_BUDGETS: Final = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)
_PROCESSING_RETRY_SECONDS: Final = 10


def bind(registry: Registry, namespace: str, name: str, binding: Object) -> None:
    """Binds a pod to a node. Raises 404, or 409 if it is bound, gated, terminating, or another pod."""
    sent = binding.get("metadata") or {}
    if sent.get("name") != name:
        raise failures.bad_request("name in URL does not match name in Binding object")
    target = binding.get("target") or {}
    if target.get("kind") not in (None, "", "Node"):
        text = f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
        raise failures.Failure(500, "", text)
    if not target.get("name"):
        raise failures.Failure(500, "", "target.name: Required value")
    current = registry.stored(PODS, namespace, name)
    pod = current.object
    if sent.get("uid") and sent["uid"] != pod["metadata"]["uid"]:
        raise uid_conflict(PODS, current, sent["uid"])
    if sent.get("resourceVersion") and sent["resourceVersion"] != pod["metadata"]["resourceVersion"]:
        raise failures.modified(PODS, name)
    if "deletionTimestamp" in pod["metadata"]:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
        raise failures.conflict(PODS, name, why, "binding")
    if pod["spec"].get("nodeName"):
        why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        raise failures.conflict(PODS, name, why, "binding")
    if pod["spec"].get("schedulingGates"):
        raise failures.conflict(PODS, name, f"pod {name} has non-empty .spec.schedulingGates", "binding")
    registry.store.put(PODS, namespace, name, _bound(pod, target["name"], sent, registry.timestamp()))


def _bound(pod: Object, node: str, binding_metadata: Object, now: str) -> Object:
    metadata = {**pod["metadata"]}
    for field in ("labels", "annotations"):
        if binding_metadata.get(field):
            metadata[field] = {**metadata.get(field, {}), **binding_metadata[field]}
    status = {key: value for key, value in pod["status"].items() if key != "nominatedNodeName"}
    status["conditions"] = with_condition(
        status.get("conditions") or [], {"type": "PodScheduled", "status": "True"}, now
    )
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}, "status": status}


def with_condition(conditions: list[Object], condition: Object, now: str) -> list[Object]:
    """The conditions with this one set; its transition time changes only with its status."""
    fresh = {"lastProbeTime": None, "lastTransitionTime": now, **condition}
    for index, one in enumerate(conditions):
        if one["type"] == condition["type"]:
            if one.get("status") == condition["status"]:
                fresh["lastTransitionTime"] = one.get("lastTransitionTime", now)
            return [*conditions[:index], fresh, *conditions[index + 1 :]]
    return [*conditions, fresh]


def evict(registry: Registry, namespace: str, name: str, eviction: Object) -> None:
    """Deletes a pod unless its disruption budget forbids it: then raises 429, with the budget named in the cause.

    As in kube-apiserver 1.36, an eviction whose preconditions fail still consumes its share of the budget.
    """
    sent = (eviction.get("metadata") or {}).get("name")
    if sent and sent != name:
        raise failures.bad_request("name in URL does not match name in Eviction object")
    pod = registry.stored(PODS, namespace, name).object
    options = DeleteOptions.read(eviction.get("deleteOptions") or {}, {})
    if not _beyond_budgets(pod):
        _take_from_budget(registry, namespace, pod)
    options.check(PODS, registry.stored(PODS, namespace, name))
    condition = {
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }  # fmt: skip

    def condemned(current: Object) -> Object:
        status = current.get("status", {})
        conditions = with_condition(status.get("conditions") or [], condition, registry.timestamp())
        return {**current, "status": {**status, "conditions": conditions}}

    if not _finished(pod):
        registry.change(PODS, namespace, name, condemned)
    unconditional = DeleteOptions(grace_seconds=options.grace_seconds, propagation=options.propagation)
    registry.delete(PODS, namespace, name, unconditional)


def _finished(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _beyond_budgets(pod: Object) -> bool:
    pending = pod.get("status", {}).get("phase") == "Pending"
    return pending or _finished(pod) or "deletionTimestamp" in pod["metadata"]


def _take_from_budget(registry: Registry, namespace: str, pod: Object) -> None:
    labels = pod["metadata"].get("labels") or {}
    budgets = [
        one for one in registry.store.list(BUDGETS, namespace)
        if object_selector_matches(one["spec"].get("selector"), labels)
    ]  # fmt: skip
    if not budgets:
        return
    if len(budgets) > 1:
        raise failures.Failure(500, "InternalError", f"Internal error occurred: {_SEVERAL_BUDGETS}",
                               {"causes": [{"message": _SEVERAL_BUDGETS}]})  # fmt: skip
    budget = budgets[0]
    status, name = budget["status"], budget["metadata"]["name"]
    if not _ready(pod):
        always = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        healthy = status["currentHealthy"] >= status["desiredHealthy"] and status["desiredHealthy"] > 0
        if always or healthy:
            return
    if status.get("observedGeneration", 0) < budget["metadata"]["generation"]:
        cause = f"The disruption budget {name} is still being processed by the server."
        raise _budget_refuses(cause, _PROCESSING_RETRY_SECONDS)
    if status["disruptionsAllowed"] <= 0:
        wanted, current = status["desiredHealthy"], status["currentHealthy"]
        if current > wanted:
            raise _budget_refuses(f"The disruption budget {name} does not allow evicting pods currently")
        raise _budget_refuses(f"The disruption budget {name} needs {wanted} healthy pods and has {current} currently")
    registry.change(BUDGETS, namespace, name, lambda one: _disrupted(one, pod, registry.timestamp()))


def _budget_refuses(cause: str, retry_after: int = 0) -> failures.Failure:
    return failures.too_many_requests(_BUDGET_VIOLATED, [{"reason": "DisruptionBudget", "message": cause}], retry_after)


def _disrupted(budget: Object, pod: Object, now: str) -> Object:
    status = budget["status"]
    allowed = status["disruptionsAllowed"] - 1
    disrupted = {**status.get("disruptedPods", {}), pod["metadata"]["name"]: now}
    fresh = {**status, "disruptionsAllowed": allowed, "disruptedPods": disrupted}
    fresh["conditions"] = disruption_conditions(fresh, budget["metadata"]["generation"], now)
    return {**budget, "status": fresh}


def disruption_conditions(status: Object, generation: int, now: str) -> list[Object]:
    """The DisruptionAllowed condition for a budget's status."""
    allowed = status["disruptionsAllowed"] > 0
    fresh = {
        "type": "DisruptionAllowed", "status": "True" if allowed else "False", "observedGeneration": generation,
        "lastTransitionTime": now, "reason": "SufficientPods" if allowed else "InsufficientPods", "message": "",
    }  # fmt: skip
    conditions = status.get("conditions") or []
    for one in conditions:
        if one["type"] == fresh["type"] and one["status"] == fresh["status"]:
            fresh["lastTransitionTime"] = one["lastTransitionTime"]
    return [*(one for one in conditions if one["type"] != fresh["type"]), fresh]


def _ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
