"""The effects of DynamicResources: what Reserve sets aside for a pod's claims, and its release."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from scheduler.objects.meta import ObjectMeta
from scheduler.objects.resource_claims import Allocation, ClaimConsumer, ResourceClaim, ResourceClaimStatus


class ClaimInFlight(Struct, frozen=True):
    """An allocation that was decided and is not written yet."""

    claim_uid: str
    claim_key: str
    allocation: Allocation


class GivenUp(Struct, frozen=True):
    """A claim in flight that has not got its devices, as it is now known. ``is_certain``: False where a write had no
    answer and may have been done."""

    claim: ResourceClaim
    allocation: Allocation
    is_certain: bool

    @classmethod
    def of(cls, flying: ClaimInFlight, known: ResourceClaim | None, *, is_certain: bool) -> GivenUp:
        """The claim in flight as given up. ``known``: the claim that has its key now."""
        if known is None or known.uid != flying.claim_uid:
            namespace, _, name = flying.claim_key.partition("/")
            known = ResourceClaim(metadata=ObjectMeta(name=name, namespace=namespace, uid=flying.claim_uid))
        return cls(replace(known, status=ResourceClaimStatus()), flying.allocation, is_certain)

    @property
    def before(self) -> ResourceClaim:
        """The claim before that, as it would look if what was in flight had been written: with its devices, or, where
        others must not count on them, just reserved."""
        written = ResourceClaimStatus(allocation=self.allocation) if self.is_certain else _RESERVED
        return replace(self.claim, status=written)


_RESERVED = ResourceClaimStatus(reserved_for=(ClaimConsumer(resource="pods"),))


class SetAside(Struct, frozen=True):
    """The claims of a pod assumed on ``node``. ``decision``: all that is to be written, opaque to the cache."""

    pod_uid: str
    node: str
    claims: tuple[ClaimInFlight, ...]
    decision: object = None


class GiveBack(Struct, frozen=True):
    """Releases what is set aside for a pod, if anything is."""

    pod_uid: str
