"""The effects of VolumeBinding: what Reserve sets aside for a pod's claims, and its release."""

from __future__ import annotations

from msgspec import Struct

from scheduler.objects.storage import PersistentVolume, PersistentVolumeClaim


class StaticBinding(Struct, frozen=True):
    """An existing volume for a claim."""

    volume: PersistentVolume
    """With the claim in its ``claimRef``, and the resourceVersion that it was read with."""
    claim: PersistentVolumeClaim
    is_changed: bool
    """Whether the volume differs from the one in the API."""


class Provision(Struct, frozen=True):
    """A claim whose volume is yet to be made."""

    claim: PersistentVolumeClaim
    """With the selected node in its annotations, and the resourceVersion that it was read with."""
    is_changed: bool


class Reservation(Struct, frozen=True):
    """Volumes and claims set aside for a pod assumed on ``node``. Bindings come in the order of their claims' sizes."""

    pod_uid: str
    node: str
    bindings: tuple[StaticBinding, ...]
    provisions: tuple[Provision, ...]


class Release(Struct, frozen=True):
    """Releases the pod's reservation, if it has one."""

    pod_uid: str
