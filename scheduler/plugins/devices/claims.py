"""Which ResourceClaims a pod uses, and their consumers (docs/kube-scheduler/dra.md §3, podgroups.md §13).

With the gate DRAWorkloadResourceClaims a PodGroup may have claims, which its pods name by equal entries. Such a claim
is reserved for the PodGroup instead of its pods, and one that is made from a template belongs to the PodGroup.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from scheduler.cluster.groups.facts import Groups
from scheduler.cluster.groups.group import Group
from scheduler.cluster.groups.v1alpha2 import API_GROUP, name_in_v1alpha2
from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import controller_of
from scheduler.objects.pod import PodResourceClaim
from scheduler.objects.resource_claims import ClaimConsumer, ResourceClaim

ClaimLookup = Callable[[str], ResourceClaim | None]
"""By ``namespace/name``."""

POD_GROUPS = "podgroups"


class UsedClaim(msgspec.Struct, frozen=True):
    """A claim that a pod uses. ``entry``: the first in the pod that names it."""

    claim: ResourceClaim
    entry: PodResourceClaim


def used_claims(pod: PodInfo, groups: Groups, find: ClaimLookup) -> tuple[UsedClaim, ...] | str:
    """The claims that the pod uses, in its order, each once; or why the pod can't be tried, the first reason."""
    found: dict[str, UsedClaim] = {}
    for entry in pod.pod.spec.resource_claims:
        name = _name_of(pod, entry)
        if name is None:
            return f'pod "{pod.key}": ResourceClaim not created yet'
        if name == "" and entry.resource_claim_name is None and entry.resource_claim_template_name is None:
            return f'pod "{pod.key}", spec.resourceClaim "{entry.name}": none of the supported fields are set'
        if name == "":
            continue
        claim = find(f"{pod.namespace}/{name}")
        if claim is None:
            return f'could not find ResourceClaim "{pod.namespace}/{name}"'
        if claim.is_terminating:
            return f'resourceclaim "{name}" is being deleted'
        if entry.resource_claim_name is None and not claim.is_controlled_by(pod.uid):
            group = name_in_v1alpha2(pod.pod) if groups.have_claims else ""
            if not group:
                return f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)"
            if not is_of_group(pod, claim):
                owners = f"neither Pod nor PodGroup {group} is the owner"
                return f"ResourceClaim {claim.key} was not created for Pod {pod.key} ({owners})"
        found.setdefault(claim.uid or claim.key, UsedClaim(claim, entry))
    return tuple(found.values())


def claims_of(pod: PodInfo, groups: Groups, find: ClaimLookup) -> tuple[ResourceClaim, ...] | str:
    """The claims of ``used_claims``."""
    used = used_claims(pod, groups, find)
    return used if isinstance(used, str) else tuple([one.claim for one in used])


def is_of_group(pod: PodInfo, claim: ResourceClaim) -> bool:
    """Whether the claim was made for the pod's PodGroup."""
    owner, group = controller_of(claim.metadata), name_in_v1alpha2(pod.pod)
    return (
        owner is not None
        and bool(group)
        and owner.name == group
        and owner.kind == "PodGroup"
        and owner.api_version.startswith(f"{API_GROUP}/")
    )


def is_reserved(claim: ResourceClaim, pod: PodInfo, groups: Groups) -> bool:
    """Whether the claim is reserved for the pod, or for its PodGroup."""
    if claim.is_reserved_for(pod.uid):
        return True
    group = name_in_v1alpha2(pod.pod) if groups.have_claims else ""
    return bool(group) and any(
        (consumer.api_group, consumer.resource, consumer.name) == (API_GROUP, POD_GROUPS, group)
        for consumer in claim.status.reserved_for
    )


def consumer_of(used: UsedClaim, pod: PodInfo, group: Group | None) -> ClaimConsumer:
    """The consumer that the claim is to be reserved for. ``group``: the pod's PodGroup, if it may have claims."""
    entry = used.entry
    if group is None:
        return pod_consumer(pod)
    for claim in group.claims:
        if (claim.name, claim.claim_name, claim.template_name) == (
            entry.name,
            entry.resource_claim_name,
            entry.resource_claim_template_name,
        ):
            return group_consumer(group)
    return pod_consumer(pod)


def pod_consumer(pod: PodInfo) -> ClaimConsumer:
    return ClaimConsumer(resource="pods", name=pod.name, uid=pod.uid)


def group_consumer(group: Group) -> ClaimConsumer:
    reference = group.reference
    return ClaimConsumer(api_group=API_GROUP, resource=POD_GROUPS, name=reference.name, uid=reference.uid)


def group_with_claims(pod: PodInfo, groups: Groups) -> Group | str | None:
    """The pod's PodGroup, where PodGroups may have claims; why it can't be tried if there is no such object."""
    name = name_in_v1alpha2(pod.pod) if groups.have_claims else ""
    if not name:
        return None
    group = groups.get(f"{pod.namespace}/{name}")
    if group is None or group.reference.kind is not Kind.POD_GROUP:
        return f'podgroup.scheduling.k8s.io "{name}" not found'
    return group


def _name_of(pod: PodInfo, entry: PodResourceClaim) -> str | None:
    """The name of the entry's claim. None: not made yet; "": none is needed, or the entry is empty."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        return ""
    for status in pod.pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name or ""
    return None
