"""PodGroups of ``scheduling.k8s.io/v1alpha2``: defaults, admission and validation, as kube-apiserver 1.36 has them.

As with all its feature gates for groups on.
"""

from __future__ import annotations

from typing import Any, Final

from scheduler.simulate.apiserver import failures, kinds
from scheduler.simulate.apiserver.failures import Cause, invalid_value, required, unsupported_value
from scheduler.simulate.apiserver.store import Store

Object = dict[str, Any]

FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"
_POLICIES: Final = ("basic", "gang")
_MODES: Final = ("Pod", "PodGroup")


def fill(group: Object) -> Object:
    """The group with defaults."""
    return {**group, "spec": {"disruptionMode": "Pod", **(group.get("spec") or {})}}


def admit(store: Store, group: Object) -> Object:
    """The group with its priority and the finalizer that protects it; raises 403 as the admission plugins do."""
    finalizers = [*(group["metadata"].get("finalizers") or ()), FINALIZER]
    metadata = {**group["metadata"], "finalizers": list(dict.fromkeys(finalizers))}
    return {**group, "metadata": metadata, "spec": _with_priority(store, group)}


def _with_priority(store: Store, group: Object) -> Object:
    spec: Object = group["spec"]
    name, value = spec.get("priorityClassName"), 0
    if name:
        found = store.get(kinds.PRIORITY_CLASSES, "", name)
        if found is None:
            raise _refused(group, f"no PriorityClass with name {name} was found")
        value = found["value"]
    sent = spec.get("priority")
    if sent is not None and sent != value:
        why = (
            f"priority set in the pod group ({sent}) must match the priority computed ({value}) based on the priority "
            "class set in the spec"
        )
        raise _refused(group, why)
    return {**spec, "priority": value}


def _refused(group: Object, why: str) -> failures.Failure:
    return failures.forbidden(kinds.POD_GROUPS, group["metadata"]["name"], why)


def check(spec: Object) -> list[Cause]:
    """The faults of a group's specification."""
    causes = _policy(spec.get("schedulingPolicy") or {})
    topology = (spec.get("schedulingConstraints") or {}).get("topology") or []
    if len(topology) > 1:
        text = f"Too many: {len(topology)}: must have at most 1 item"
        causes.append(Cause("spec.schedulingConstraints.topology", "FieldValueTooMany", text))
    elif topology and not topology[0].get("key"):
        causes.append(required("spec.schedulingConstraints.topology[0].key"))
    if spec["disruptionMode"] not in _MODES:
        causes.append(unsupported_value("spec.disruptionMode", spec["disruptionMode"], _MODES))
    return causes


def _policy(policy: Object) -> list[Cause]:
    field = "spec.schedulingPolicy"
    stated = [name for name in _POLICIES if policy.get(name) is not None]
    if not stated:
        return [invalid_value(field, "", "must specify one of: `basic`, `gang`")]
    if len(stated) > 1:
        return [invalid_value(field, f"{{{', '.join(stated)}}}", "must specify exactly one of: `basic`, `gang`")]
    count = policy["gang"].get("minCount") if stated == ["gang"] else 1
    if not count:
        return [required(f"{field}.gang.minCount")]
    if count < 1:
        return [invalid_value(f"{field}.gang.minCount", count, "must be greater than or equal to 1")]
    return []


def check_update(old: Object, new: Object) -> list[Cause]:
    """The whole specification is immutable."""
    fields = [field for field in old | new if old.get(field) != new.get(field)]
    return [invalid_value(f"spec.{field}", None, "field is immutable") for field in fields]


def check_name_in(pod_spec: Object) -> list[Cause]:
    """The faults of a pod's ``schedulingGroup``."""
    group = pod_spec.get("schedulingGroup")
    if group is None or group.get("podGroupName"):
        return []
    return [invalid_value("spec.schedulingGroup.podGroupName", None, "must specify one of: `podGroupName`")]
