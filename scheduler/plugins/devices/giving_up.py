"""PostFilter: which claim gives its devices back when no node fits (docs/kube-scheduler/dra.md §10)."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.post_filter import Chance, PostFilterAnswer
from scheduler.messages.claim_commands import ClaimReference, DeallocateClaim, DeleteClaim
from scheduler.messages.status import unschedulable
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.plugins.devices.situation import Situation

DEALLOCATED = unschedulable("deallocation of ResourceClaim completed")
DELETED = unschedulable("deletion of ResourceClaim completed")
STILL_NOT_SCHEDULABLE = unschedulable("still not schedulable")


def give_up(situation: Situation, pod: PodInfo, unavailable: Sequence[ResourceClaim], rng: Chance) -> PostFilterAnswer:
    """``unavailable``: claims that kept the pod from some node which could have given the others."""
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
    return PostFilterAnswer(STILL_NOT_SCHEDULABLE)
