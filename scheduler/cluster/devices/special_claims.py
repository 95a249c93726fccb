"""Claims that a scheduler made for the extended resources of pods, by the pod that each belongs to."""

from __future__ import annotations

from scheduler.cluster.forkable import ForkableDict
from scheduler.objects.meta import controller_of
from scheduler.objects.resource_claims import EXTENDED_RESOURCE_CLAIM_ANNOTATION, ResourceClaim


def special_claim_uid(pod_uid: str) -> str:
    """A placeholder UID for the claim that will be created for a pod's extended resources."""
    return f"extended-resources:{pod_uid}"


def pod_of_special_claim(claim: ResourceClaim) -> str | None:
    """The UID of the pod for whose extended resources the claim was made; None for every other claim."""
    if claim.annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) != "true":
        return None
    owner = controller_of(claim.metadata)
    return None if owner is None else owner.uid


class SpecialClaims:
    """Pod UID → its claims, by UID."""

    def __init__(self) -> None:
        self._claims: ForkableDict[str, dict[str, ResourceClaim]] = ForkableDict()

    def of(self, pod_uid: str) -> tuple[ResourceClaim, ...]:
        return tuple(self._claims.get(pod_uid, {}).values())

    def observe(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Note that ``new`` has taken the place of ``old``; None: there was none, or is none any more."""
        for claim in (old, new):
            pod_uid = None if claim is None else pod_of_special_claim(claim)
            if claim is None or pod_uid is None:
                continue
            claims = {uid: one for uid, one in self._claims.get(pod_uid, {}).items() if uid != claim.uid}
            if claim is new:
                claims[claim.uid] = claim
            if claims:
                self._claims[pod_uid] = claims
            else:
                self._claims.pop(pod_uid, None)

    def fork(self) -> SpecialClaims:
        """The same; neither side sees what the other does from now on."""
        other = SpecialClaims()
        other._claims = self._claims.fork()
        return other
