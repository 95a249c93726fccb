"""The demo's script: each scene changes the cluster and checks for the expected result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct, field

from scheduler.simulate.apiserver import Registry
from scheduler.simulate.apiserver.kinds import (
    BUDGETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
)
from scheduler.simulate.demo_devices import add_devices, claiming

Object = dict[str, Any]

NAMESPACE: Final = "default"
SCHEDULER: Final = "tandem-scheduler"
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
_OVER: Final = ("Succeeded", "Failed")
_GPU_TAINT: Final = {"key": "example.com/gpu", "value": "present", "effect": "NoSchedule"}
_RING_TAINT: Final = {"key": "example.com/ring", "value": "present", "effect": "NoSchedule"}
_TOLERATES_GPUS: Final = {"key": "example.com/gpu", "operator": "Exists"}


class Scene(Struct, frozen=True):
    """A scene. ``explains``: the pod, or group of pods, whose explanation is shown at its end."""

    title: str
    act: Callable[[Registry], None]
    is_over: Callable[[Registry], bool]
    seconds: float = 20.0
    explains: Callable[[Registry], str] = field(default=lambda _registry: "")


def scenes() -> tuple[Scene, ...]:
    """The scenes in order; each builds on the previous ones."""
    return (
        Scene("Four nodes in three zones; one has a GPU and a taint", _four_nodes, lambda _: True),
        Scene(
            "Deployment web: 6 pods, spread over the zones",
            lambda registry: _deployment(registry, "web", 6, "500m", spread=True),
            lambda registry: _running(registry, "web") == 6,
        ),
        Scene(
            "Job crunch: 9 pods, 6 at a time",
            _job,
            lambda registry: _count(registry, "crunch", lambda pod: pod["status"].get("phase") == "Succeeded") == 9,
        ),
        Scene(
            "Pod trainer tolerates the GPU's taint and asks for the GPU",
            _trainer,
            lambda registry: _running(registry, "trainer") == 1,
            explains=lambda _: f"{NAMESPACE}/trainer",
        ),
        Scene(
            "Pod huge asks for 6 CPUs: it fits nowhere, and its events say why",
            lambda registry: _pod(registry, "huge", "6"),
            lambda registry: _is_refused(registry, "huge"),
            explains=lambda _: f"{NAMESPACE}/huge",
        ),
        Scene(
            "A node with 8 CPUs joins: huge is woken at once",
            lambda registry: _node(registry, "node-big", "8", "b"),
            lambda registry: _running(registry, "huge") == 1,
        ),
        Scene(
            "Gang ring: four pods that start together or not at all; the cluster has room for three",
            _ring,
            lambda registry: _is_group_refused(registry, "ring") and _running(registry, "ring") == 0,
            explains=lambda _: f"{NAMESPACE}/ring",
        ),
        Scene(
            "A node for the fourth joins: the gang starts at once",
            lambda registry: _node(registry, "node-ring", "4", "b", taints=[_RING_TAINT]),
            lambda registry: _count(registry, "ring", lambda pod: bool(pod["spec"].get("nodeName"))) == 4,
        ),
        Scene(
            "The gang is deleted: its PodGroup stays until the last of its pods is gone",
            _delete_ring,
            lambda registry: not _pods(registry, "ring") and registry.store.get(POD_GROUPS, NAMESPACE, "ring") is None,
        ),
        Scene(
            "Deployment web is rolled out again, with a budget that keeps 5 pods",
            _roll_out,
            lambda registry: _running(registry, "web", "web:v2") == 6 and _alive(registry, "web") == 6,
        ),
        Scene(
            "Deployment filler of low priority takes all that is left",
            lambda registry: _deployment(registry, "filler", 11, "1", priority_class="low"),
            lambda registry: _running(registry, "filler") == 11,
        ),
        Scene(
            "Pod urgent of high priority: room is made for it",
            lambda registry: _pod(registry, "urgent", "2", priorityClassName="high"),
            lambda registry: _running(registry, "urgent") == 1,
            explains=lambda _: f"{NAMESPACE}/urgent",
        ),
        Scene(
            "The pushed-out fillers wait for their turn",
            lambda _: None,
            lambda registry: _count(registry, "filler", _has_refusal) == 2,
            explains=_first_waiting,
        ),
        Scene(
            "Two nodes join, with three GPUs each in a pool; pods render-1 and render-2 claim two of one NUMA node",
            _two_nodes_with_gpus,
            lambda registry: _running(registry, "render-1") == _running(registry, "render-2") == 1,
            explains=lambda _: f"{NAMESPACE}/render-1",
        ),
        Scene(
            "Pod render-3 claims two as well: no node has a pair left, and its message names the pods that hold them",
            lambda registry: _rendering(registry, "render-3"),
            lambda registry: _is_refused(registry, "render-3"),
            explains=lambda _: f"{NAMESPACE}/render-3",
        ),
    )


# --- actions ----------------------------------------------------------------------------------------------------------


def _four_nodes(registry: Registry) -> None:
    registry.create(NAMESPACES, "", {"metadata": {"name": "tandem-system"}})
    for name, value in (("low", -10), ("high", 100_000)):
        registry.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})
    for zone in "abc":
        _node(registry, f"node-{zone}", "4", zone)
    _node(registry, "node-gpu", "4", "c", {"example.com/gpu": "1"}, [_GPU_TAINT])


def _node(
    registry: Registry, name: str, cpu: str, zone: str, more: dict[str, str] | None = None, taints: Any = ()
) -> None:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "30", **(more or {})}
    document = {
        "metadata": {"name": name, "labels": {HOST: name, ZONE: zone}},
        "spec": {"taints": list(taints)} if taints else {},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "nodeInfo": {"kubeletVersion": "v1.36.0-embedded"},
        },
    }
    registry.create(NODES, "", document)


def _template(name: str, cpu: str, image: str, **spec: Any) -> Object:
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {"schedulerName": SCHEDULER, "containers": [container], **spec},
    }


def _pod(registry: Registry, name: str, cpu: str, **spec: Any) -> None:
    document = _template(name, cpu, f"{name}:v1", **spec)
    document["metadata"]["name"] = name
    registry.create(PODS, NAMESPACE, document)


def _trainer(registry: Registry) -> None:
    document = _template("trainer", "1", "trainer:v1")
    document["metadata"]["name"] = "trainer"
    resources = document["spec"]["containers"][0]["resources"]
    resources["requests"]["example.com/gpu"] = "1"
    resources["limits"] = {"example.com/gpu": "1"}
    document["spec"]["tolerations"] = [_TOLERATES_GPUS]
    registry.create(PODS, NAMESPACE, document)


def _two_nodes_with_gpus(registry: Registry) -> None:
    names = ("node-gpus-1", "node-gpus-2")
    for name in names:
        # The taint keeps those away that wait for room and want no GPU.
        _node(registry, name, "4", "c", taints=[_GPU_TAINT])
    add_devices(registry, NAMESPACE, *names)
    for name in ("render-1", "render-2"):
        _rendering(registry, name)


def _rendering(registry: Registry, name: str) -> None:
    _pod(registry, name, "1", tolerations=[_TOLERATES_GPUS], **claiming())


def _deployment(
    registry: Registry, name: str, replicas: int, cpu: str, *, spread: bool = False, priority_class: str = ""
) -> None:
    spec: Object = {}
    if spread:
        selector = {"matchLabels": {"app": name}}
        rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        spec["topologySpreadConstraints"] = [{**rule, "matchLabelKeys": ["pod-template-hash"]}]
    if priority_class:
        spec["priorityClassName"] = priority_class
    document = {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": _template(name, cpu, f"{name}:v1", **spec),
        },
    }
    registry.create(DEPLOYMENTS, NAMESPACE, document)


def _job(registry: Registry) -> None:
    template = _template("crunch", "750m", "crunch:v1", restartPolicy="Never")
    document = {"metadata": {"name": "crunch"}, "spec": {"completions": 9, "parallelism": 6, "template": template}}
    registry.create(JOBS, NAMESPACE, document)


def _ring(registry: Registry) -> None:
    """Three members find room beside the web; the fourth needs a node that is not there yet."""
    policy = {"schedulingPolicy": {"gang": {"minCount": 4}}}
    registry.create(POD_GROUPS, NAMESPACE, {"metadata": {"name": "ring"}, "spec": policy})
    for number in range(4):
        document = _template("ring", "3", "ring:v1", schedulingGroup={"podGroupName": "ring"})
        document["metadata"]["name"] = f"ring-{number}"
        document["spec"]["tolerations"] = [{"key": "example.com/ring", "operator": "Exists"}]
        registry.create(PODS, NAMESPACE, document)


def _delete_ring(registry: Registry) -> None:
    registry.delete(POD_GROUPS, NAMESPACE, "ring")
    for pod in _pods(registry, "ring"):
        registry.delete(PODS, NAMESPACE, pod["metadata"]["name"])


def _roll_out(registry: Registry) -> None:
    budget = {"minAvailable": 5, "selector": {"matchLabels": {"app": "web"}}}
    registry.create(BUDGETS, NAMESPACE, {"metadata": {"name": "web"}, "spec": budget})
    document = registry.store.get(DEPLOYMENTS, NAMESPACE, "web") or {}
    template = document["spec"]["template"]
    containers = [{**one, "image": "web:v2"} for one in template["spec"]["containers"]]
    changed = {**template, "spec": {**template["spec"], "containers": containers}}
    registry.update(DEPLOYMENTS, NAMESPACE, "web", {**document, "spec": {**document["spec"], "template": changed}})


# --- results ----------------------------------------------------------------------------------------------------------


def _pods(registry: Registry, app: str) -> list[Object]:
    return [
        pod for pod in registry.store.list(PODS, NAMESPACE) if (pod["metadata"].get("labels") or {}).get("app") == app
    ]


def _count(registry: Registry, app: str, wanted: Callable[[Object], bool]) -> int:
    return sum(wanted(pod) for pod in _pods(registry, app))


def _running(registry: Registry, app: str, image: str = "") -> int:
    return _count(
        registry,
        app,
        lambda pod: (
            pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
            and image in ("", pod["spec"]["containers"][0]["image"])
        ),
    )


def _alive(registry: Registry, app: str) -> int:
    return _count(registry, app, lambda pod: pod["status"].get("phase") not in _OVER)


def _is_refused(registry: Registry, name: str) -> bool:
    pod = registry.store.get(PODS, NAMESPACE, name)
    return pod is not None and _has_refusal(pod)


def _is_group_refused(registry: Registry, name: str) -> bool:
    group = registry.store.get(POD_GROUPS, NAMESPACE, name)
    conditions = (group or {}).get("status", {}).get("conditions") or ()
    return any(one["type"] == "PodGroupScheduled" and one["status"] == "False" for one in conditions)


def _has_refusal(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)


def _first_waiting(registry: Registry) -> str:
    waiting = [pod["metadata"]["name"] for pod in _pods(registry, "filler") if _has_refusal(pod)]
    return f"{NAMESPACE}/{waiting[0]}" if waiting else ""
