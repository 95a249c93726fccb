"""PostFilter: which claim gives its devices back when no node fits (docs/kube-scheduler/dra.md §10)."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.cluster.groups.group import Group
from scheduler.framework.post_filter import PostFilterAnswer, PostFilterContext
from scheduler.messages.claim_commands import DeallocateClaim, DeleteClaim, UnreserveClaim
from scheduler.messages.references import ClaimReference
from scheduler.messages.status import failure, unresolvable, unschedulable
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.plugins.devices.claims import group_consumer, group_with_claims, is_of_group, is_reserved
from scheduler.plugins.devices.situation import Situation

DEALLOCATED = unschedulable("deallocation of ResourceClaim completed")
UNRESERVED = unresolvable("ResourceClaim unreserved for PodGroup")
DELETED = unschedulable("deletion of ResourceClaim completed")
STILL_NOT_SCHEDULABLE = unschedulable("still not schedulable")


def give_up(situation: Situation, unavailable: Sequence[ResourceClaim], context: PostFilterContext) -> PostFilterAnswer:
    """The answer that lets a claim give its devices back, if that may help. ``unavailable``: claims that kept the pod
    from some node which could have given the others."""
    pod, rng = context.pod, context.rng
    candidates = list(unavailable)
    while candidates:
        claim = candidates.pop(rng.randrange(len(candidates)))
        if (
            all(consumer.uid == pod.uid for consumer in claim.status.reserved_for)
            and len(claim.status.reserved_for) <= 1
        ):
            reference = ClaimReference(claim.namespace, claim.name, claim.uid)
            return PostFilterAnswer(DEALLOCATED, writes=(DeallocateClaim(0, reference, claim.resource_version),))
    existing = situation.extended.existing if situation.extended is not None else None
    if existing is not None:
        reference = ClaimReference(existing.namespace, existing.name, existing.uid)
        return PostFilterAnswer(DELETED, writes=(DeleteClaim(0, reference),))
    group = group_with_claims(pod, context.view.groups)
    kept = _reserved_for(group, context) if isinstance(group, Group) else None
    if isinstance(kept, str):
        return PostFilterAnswer(failure(kept))
    if kept is not None and isinstance(group, Group):
        reference = ClaimReference(kept.namespace, kept.name, kept.uid)
        return PostFilterAnswer(UNRESERVED, writes=(UnreserveClaim(0, reference, group_consumer(group)),))
    return PostFilterAnswer(STILL_NOT_SCHEDULABLE)


def _reserved_for(group: Group, context: PostFilterContext) -> ResourceClaim | str | None:
    """The first claim of the pod's group that keeps devices from an attempt of which no pod is left: without its
    reservation it can get others. A text where a claim before it is missing, which ends the round."""
    pod, groups = context.pod, context.view.groups
    if any(uid not in context.on_trial for uid in groups.members(group.reference.key).placed):
        return None
    for entry in group.claims:
        name = entry.claim_name or entry.made
        if name is None:
            return f"PodGroup {group.reference.key}: ResourceClaim not created yet"
        if not name:
            continue
        claim = context.view.find(ResourceClaim, f"{pod.namespace}/{name}")
        if claim is None:
            return f'could not find ResourceClaim "{pod.namespace}/{name}"'
        if entry.claim_name is None and not is_of_group(pod, claim):
            continue
        if claim.allocation is not None and is_reserved(claim, pod, groups):
            return claim
    return None
