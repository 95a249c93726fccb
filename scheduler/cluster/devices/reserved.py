"""The effects of DynamicResources: what Reserve sets aside for a pod's claims, and its release."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from scheduler.objects.meta import ObjectMeta
from scheduler.objects.resource_claims import Allocation, ResourceClaim, ResourceClaimStatus


class ClaimInFlight(Struct, frozen=True):
    """An allocation that was decided and is not written yet."""

    claim_uid: str
    claim_key: str
    allocation: Allocation

    def given_up(self) -> tuple[ResourceClaim, ResourceClaim]:
        """The claim with its devices, and without them: as what has happened would look if they had been written."""
        namespace, _, name = self.claim_key.partition("/")
        without = ResourceClaim(metadata=ObjectMeta(name=name, namespace=namespace, uid=self.claim_uid))
        return replace(without, status=ResourceClaimStatus(allocation=self.allocation)), without


class SetAside(Struct, frozen=True):
    """The claims of a pod assumed on ``node``. ``decision``: all that is to be written, opaque to the cache."""

    pod_uid: str
    node: str
    claims: tuple[ClaimInFlight, ...]
    decision: object = None


class GiveBack(Struct, frozen=True):
    """Releases what is set aside for a pod, if anything is."""

    pod_uid: str
