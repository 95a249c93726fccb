"""The controller that protects PodGroups: one that is deleted stays as long as pods that are not over name it."""

from __future__ import annotations

from typing import Any, Final

from scheduler.simulate.apiserver import Registry
from scheduler.simulate.apiserver.kinds import POD_GROUPS, PODS
from scheduler.simulate.apiserver.pod_groups import FINALIZER
from scheduler.simulate.controllers.index import Dependents

Object = dict[str, Any]

OVER: Final = ("Succeeded", "Failed")


def pod_group(registry: Registry, _: Dependents, obj: Object) -> None:
    metadata = obj["metadata"]
    finalizers = metadata.get("finalizers") or []
    if "deletionTimestamp" not in metadata or FINALIZER not in finalizers:
        return
    pods = registry.store.list(PODS, metadata["namespace"])
    if any(group_of(pod) == metadata["name"] and pod["status"].get("phase") not in OVER for pod in pods):
        return

    def edited(old: Object) -> Object:
        left = [one for one in finalizers if one != FINALIZER]
        kept = {key: value for key, value in old["metadata"].items() if key != "finalizers"}
        return {**old, "metadata": {**kept, "finalizers": left} if left else kept}

    registry.change(POD_GROUPS, metadata["namespace"], metadata["name"], edited)


def group_of(pod: Object) -> str:
    """The name of the pod's PodGroup, "" without one."""
    name: str = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName", "")
    return name
