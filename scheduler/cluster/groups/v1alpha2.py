"""The API ``scheduling.k8s.io/v1alpha2``: PodGroup, and ``pod.spec.schedulingGroup``."""

from __future__ import annotations

import msgspec

from scheduler.cluster.groups.group import DisruptionMode, Group, GroupApi, GroupClaim, GroupReference
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.pod import Pod
from scheduler.objects.pod_group import PodGroup

API_GROUP = "scheduling.k8s.io"
POD_GROUP_SCHEDULED = "PodGroupScheduled"


def v1alpha2(*, reads_constraints: bool, preempts_as_one: bool, has_claims: bool) -> GroupApi:
    """The API, as the gates say. ``reads_constraints``: the gate TopologyAwareWorkloadScheduling. ``preempts_as_one``:
    the gate WorkloadAwarePreemption, without which a disruption mode demands nothing. ``has_claims``: the gate
    DRAWorkloadResourceClaims."""
    reader = _Reader(reads_constraints, preempts_as_one, has_claims)
    return GroupApi(Kind.POD_GROUP, name_in_v1alpha2, reader, has_claims, preempts_as_one)


def name_in_v1alpha2(pod: Pod) -> str:
    """The name of the pod's PodGroup, "" without one."""
    group = pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name


class _Reader(msgspec.Struct, frozen=True):
    """Reads a PodGroup, as the gates say. A value of the core, since a checkpoint of the engine holds it."""

    reads_constraints: bool
    preempts_as_one: bool
    has_claims: bool

    def __call__(self, obj: ApiObject) -> Group:
        assert isinstance(obj, PodGroup)
        spec, meta = obj.spec, obj.metadata
        gang = spec.scheduling_policy.gang
        stated = spec.scheduling_constraints
        constraints = stated if self.reads_constraints else None
        topology = constraints.topology if constraints is not None else ()
        is_whole = self.preempts_as_one and spec.disruption_mode == DisruptionMode.GROUP.value
        return Group(
            GroupReference(Kind.POD_GROUP, meta.namespace, meta.name, meta.uid),
            min_count=None if gang is None else gang.min_count,
            topology_key=topology[0].key if topology else "",
            has_constraints=constraints is not None,
            demands_topology=stated is not None and bool(stated.topology),
            priority=spec.priority or 0,
            disruption=DisruptionMode.GROUP if is_whole else DisruptionMode.POD,
            preempts_as_one=self.preempts_as_one,
            claims=_claims_of(obj) if self.has_claims else (),
            scheduled=obj.condition(POD_GROUP_SCHEDULED),
        )


def _claims_of(group: PodGroup) -> tuple[GroupClaim, ...]:
    made = {status.name: status.resource_claim_name or "" for status in group.status.resource_claim_statuses}
    return tuple(
        [
            GroupClaim(claim.name, claim.resource_claim_name, claim.resource_claim_template_name, made.get(claim.name))
            for claim in group.spec.resource_claims
        ]
    )
