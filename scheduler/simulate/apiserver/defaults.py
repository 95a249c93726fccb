"""The API server's defaults for objects, as far as schedulers, controllers or users read them.

Each function returns a new object and shares what it did not change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from scheduler.simulate.apiserver import kinds, pod_groups
from scheduler.simulate.apiserver.kinds import Kind

Object = dict[str, Any]

_TOLERATION_SECONDS: Final = 300
_EVICTING_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

_STATUS_AT_BIRTH: Final[dict[str, Object]] = {
    kinds.NAMESPACES.resource: {"phase": "Active"},
    kinds.SERVICES.resource: {"loadBalancer": {}},
    kinds.REPLICATION_CONTROLLERS.resource: {"replicas": 0},
    kinds.PERSISTENT_VOLUMES.resource: {"phase": "Pending"},
    kinds.PERSISTENT_VOLUME_CLAIMS.resource: {"phase": "Pending"},
    kinds.DEPLOYMENTS.resource: {},
    kinds.REPLICA_SETS.resource: {"replicas": 0},
    kinds.STATEFUL_SETS.resource: {"replicas": 0, "availableReplicas": 0},
    kinds.DAEMON_SETS.resource: {
        "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
    },
    kinds.JOBS.resource: {},
    kinds.BUDGETS.resource: {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    kinds.VOLUME_ATTACHMENTS.resource: {"attached": False},
    kinds.RESOURCE_CLAIMS.resource: {},
}  # fmt: skip
"""The status of new objects, regardless of the request. Nodes keep theirs; pods get a computed one."""


def status_at_birth(kind: Kind, obj: Object) -> Object:
    """`obj` with the status of a new object of this kind."""
    if kind is kinds.PODS:
        return obj
    fresh = _STATUS_AT_BIRTH.get(kind.resource)
    return obj if fresh is None else {**obj, "status": fresh}


def fill(kind: Kind, obj: Object) -> Object:
    """`obj` with defaults, for create and update."""
    found = _FILLERS.get(kind.resource)
    return obj if found is None else found(obj)


def _pod(obj: Object) -> Object:
    return {**obj, "spec": {"enableServiceLinks": True, **pod_spec(obj.get("spec") or {})}}


def pod_spec(spec: Object) -> Object:
    """A pod's or pod template's specification with defaults; missing requests are copied from the limits."""
    filled = {
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "securityContext": {}, "schedulerName": "default-scheduler", **spec,
    }  # fmt: skip
    host_network = bool(spec.get("hostNetwork"))
    for field in ("containers", "initContainers"):
        if spec.get(field):
            filled[field] = [_container(one, host_network) for one in spec[field]]
    if spec.get("serviceAccountName"):
        filled["serviceAccount"] = spec["serviceAccountName"]
    return filled


def _container(container: Object, host_network: bool) -> Object:
    image = str(container.get("image", ""))
    latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
    filled = {
        "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always" if latest else "IfNotPresent", **container,
    }  # fmt: skip
    limits = filled["resources"].get("limits")
    if limits:
        filled["resources"] = {**filled["resources"], "requests": {**limits, **filled["resources"].get("requests", {})}}
    if container.get("ports"):
        filled["ports"] = [{"protocol": "TCP", **port} for port in container["ports"]]
        if host_network:
            filled["ports"] = [{"hostPort": port["containerPort"], **port} for port in filled["ports"]]
    return filled


def eviction_tolerations(spec: Object) -> Object:
    """The spec with the two default eviction tolerations, unless the pod tolerates these taints itself."""
    tolerations = spec.get("tolerations") or []
    missing = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
        for key in _EVICTING_TAINTS
        if not any(one.get("key", key) == key and one.get("effect") in (None, "", "NoExecute") for one in tolerations)
    ]
    return {**spec, "tolerations": [*tolerations, *missing]} if missing else spec


def _template(spec: Object) -> Object:
    template = spec.get("template")
    if not template:
        return spec
    return {**spec, "template": {**template, "spec": pod_spec(template.get("spec") or {})}}


def _deployment(obj: Object) -> Object:
    spec = {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, **_template(obj.get("spec", {}))}
    strategy = {"type": "RollingUpdate", **spec.get("strategy", {})}
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {"maxUnavailable": "25%", "maxSurge": "25%", **strategy.get("rollingUpdate", {})}
    spec["strategy"] = strategy
    return {**obj, "spec": spec}


def _replica_set(obj: Object) -> Object:
    return {**obj, "spec": {"replicas": 1, **_template(obj.get("spec", {}))}}


def _replication_controller(obj: Object) -> Object:
    spec = {"replicas": 1, **_template(obj.get("spec", {}))}
    labels = spec.get("template", {}).get("metadata", {}).get("labels")
    if labels and not spec.get("selector"):
        spec["selector"] = labels
    return _labelled({**obj, "spec": spec}, labels)


def _labelled(obj: Object, labels: Object | None) -> Object:
    """The object with these labels if it has none."""
    if not labels or obj["metadata"].get("labels"):
        return obj
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}


def _stateful_set(obj: Object) -> Object:
    spec = {
        "replicas": 1, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        **_template(obj.get("spec", {})),
    }  # fmt: skip
    return {**obj, "spec": spec}


def _daemon_set(obj: Object) -> Object:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    metadata = obj["metadata"]
    annotations = {"deprecated.daemonset.template.generation": "1", **(metadata.get("annotations") or {})}
    spec = {"updateStrategy": strategy, "revisionHistoryLimit": 10, **_template(obj.get("spec", {}))}
    return {**obj, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def _job(obj: Object) -> Object:
    spec = {
        "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False, "manualSelector": False,
        "podReplacementPolicy": "TerminatingOrFailed", **_template(obj.get("spec", {})),
    }  # fmt: skip
    if "parallelism" not in spec and "completions" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    metadata = obj["metadata"]
    if spec["manualSelector"] or spec.get("selector") or "uid" not in metadata:
        return {**obj, "spec": spec}
    labels = {
        "batch.kubernetes.io/controller-uid": metadata["uid"], "batch.kubernetes.io/job-name": metadata["name"],
        "controller-uid": metadata["uid"], "job-name": metadata["name"],
    }  # fmt: skip
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": metadata["uid"]}}
    template = spec.get("template", {})
    template_metadata = template.get("metadata", {})
    template_labels = {**template_metadata.get("labels", {}), **labels}
    spec["template"] = {**template, "metadata": {**template_metadata, "labels": template_labels}}
    own_labels = metadata.get("labels") or template_labels
    return {**obj, "metadata": {**metadata, "labels": own_labels}, "spec": spec}


def _service(obj: Object) -> Object:
    spec = {"type": "ClusterIP", "sessionAffinity": "None", **obj.get("spec", {})}
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec["ports"] = [{"protocol": "TCP", "targetPort": port.get("port"), **port} for port in spec.get("ports") or ()]
    return {**obj, "spec": spec}


def _persistent_volume(obj: Object) -> Object:
    return {
        **obj,
        "spec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem", **obj.get("spec", {})},
    }


def _claim(obj: Object) -> Object:
    return {**obj, "spec": {"volumeMode": "Filesystem", **obj.get("spec", {})}}


def _storage_class(obj: Object) -> Object:
    return {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate", **obj}


def _csi_driver(obj: Object) -> Object:
    spec = {
        "attachRequired": True, "podInfoOnMount": False, "volumeLifecycleModes": ["Persistent"],
        "storageCapacity": False, "fsGroupPolicy": "ReadWriteOnceWithFSType", "requiresRepublish": False,
        "seLinuxMount": False, **obj.get("spec", {}),
    }  # fmt: skip
    return {**obj, "spec": spec}


def _priority_class(obj: Object) -> Object:
    return {"preemptionPolicy": "PreemptLowerPriority", **obj}


def _namespace(obj: Object) -> Object:
    metadata = obj["metadata"]
    labels = {**metadata.get("labels", {}), "kubernetes.io/metadata.name": metadata["name"]}
    spec = {"finalizers": ["kubernetes"], **(obj.get("spec") or {})}
    return {**obj, "metadata": {**metadata, "labels": labels}, "spec": spec}


def _node(obj: Object) -> Object:
    status = obj.get("status") or {}
    if "allocatable" not in status and "capacity" in status:
        status = {**status, "allocatable": status["capacity"]}
    return {**obj, "spec": obj.get("spec") or {}, "status": status}


def _secret(obj: Object) -> Object:
    return {"type": "Opaque", **obj}


def _resource_claim(obj: Object) -> Object:
    spec = obj.get("spec", {})
    devices = spec.get("devices", {})
    requests = [
        {**one, "exactly": {"allocationMode": "ExactCount", "count": 1, **one["exactly"]}}
        if one.get("exactly", {}).get("allocationMode", "ExactCount") == "ExactCount" and "exactly" in one
        else one
        for one in devices.get("requests", [])
    ]
    return {**obj, "spec": {**spec, "devices": {**devices, "requests": requests}}} if requests else obj


_FILLERS: Final[dict[str, Callable[[Object], Object]]] = {
    kinds.POD_GROUPS.resource: pod_groups.fill,
    kinds.PODS.resource: _pod,
    kinds.NODES.resource: _node,
    kinds.NAMESPACES.resource: _namespace,
    kinds.SERVICES.resource: _service,
    kinds.SECRETS.resource: _secret,
    kinds.REPLICATION_CONTROLLERS.resource: _replication_controller,
    kinds.PERSISTENT_VOLUMES.resource: _persistent_volume,
    kinds.PERSISTENT_VOLUME_CLAIMS.resource: _claim,
    kinds.DEPLOYMENTS.resource: _deployment,
    kinds.REPLICA_SETS.resource: _replica_set,
    kinds.STATEFUL_SETS.resource: _stateful_set,
    kinds.DAEMON_SETS.resource: _daemon_set,
    kinds.JOBS.resource: _job,
    kinds.STORAGE_CLASSES.resource: _storage_class,
    kinds.CSI_DRIVERS.resource: _csi_driver,
    kinds.PRIORITY_CLASSES.resource: _priority_class,
    kinds.RESOURCE_CLAIMS.resource: _resource_claim,
}
