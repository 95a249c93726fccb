"""The API ``scheduling.k8s.io/v1alpha2``: PodGroup, and ``pod.spec.schedulingGroup``."""

from __future__ import annotations

from functools import partial

from scheduler.cluster.groups.group import DisruptionMode, Group, GroupApi, GroupReference
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.pod import Pod
from scheduler.objects.pod_group import PodGroup

POD_GROUP_SCHEDULED = "PodGroupScheduled"


def v1alpha2(*, reads_constraints: bool, preempts_as_one: bool) -> GroupApi:
    """``reads_constraints``: the gate TopologyAwareWorkloadScheduling. ``preempts_as_one``: the gate
    WorkloadAwarePreemption, without which a disruption mode demands nothing."""
    return GroupApi(Kind.POD_GROUP, name_in_v1alpha2, partial(_read, reads_constraints, preempts_as_one))


def name_in_v1alpha2(pod: Pod) -> str:
    """The name of the pod's PodGroup, "" without one."""
    group = pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name


def _read(reads_constraints: bool, preempts_as_one: bool, obj: ApiObject) -> Group:
    assert isinstance(obj, PodGroup)
    spec, meta = obj.spec, obj.metadata
    gang = spec.scheduling_policy.gang
    constraints = spec.scheduling_constraints if reads_constraints else None
    topology = constraints.topology if constraints is not None else ()
    is_whole = preempts_as_one and spec.disruption_mode == DisruptionMode.GROUP.value
    return Group(
        GroupReference(Kind.POD_GROUP, meta.namespace, meta.name, meta.uid),
        min_count=None if gang is None else gang.min_count,
        topology_key=topology[0].key if topology else "",
        has_constraints=constraints is not None,
        priority=spec.priority or 0,
        disruption=DisruptionMode.GROUP if is_whole else DisruptionMode.POD,
        preempts_as_one=preempts_as_one,
        scheduled=obj.condition(POD_GROUP_SCHEDULED),
    )
