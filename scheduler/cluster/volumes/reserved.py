"""The effects of VolumeBinding: what Reserve sets aside for a pod's claims, and its release."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.objects.storage import PersistentVolume, PersistentVolumeClaim


@dataclass(frozen=True, slots=True)
class StaticBinding:
    """An existing volume for a claim."""

    volume: PersistentVolume
    """With the claim in its ``claimRef``, and the resourceVersion that it was read with."""
    claim: PersistentVolumeClaim
    is_changed: bool
    """Whether the volume differs from the one in the API."""


@dataclass(frozen=True, slots=True)
class Provision:
    """A claim whose volume is yet to be made."""

    claim: PersistentVolumeClaim
    """With the selected node in its annotations, and the resourceVersion that it was read with."""
    is_changed: bool


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a pod on its way to ``node`` has set aside. Bindings are sorted by the name of the volume."""

    pod_uid: str
    node: str
    bindings: tuple[StaticBinding, ...]
    provisions: tuple[Provision, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """The pod is not coming: what it has set aside is free again. Nothing happens if it has nothing."""

    pod_uid: str
