"""References to objects of the API server, as commands name them."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from scheduler.objects.kinds import Kind


class _Reference(msgspec.Struct, frozen=True):
    """An object by name and UID: a name can be used again, so the UID goes along as a precondition."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class PodReference(_Reference, frozen=True):
    """Identifies a pod."""


class ClaimReference(_Reference, frozen=True):
    """Identifies a ResourceClaim."""


class LeaseReference(_Reference, frozen=True):
    """Identifies a Lease."""

    kind: ClassVar[Kind] = Kind.LEASE
