"""Where each kind lives in the API: the path of its collection and of one object."""

from __future__ import annotations

from typing import Any

# kind -> (group and version as in a URL, plural, namespaced)
KINDS: dict[str, tuple[str, str, bool]] = {
    "Namespace": ("api/v1", "namespaces", False),
    "Node": ("api/v1", "nodes", False),
    "Pod": ("api/v1", "pods", True),
    "Service": ("api/v1", "services", True),
    "ConfigMap": ("api/v1", "configmaps", True),
    "Secret": ("api/v1", "secrets", True),
    "ServiceAccount": ("api/v1", "serviceaccounts", True),
    "PersistentVolume": ("api/v1", "persistentvolumes", False),
    "PersistentVolumeClaim": ("api/v1", "persistentvolumeclaims", True),
    "ReplicationController": ("api/v1", "replicationcontrollers", True),
    "Deployment": ("apis/apps/v1", "deployments", True),
    "ReplicaSet": ("apis/apps/v1", "replicasets", True),
    "StatefulSet": ("apis/apps/v1", "statefulsets", True),
    "DaemonSet": ("apis/apps/v1", "daemonsets", True),
    "Job": ("apis/batch/v1", "jobs", True),
    "PodDisruptionBudget": ("apis/policy/v1", "poddisruptionbudgets", True),
    "PodGroup": ("apis/scheduling.k8s.io/v1alpha2", "podgroups", True),
    "CoschedulingPodGroup": ("apis/scheduling.x-k8s.io/v1alpha1", "podgroups", True),
    "PriorityClass": ("apis/scheduling.k8s.io/v1", "priorityclasses", False),
    "StorageClass": ("apis/storage.k8s.io/v1", "storageclasses", False),
    "CSINode": ("apis/storage.k8s.io/v1", "csinodes", False),
    "CSIDriver": ("apis/storage.k8s.io/v1", "csidrivers", False),
    "DeviceClass": ("apis/resource.k8s.io/v1", "deviceclasses", False),
    "ResourceSlice": ("apis/resource.k8s.io/v1", "resourceslices", False),
    "ResourceClaim": ("apis/resource.k8s.io/v1", "resourceclaims", True),
    "ResourceClaimTemplate": ("apis/resource.k8s.io/v1", "resourceclaimtemplates", True),
    "Lease": ("apis/coordination.k8s.io/v1", "leases", True),
    "Event": ("apis/events.k8s.io/v1", "events", True),
    "Role": ("apis/rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("apis/rbac.authorization.k8s.io/v1", "rolebindings", True),
    "ClusterRole": ("apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
}


def collection(kind: str, namespace: str | None = None) -> str:
    """For example ``/api/v1/namespaces/default/pods``; without a namespace that of the whole cluster."""
    group, plural, namespaced = KINDS[kind]
    if namespaced and namespace is not None:
        return f"/{group}/namespaces/{namespace}/{plural}"
    return f"/{group}/{plural}"


def one(kind: str, name: str, namespace: str | None = None) -> str:
    return f"{collection(kind, namespace)}/{name}"


def home_of(thing: dict[str, Any]) -> str:
    """The collection into which an object of this kind and namespace is created."""
    return collection(thing["kind"], thing["metadata"].get("namespace"))
