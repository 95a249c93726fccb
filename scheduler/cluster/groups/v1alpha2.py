"""The API ``scheduling.k8s.io/v1alpha2``: PodGroup, and ``pod.spec.schedulingGroup``."""

from __future__ import annotations

from scheduler.cluster.groups.group import DisruptionMode, Group, GroupApi, GroupReference
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.pod import Pod
from scheduler.objects.pod_group import PodGroup

POD_GROUP_SCHEDULED = "PodGroupScheduled"


def v1alpha2(*, reads_constraints: bool) -> GroupApi:
    """``reads_constraints``: the gate TopologyAwareWorkloadScheduling."""
    # Named functions: a checkpoint of the engine names them.
    return GroupApi(Kind.POD_GROUP, name_in_v1alpha2, _with_constraints if reads_constraints else _without_constraints)


def name_in_v1alpha2(pod: Pod) -> str:
    """The name of the pod's PodGroup, "" without one."""
    group = pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name


def _with_constraints(obj: ApiObject) -> Group:
    return _read(obj, reads_constraints=True)


def _without_constraints(obj: ApiObject) -> Group:
    return _read(obj, reads_constraints=False)


def _read(obj: ApiObject, *, reads_constraints: bool) -> Group:
    assert isinstance(obj, PodGroup)
    spec, meta = obj.spec, obj.metadata
    gang = spec.scheduling_policy.gang
    constraints = spec.scheduling_constraints if reads_constraints else None
    topology = constraints.topology if constraints is not None else ()
    return Group(
        GroupReference(Kind.POD_GROUP, meta.namespace, meta.name, meta.uid),
        min_count=None if gang is None else gang.min_count,
        topology_key=topology[0].key if topology else "",
        has_constraints=constraints is not None,
        priority=spec.priority or 0,
        disruption=DisruptionMode.GROUP if spec.disruption_mode == DisruptionMode.GROUP.value else DisruptionMode.POD,
        scheduled=obj.condition(POD_GROUP_SCHEDULED),
    )
