"""What the API server fills in of a pod's specification and of other objects, as far as decisions read it.

Requests from limits, the priority and the preemption policy of a class, the labels that terms of pod affinity name by
their keys, the two tolerations of nodes that are not ready, the scheduler's name. Admission webhooks are beyond it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.questions.names import shown
from scheduler.errors import SchedulerError
from scheduler.objects.kinds import Kind
from scheduler.objects.priority_class import PriorityClass
from scheduler.objects.resource_claims import EXACT_COUNT

Object = dict[str, Any]


class WrongManifest(SchedulerError):
    """A manifest that no pods can be made of; the text says why."""


class PriorityOfClass(msgspec.Struct, frozen=True):
    """What a pod gets from its priority class. ``preemption_policy`` None: the default."""

    value: int
    preemption_policy: str | None = None


_SYSTEM_CLASSES: Final[Mapping[str, PriorityOfClass]] = {
    "system-cluster-critical": PriorityOfClass(2_000_000_000),
    "system-node-critical": PriorityOfClass(2_000_001_000),
}
_BY_DEFAULT: Final = ""
"""The key, in place of a name, of the class of pods that name none."""
UNREADY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Keys of the taints of a node that is lost."""
_UNREADY_SECONDS: Final = 300
_HUGE_PAGES: Final = "hugepages-"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class Priorities:
    """Priority classes: those that the question states, and those of the pods that run or wait, since the classes
    themselves are not watched."""

    def __init__(self, known: Iterable[PodInfo] = (), stated: Sequence[PriorityClass] = ()) -> None:
        self._known = known
        self._found: dict[str, PriorityOfClass] | None = None
        self._stated = {one.name: PriorityOfClass(one.value, one.preemption_policy) for one in stated}
        if defaults := [one for one in stated if one.global_default]:
            self._stated[_BY_DEFAULT] = self._stated[min(defaults, key=lambda one: one.value).name]

    def of(self, manifest: Mapping[str, Any]) -> dict[str, PriorityOfClass]:
        """Each class by its name, if the manifest needs one: else no pod is searched. Searched once."""
        if b"priorityClassName" not in msgspec.json.encode(manifest):
            return self._stated
        if self._found is None:
            of_pods = {
                info.pod.spec.priority_class_name: PriorityOfClass(info.priority, info.pod.spec.preemption_policy)
                for info in self._known
                if info.pod.spec.priority_class_name
            }
            self._found = {**of_pods, **self._stated}
        return self._found


def admitted(
    spec: Object, labels: Mapping[str, str], priorities: Mapping[str, PriorityOfClass], scheduler_name: str
) -> Object:
    """The specification as it comes out of admission. A node's name is dropped: the question is where it would go.
    ``labels``: the pod's. Raises WrongManifest."""
    filled = {**spec, "schedulerName": spec.get("schedulerName") or scheduler_name}
    filled.pop("nodeName", None)
    host_network = bool(spec.get("hostNetwork"))
    for field in ("containers", "initContainers"):
        if spec.get(field):
            filled[field] = [_container(one, host_network) for one in spec[field]]
    if spec.get("resources"):
        filled["resources"] = _pod_resources(spec["resources"], filled)
    if spec.get("affinity"):
        filled["affinity"] = _affinity(spec["affinity"], labels)
    known = _class_of(spec, priorities)
    if known is not None:
        if spec.get("priority") is None:
            filled["priority"] = known.value
        if known.preemption_policy is not None and spec.get("preemptionPolicy") is None:
            filled["preemptionPolicy"] = known.preemption_policy
    tolerations = spec.get("tolerations") or []
    missing = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _UNREADY_SECONDS}
        for key in UNREADY
        if not any(one.get("key", key) == key and one.get("effect") in (None, "", "NoExecute") for one in tolerations)
    ]
    filled["tolerations"] = [*tolerations, *missing]
    return filled


def _class_of(spec: Object, priorities: Mapping[str, PriorityOfClass]) -> PriorityOfClass | None:
    """The class that the specification names, or the default one. Raises WrongManifest."""
    name = spec.get("priorityClassName") or _BY_DEFAULT
    known = priorities.get(name) or _SYSTEM_CLASSES.get(name)
    if known is None and name and spec.get("priority") is None:
        raise WrongManifest(
            f"the value of priorityClassName {shown(str(name))} is not known here: no pod of it runs; "
            "state spec.priority"
        )
    return known


def is_claim_template(document: Object) -> bool:
    return document.get("kind") == "ResourceClaimTemplate"


def with_defaults(kind: Kind, document: Object, priorities: Mapping[str, PriorityOfClass]) -> Object:
    """An object other than a pod as the API server and the controllers keep it. Raises WrongManifest."""
    metadata, spec, status = (document.get(field) or {} for field in ("metadata", "spec", "status"))
    if kind is Kind.NODE and "capacity" in status:
        return {**document, "status": {"allocatable": status["capacity"], **status}}
    if kind is Kind.POD_GROUP and spec.get("priorityClassName") and spec.get("priority") is None:
        known = _class_of(spec, priorities)
        return document if known is None else {**document, "spec": {**spec, "priority": known.value}}
    if kind is Kind.NAMESPACE:
        labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata.get("name")}
        return {**document, "metadata": {**metadata, "labels": labels}}
    if kind is Kind.PERSISTENT_VOLUME and not status.get("phase"):
        return {**document, "status": {**status, "phase": "Available"}}  # as the volume controller does
    if kind is Kind.STORAGE_CLASS:
        return {"volumeBindingMode": "Immediate", **document}
    if kind is Kind.REPLICATION_CONTROLLER and not spec.get("selector"):
        template = (spec.get("template") or {}).get("metadata") or {}
        return {**document, "spec": {**spec, "selector": template.get("labels")}}
    if kind is Kind.RESOURCE_CLAIM:
        devices = spec.get("devices") or {}
        requests = [_device_request(one) for one in devices.get("requests") or ()]
        return {**document, "spec": {**spec, "devices": {**devices, "requests": requests}}}
    return document


def _device_request(request: Object) -> Object:
    filled = dict(request)
    if request.get("exactly"):
        filled["exactly"] = _counted(request["exactly"])
    if request.get("firstAvailable"):
        filled["firstAvailable"] = [_counted(one) for one in request["firstAvailable"]]
    return filled


def _counted(asked: Object) -> Object:
    mode = asked.get("allocationMode") or EXACT_COUNT
    return {**asked, "allocationMode": mode, "count": asked.get("count") or (1 if mode == EXACT_COUNT else 0)}


def _container(container: Object, host_network: bool) -> Object:
    filled = dict(container)
    resources = container.get("resources") or {}
    if resources.get("limits"):
        requests = {**resources["limits"], **(resources.get("requests") or {})}
        filled["resources"] = {**resources, "requests": requests}
    if host_network and container.get("ports"):
        filled["ports"] = [{"hostPort": port.get("containerPort"), **port} for port in container["ports"]]
    return filled


def _pod_resources(resources: Object, spec: Object) -> Object:
    """The pod's own resources: a limit stands in for a request that neither it nor a container states."""
    requests = dict(resources.get("requests") or {})
    stated = {
        name
        for field in ("containers", "initContainers")
        for container in spec.get(field) or ()
        for name in (container.get("resources") or {}).get("requests") or ()
    }
    for name, limit in (resources.get("limits") or {}).items():
        if name.startswith(_HUGE_PAGES) or (name in ("cpu", "memory") and name not in stated):
            requests.setdefault(name, limit)
    return {**resources, "requests": requests}


def _affinity(affinity: Object, labels: Mapping[str, str]) -> Object:
    """With ``matchLabelKeys`` and ``mismatchLabelKeys`` as expressions of the terms' selectors."""
    filled = dict(affinity)
    for kind in ("podAffinity", "podAntiAffinity"):
        part = dict(affinity.get(kind) or {})
        if terms := part.get(_REQUIRED):
            part[_REQUIRED] = [_term(one, labels) for one in terms]
        if weighted := part.get(_PREFERRED):
            part[_PREFERRED] = [
                {**one, "podAffinityTerm": _term(one.get("podAffinityTerm") or {}, labels)} for one in weighted
            ]
        if part:
            filled[kind] = part
    return filled


def _term(term: Object, labels: Mapping[str, str]) -> Object:
    selector = term.get("labelSelector")
    # A term without a selector matches no pod, whatever its keys.
    if selector is None:
        return term
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(field) or ()
        if key in labels
    ]
    if not added:
        return term
    expressions = [*(selector.get("matchExpressions") or ()), *added]
    return {**term, "labelSelector": {**selector, "matchExpressions": expressions}}
