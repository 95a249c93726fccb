"""Tables for `kubectl get`: meta.k8s.io/v1 Tables with the usual columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

import msgspec

from scheduler.simulate.apiserver import kinds
from scheduler.simulate.apiserver.kinds import Kind
from scheduler.simulate.apiserver.selectors import selector_text

Object = dict[str, Any]
_NONE: Final = "<none>"


class Column(msgspec.Struct, frozen=True):
    """One column, with the function that renders a cell. Priority 1 is shown with `-o wide` only."""

    name: str
    cell: Callable[[Object, datetime], Any]
    priority: int = 0
    type: str = "string"


def table(kind: Kind, objects: Iterable[Object], metadata: Object, now: datetime, *, headed: bool = True) -> Object:
    """The Table of these objects (in this kind's form); later events of a watch have no column definitions."""
    columns = _COLUMNS.get(kind.resource, _NAME_AND_AGE)
    shown: Object = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    if headed:
        shown["columnDefinitions"] = [_definition(column) for column in columns]
    else:
        shown["columnDefinitions"] = None
    shown["rows"] = [
        {"cells": [column.cell(obj, now) for column in columns], "object": partial(obj)} for obj in objects
    ]
    return shown


def partial(obj: Object) -> Object:
    """The object's PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def _definition(column: Column) -> Object:
    style = "name" if column.name == "Name" else ""
    return {
        "name": column.name, "type": column.type, "format": style, "description": column.name,
        "priority": column.priority,
    }  # fmt: skip


def _name(obj: Object, _: datetime) -> str:
    return str(obj["metadata"]["name"])


def _since(stamp: str | None, now: datetime) -> str:
    return "<unknown>" if not stamp else duration((now - datetime.fromisoformat(stamp)).total_seconds())


def _age(obj: Object, now: datetime) -> str:
    return _since(obj["metadata"].get("creationTimestamp"), now)


def duration(seconds: float) -> str:
    """A duration in kubectl's format of ages: at most two units, coarser for longer ones."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86_400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d" if days < 730 else f"{days // 365}y{days % 365}d"


def _at(*path: str, default: Any = "") -> Callable[[Object, datetime], Any]:
    def cell(obj: Object, _: datetime) -> Any:
        found: Any = obj
        for step in path:
            found = (found or {}).get(step)
        return default if found is None else found

    return cell


def _pod_ready(pod: Object, _: datetime) -> str:
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return f"{sum(1 for one in statuses if one.get('ready'))}/{len(pod['spec'].get('containers') or ())}"


def _pod_status(pod: Object, _: datetime) -> str:
    status = pod.get("status", {})
    shown = str(status.get("reason") or status.get("phase") or "")
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            shown = "SchedulingGated"
    for one in status.get("containerStatuses") or ():
        state = one.get("state") or {}
        why = (state.get("waiting") or state.get("terminated") or {}).get("reason")
        shown = why or shown
    return "Terminating" if "deletionTimestamp" in pod["metadata"] else shown


def _restarts(pod: Object, _: datetime) -> str:
    return str(sum(one.get("restartCount", 0) for one in pod.get("status", {}).get("containerStatuses") or ()))


def _gates(pod: Object, _: datetime) -> str:
    gates = pod["spec"].get("readinessGates") or ()
    return f"0/{len(gates)}" if gates else _NONE


def _node_status(node: Object, _: datetime) -> str:
    ready = [one for one in node.get("status", {}).get("conditions") or () if one["type"] == "Ready"]
    shown = "Unknown" if not ready else "Ready" if ready[0]["status"] == "True" else "NotReady"
    return f"{shown},SchedulingDisabled" if node["spec"].get("unschedulable") else shown


def _node_roles(node: Object, _: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = sorted(key[len(prefix) :] for key in node["metadata"].get("labels") or {} if key.startswith(prefix))
    return ",".join(roles) or _NONE


def _address(wanted: str) -> Callable[[Object, datetime], str]:
    def cell(node: Object, _: datetime) -> str:
        addresses = node.get("status", {}).get("addresses") or ()
        return next((one["address"] for one in addresses if one["type"] == wanted), _NONE)

    return cell


def _node_info(field: str, default: str) -> Callable[[Object, datetime], str]:
    return lambda node, _: node.get("status", {}).get("nodeInfo", {}).get(field) or default


def _ready_replicas(obj: Object, _: datetime) -> str:
    return f"{obj.get('status', {}).get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}"


def _completions(job: Object, _: datetime) -> str:
    return f"{job.get('status', {}).get('succeeded', 0)}/{job['spec'].get('completions', 1)}"


def _job_status(job: Object, _: datetime) -> str:
    held = [one["type"] for one in job.get("status", {}).get("conditions") or () if one["status"] == "True"]
    return next((name for name in ("Complete", "Failed", "Suspended") if name in held), "Running")


def _event_object(event: Object, _: datetime) -> str:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _event_age(event: Object, now: datetime) -> str:
    series = event.get("series") or {}
    stamp = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("deprecatedLastTimestamp")
    return _since(stamp or event.get("eventTime") or event["metadata"].get("creationTimestamp"), now)


def _event_message(event: Object, _: datetime) -> str:
    return str(event.get("message") or event.get("note") or "").strip()


def _selector(obj: Object, _: datetime) -> str:
    return selector_text(obj["spec"].get("selector")) or _NONE


_NAME: Final = Column("Name", _name)
_AGE: Final = Column("Age", _age)
_NAME_AND_AGE: Final = (_NAME, Column("Created At", _at("metadata", "creationTimestamp")))
_COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    kinds.PODS.resource: (
        _NAME, Column("Ready", _pod_ready), Column("Status", _pod_status), Column("Restarts", _restarts), _AGE,
        Column("IP", _at("status", "podIP", default=_NONE), 1),
        Column("Node", _at("spec", "nodeName", default=_NONE), 1),
        Column("Nominated Node", _at("status", "nominatedNodeName", default=_NONE), 1),
        Column("Readiness Gates", _gates, 1),
    ),
    kinds.NODES.resource: (
        _NAME, Column("Status", _node_status), Column("Roles", _node_roles), _AGE,
        Column("Version", _node_info("kubeletVersion", "")), Column("Internal-IP", _address("InternalIP"), 1),
        Column("External-IP", _address("ExternalIP"), 1), Column("OS-Image", _node_info("osImage", "<unknown>"), 1),
        Column("Kernel-Version", _node_info("kernelVersion", "<unknown>"), 1),
        Column("Container-Runtime", _node_info("containerRuntimeVersion", "<unknown>"), 1),
    ),
    kinds.NAMESPACES.resource: (_NAME, Column("Status", _at("status", "phase")), _AGE),
    kinds.CORE_EVENTS.resource: (
        Column("Last Seen", _event_age), Column("Type", _at("type")), Column("Reason", _at("reason")),
        Column("Object", _event_object), Column("Message", _event_message), Column("Name", _name, 1),
    ),
    kinds.DEPLOYMENTS.resource: (
        _NAME, Column("Ready", _ready_replicas),
        Column("Up-to-date", _at("status", "updatedReplicas", default=0), type="integer"),
        Column("Available", _at("status", "availableReplicas", default=0), type="integer"), _AGE,
        Column("Selector", _selector, 1),
    ),
    kinds.REPLICA_SETS.resource: (
        _NAME, Column("Desired", _at("spec", "replicas", default=0), type="integer"),
        Column("Current", _at("status", "replicas", default=0), type="integer"),
        Column("Ready", _at("status", "readyReplicas", default=0), type="integer"), _AGE,
        Column("Selector", _selector, 1),
    ),
    kinds.STATEFUL_SETS.resource: (_NAME, Column("Ready", _ready_replicas), _AGE),
    kinds.JOBS.resource: (_NAME, Column("Status", _job_status), Column("Completions", _completions), _AGE),
    kinds.BUDGETS.resource: (
        _NAME, Column("Min Available", _at("spec", "minAvailable", default="N/A")),
        Column("Max Unavailable", _at("spec", "maxUnavailable", default="N/A")),
        Column("Allowed Disruptions", _at("status", "disruptionsAllowed", default=0), type="integer"), _AGE,
    ),
    kinds.PRIORITY_CLASSES.resource: (
        _NAME, Column("Value", _at("value", default=0), type="integer"),
        Column("Global-Default", _at("globalDefault", default=False), type="boolean"), _AGE,
        Column("PreemptionPolicy", _at("preemptionPolicy")),
    ),
    kinds.LEASES.resource: (_NAME, Column("Holder", _at("spec", "holderIdentity")), _AGE),
    kinds.PERSISTENT_VOLUME_CLAIMS.resource: (
        _NAME, Column("Status", _at("status", "phase")), Column("Volume", _at("spec", "volumeName")),
        Column("Capacity", _at("status", "capacity", "storage")),
        Column("StorageClass", _at("spec", "storageClassName")),
        _AGE,
    ),
    kinds.PERSISTENT_VOLUMES.resource: (
        _NAME, Column("Capacity", _at("spec", "capacity", "storage")),
        Column("Reclaim Policy", _at("spec", "persistentVolumeReclaimPolicy")),
        Column("Status", _at("status", "phase")),
        Column("Claim", _at("spec", "claimRef", "name")), Column("StorageClass", _at("spec", "storageClassName")), _AGE,
    ),
}  # fmt: skip
_COLUMNS[kinds.EVENTS.resource] = _COLUMNS[kinds.CORE_EVENTS.resource]
