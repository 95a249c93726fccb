"""The API ``scheduling.x-k8s.io/v1alpha1`` of scheduler-plugins: PodGroup, and a label of its pods.

Such a group has no priority of its own, and makes room as one. Source: docs/kube-scheduler/podgroups.md §12.
"""

from __future__ import annotations

from typing import Final

from scheduler.cluster.groups.group import Group, GroupApi, GroupReference
from scheduler.objects.coscheduling import PodGroup, PodGroupSpec
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.pod import Pod
from scheduler.objects.quantity import InvalidQuantity
from scheduler.objects.resources import amounts_of

LABEL: Final = "scheduling.x-k8s.io/pod-group"
PERMIT_SECONDS: Final = 60.0
"""Seconds that a member waits in Permit: the default of ``permitWaitingTimeSeconds`` of the plugin Coscheduling."""


def coscheduling() -> GroupApi:
    return GroupApi(Kind.COSCHEDULING_POD_GROUP, name_in_coscheduling, _read)


def name_in_coscheduling(pod: Pod) -> str:
    """The name of the pod's PodGroup, "" without one."""
    return pod.metadata.labels.get(LABEL, "")


def _read(obj: ApiObject) -> Group:
    assert isinstance(obj, PodGroup)
    spec, meta = obj.spec, obj.metadata
    seconds = spec.schedule_timeout_seconds or 0
    least, fault = _least_of(spec)
    return Group(
        GroupReference(Kind.COSCHEDULING_POD_GROUP, meta.namespace, meta.name, meta.uid),
        min_count=max(1, spec.min_member),
        priority=None,
        preempts_as_one=True,
        min_resources=least,
        fault=fault and f"podgroup.scheduling.x-k8s.io {meta.name}: {fault}",
        permit_seconds=float(seconds) if seconds > 0 else PERMIT_SECONDS,
        reports_condition=False,
    )


def _least_of(spec: PodGroupSpec) -> tuple[tuple[tuple[str, int], ...], str]:
    """``minResources`` with the pods of the quorum; or what is wrong with them."""
    least: dict[str, int] = {}
    for name, amount in spec.min_resources.items():
        try:
            least[name] = amounts_of({name: amount}).amount(name)
        except InvalidQuantity as error:
            return (), f"spec.minResources[{name}]: {error}"
    return tuple({**least, "pods": max(1, spec.min_member)}.items()) if least else (), ""
