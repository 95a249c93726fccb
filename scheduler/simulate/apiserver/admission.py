"""Admission of new pods (priority, tolerations, first status), and the check of an object's namespace."""

from __future__ import annotations

from typing import Any, Final

from scheduler.objects import quantity
from scheduler.simulate.apiserver import defaults, failures, kinds
from scheduler.simulate.apiserver.store import Store

Object = dict[str, Any]

SYSTEM_PRIORITY_CLASSES: Final = (
    (
        "system-cluster-critical", 2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical", 2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
)  # fmt: skip

_QOS_RESOURCES: Final = ("cpu", "memory")


def require_open_namespace(store: Store, kind: kinds.Kind, namespace: str, name: str) -> None:
    """Refuses a new object in a namespace that does not exist (404) or is being terminated (403)."""
    found = store.get(kinds.NAMESPACES, "", namespace)
    if found is None:
        raise failures.not_found(kinds.NAMESPACES, namespace)
    if "deletionTimestamp" in found["metadata"]:
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = {
            "reason": "NamespaceTerminating", "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }  # fmt: skip
        raise failures.forbidden(kind, name, why, [cause])


def admit_pod(store: Store, pod: Object, now: str) -> Object:
    """The pod with priority, tolerations and first status; raises 403 as the admission plugins do."""
    spec = defaults.eviction_tolerations(_with_priority(store, pod))
    return {**pod, "spec": spec, "status": first_status(spec, now)}


def _with_priority(store: Store, pod: Object) -> Object:
    spec: Object = pod["spec"]
    name = spec.get("priorityClassName")
    value, policy = 0, "PreemptLowerPriority"
    if name:
        found = store.get(kinds.PRIORITY_CLASSES, "", name)
        if found is None:
            why = f"no PriorityClass with name {name} was found"
            raise failures.forbidden(kinds.PODS, pod["metadata"]["name"], why)
        value, policy = found["value"], found.get("preemptionPolicy", policy)
    else:
        chosen = [one for one in store.list(kinds.PRIORITY_CLASSES) if one.get("globalDefault")]
        if chosen:
            lowest = min(chosen, key=lambda one: int(one["value"]))
            value, policy = lowest["value"], lowest.get("preemptionPolicy", policy)
            spec = {**spec, "priorityClassName": lowest["metadata"]["name"]}
    sent = spec.get("priority")
    if sent is not None and sent != value:
        why = (
            f"the integer value of priority ({sent}) must not be provided in pod spec; priority admission controller "
            f"computed {value} from the given PriorityClass name"
        )
        raise failures.forbidden(kinds.PODS, pod["metadata"]["name"], why)
    if spec.get("preemptionPolicy", policy) != policy:
        why = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )
        raise failures.forbidden(kinds.PODS, pod["metadata"]["name"], why)
    return {**spec, "priority": value, "preemptionPolicy": policy}


def first_status(spec: Object, now: str) -> Object:
    """The status of a new pod: pending, its QoS class, and the condition of a gated pod."""
    status: Object = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled", "status": "False", "lastProbeTime": None, "lastTransitionTime": now,
                "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]  # fmt: skip
    return {**status, "qosClass": qos_class(spec)}


def qos_class(spec: Object) -> str:
    """BestEffort: no request or limit of CPU or memory; Guaranteed: both everywhere, and equal; else Burstable."""
    whole = spec.get("resources")
    asking = [whole] if whole else [
        one.get("resources") or {} for one in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    ]  # fmt: skip
    guaranteed, anything = True, False
    for resources in asking:
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in _QOS_RESOURCES:
            request = quantity.parse(requests[name]) if name in requests else 0
            limit = quantity.parse(limits[name]) if name in limits else 0
            anything = anything or request > 0 or limit > 0
            guaranteed = guaranteed and limit > 0 and request == limit
    if not anything:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
