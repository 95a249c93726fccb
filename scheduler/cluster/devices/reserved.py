"""The effects of DynamicResources: what Reserve sets aside for a pod's claims, and its release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scheduler.objects.resource_claims import Allocation


@dataclass(frozen=True, slots=True)
class ClaimInFlight:
    """An allocation that was decided and is not written yet."""

    claim_uid: str
    claim_key: str
    allocation: Allocation


@dataclass(frozen=True, slots=True)
class SetAside:
    """The claims of a pod that is on its way to ``node``. ``decision``: all that is to be written, for the plugin."""

    pod_uid: str
    node: str
    claims: tuple[ClaimInFlight, ...]
    decision: Any = None


@dataclass(frozen=True, slots=True)
class GiveBack:
    """What is set aside for a pod is free again. Nothing happens if it has nothing."""

    pod_uid: str
