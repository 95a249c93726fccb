"""The effects of DynamicResources: what Reserve sets aside for a pod's claims, and its release."""

from __future__ import annotations

from msgspec import Struct

from scheduler.objects.resource_claims import Allocation


class ClaimInFlight(Struct, frozen=True):
    """An allocation that was decided and is not written yet."""

    claim_uid: str
    claim_key: str
    allocation: Allocation


class SetAside(Struct, frozen=True):
    """The claims of a pod that is on its way to ``node``. ``decision``: all that is to be written, for the plugin."""

    pod_uid: str
    node: str
    claims: tuple[ClaimInFlight, ...]
    decision: object = None


class GiveBack(Struct, frozen=True):
    """What is set aside for a pod is free again. Nothing happens if it has nothing."""

    pod_uid: str
