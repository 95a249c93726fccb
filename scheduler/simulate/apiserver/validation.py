"""Validation of objects, as far as it matters to clients of a scheduler: names, required and immutable fields."""

from __future__ import annotations

import re
from typing import Any, Final

from scheduler.simulate.apiserver import kinds, pod_groups
from scheduler.simulate.apiserver.failures import (
    Cause,
    forbidden_value,
    invalid,
    invalid_value,
    required,
    unsupported_value,
)
from scheduler.simulate.apiserver.kinds import Kind

Object = dict[str, Any]

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL_NAMED: Final = frozenset({kinds.NAMESPACES.resource})
_LABEL_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_POD_UPDATE_TEXT: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")


def check_new(kind: Kind, obj: Object) -> None:
    """Raises 422 for an object that the API server would not create."""
    causes = [*_metadata(kind, obj["metadata"]), *_content(kind, obj)]
    if causes:
        named = kinds.CORE_EVENTS if kind is kinds.EVENTS else kind
        raise invalid(named, obj["metadata"].get("name", ""), causes)


def check_update(kind: Kind, old: Object, new: Object) -> None:
    """Raises 422 for a change that the API server would refuse."""
    causes = list(_label_values(new["metadata"]))
    if kind is kinds.PODS and old["spec"] != new["spec"]:
        causes += _new_gates(old["spec"], new["spec"])
        causes += _lost_tolerations(old["spec"], new["spec"])
        if not causes and not _pod_change_allowed(old["spec"], new["spec"]):
            causes.append(forbidden_value("spec", _POD_UPDATE_TEXT))
    elif kind in (kinds.DEPLOYMENTS, kinds.REPLICA_SETS, kinds.STATEFUL_SETS, kinds.DAEMON_SETS, kinds.JOBS):
        if old["spec"].get("selector") != new["spec"].get("selector"):
            causes.append(invalid_value("spec.selector", new["spec"].get("selector"), "field is immutable"))
    elif kind is kinds.POD_GROUPS:
        causes += pod_groups.check_update(old["spec"], new["spec"])
    elif kind is kinds.PRIORITY_CLASSES and old.get("value") != new.get("value"):
        causes.append(forbidden_value("value", "may not be changed in an update."))
    causes += _content(kind, new)
    if causes:
        raise invalid(kind, new["metadata"]["name"], causes)


def check_status(kind: Kind, old: Object, new: Object) -> None:
    """Raises 422 for an invalid change of a pod's status."""
    if kind is not kinds.PODS:
        return
    before, after = old.get("status", {}).get("qosClass"), new.get("status", {}).get("qosClass")
    if before != after:
        raise invalid(
            kind, new["metadata"]["name"], [invalid_value("status.qosClass", after or "", "field is immutable")]
        )


def _metadata(kind: Kind, metadata: Object) -> list[Cause]:
    name = metadata.get("name", "")
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    causes: list[Cause] = []
    if kind.resource in _LABEL_NAMED:
        if not _LABEL.fullmatch(name):
            causes.append(invalid_value("metadata.name", name, _LABEL_TEXT))
    elif not _SUBDOMAIN.fullmatch(name):
        causes.append(invalid_value("metadata.name", name, _SUBDOMAIN_TEXT))
    return [*causes, *_label_values(metadata)]


def _label_values(metadata: Object) -> list[Cause]:
    return [
        invalid_value("metadata.labels", value, _LABEL_VALUE_TEXT)
        for value in (metadata.get("labels") or {}).values()
        if not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value)
    ]


def _content(kind: Kind, obj: Object) -> list[Cause]:
    if kind is kinds.PODS:
        spec = obj.get("spec") or {}
        return [*_pod_spec("spec", spec), *pod_groups.check_name_in(spec)]
    if kind is kinds.POD_GROUPS:
        return pod_groups.check(obj.get("spec") or {})
    if kind is kinds.EVENTS and not obj.get("eventTime"):
        return [required("eventTime")]
    if kind in (kinds.DEPLOYMENTS, kinds.REPLICA_SETS, kinds.STATEFUL_SETS, kinds.DAEMON_SETS):
        return _workload(obj.get("spec") or {})
    if kind is kinds.STORAGE_CLASSES and not obj.get("provisioner"):
        return [required("provisioner")]
    return []


def _pod_spec(field: str, spec: Object) -> list[Cause]:
    containers = spec.get("containers") or []
    causes = [] if containers else [required(f"{field}.containers")]
    for index, container in enumerate(containers):
        if not container.get("name"):
            causes.append(required(f"{field}.containers[{index}].name"))
        if not container.get("image"):
            causes.append(required(f"{field}.containers[{index}].image"))
    if spec.get("restartPolicy") not in _RESTART_POLICIES:
        supported = tuple(sorted(_RESTART_POLICIES))
        causes.append(unsupported_value(f"{field}.restartPolicy", spec.get("restartPolicy"), supported))
    return causes


def _workload(spec: Object) -> list[Cause]:
    selector = spec.get("selector")
    template = spec.get("template") or {}
    labels = template.get("metadata", {}).get("labels") or {}
    causes = [] if selector else [required("spec.selector")]
    wanted = (selector or {}).get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        text = "`selector` does not match template `labels`"
        causes.append(invalid_value("spec.template.metadata.labels", labels, text))
    return [*causes, *_pod_spec("spec.template.spec", template.get("spec") or {})]


def _new_gates(old: Object, new: Object) -> list[Cause]:
    before = old.get("schedulingGates") or []
    return [
        forbidden_value(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for index, gate in enumerate(new.get("schedulingGates") or ())
        if gate not in before
    ]


def _lost_tolerations(old: Object, new: Object) -> list[Cause]:
    kept = [{**one, "tolerationSeconds": None} for one in new.get("tolerations") or ()]
    if all({**one, "tolerationSeconds": None} in kept for one in old.get("tolerations") or ()):
        return []
    text = "existing toleration can not be modified except its tolerationSeconds"
    return [forbidden_value("spec.tolerations", text)]


def _pod_change_allowed(old: Object, new: Object) -> bool:
    gated = bool(old.get("schedulingGates"))
    free = {"activeDeadlineSeconds", "tolerations", "schedulingGates"} | (
        {"nodeSelector", "affinity"} if gated else set()
    )
    for field in old.keys() | new.keys():
        before, after = old.get(field), new.get(field)
        if before == after or field in free:
            continue
        match field:
            case "containers" | "initContainers":
                allowed = len(before or ()) == len(after or ()) and all(
                    {**one, "image": ""} == {**other, "image": ""}
                    for one, other in zip(before or (), after or (), strict=True)
                )
            case "terminationGracePeriodSeconds":
                allowed = before is not None and before < 0 and after == 1
            case _:
                allowed = False
        if not allowed:
            return False
    return True
