"""Writes of ResourceClaims. Each is answered with WriteFinished; ``ticket`` 0: no outcome is reported."""

from __future__ import annotations

from typing import Self

import msgspec

from scheduler.messages.references import ClaimReference, PodReference
from scheduler.objects.pod import ContainerExtendedResourceRequest
from scheduler.objects.resource_claims import Allocation, ClaimConsumer, DeviceRequest, ResourceClaim


class _ClaimCommand(msgspec.Struct, frozen=True):
    ticket: int
    claim: ClaimReference

    def with_ticket(self, ticket: int) -> Self:
        """The same write, to be answered under this ticket."""
        return msgspec.structs.replace(self, ticket=ticket)


class ReserveClaim(_ClaimCommand, frozen=True):
    """Reserve a claim for a pod or a group of pods, and write its allocation if it is given here; an allocation without
    its time gets it. Tried again on a conflict, as long as the claim is neither being deleted nor allocated
    otherwise."""

    consumer: ClaimConsumer
    known: ResourceClaim
    """The resourceVersion on which the decision was based."""
    allocation: Allocation | None = None


class CreateClaim(_ClaimCommand, frozen=True):
    """Make the claim for a pod's extended resources, allocate and reserve it, and name it in the pod's status. What
    was made is deleted if the rest fails. ``claim`` has neither name nor UID yet."""

    pod: PodReference
    allocation: Allocation
    requests: tuple[DeviceRequest, ...]
    mappings: tuple[ContainerExtendedResourceRequest, ...]
    nominated_node: str = ""
    """Written with the claim's name, so that the nomination costs no request of its own; "" leaves it as it is."""


class UnreserveClaim(_ClaimCommand, frozen=True):
    """Remove the claim's reservation for the pod or the group; its allocation stays."""

    consumer: ClaimConsumer


class DeallocateClaim(_ClaimCommand, frozen=True):
    """Take the allocation, the reservations and the drivers' statuses out of this very version of the claim."""

    resource_version: str


class DeleteClaim(_ClaimCommand, frozen=True):
    """Delete a claim that the scheduler made, finalizer and all."""


ClaimCommand = ReserveClaim | CreateClaim | UnreserveClaim | DeallocateClaim | DeleteClaim
