"""Results of handling a change or a failed attempt, and the questions that the handling asks the engine."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from msgspec import Struct

from scheduler.cluster.cache import Confirmation
from scheduler.cluster.pod_info import PodInfo
from scheduler.queue.waking import Only


class Aftermath(Struct, frozen=True):
    """What the engine has to do after a change was handled."""

    confirmation: Confirmation | None = None
    """How the cache took an assigned pod; MOVED: it runs elsewhere than was assumed."""
    reject_waiting: str = ""
    """UID of a pod that waits in Permit although it is being deleted: reject it with the message ``removed``; its
    binding cycle cleans up."""


NOTHING = Aftermath()


class Fate(Enum):
    """What became of a pod whose attempt failed."""

    REQUEUED = "requeued"
    GONE = "gone"
    """Deleted meanwhile."""
    BOUND = "bound"
    """Assigned meanwhile, by any scheduler."""
    RECREATED = "recreated"
    """Another pod of its name exists: no event, no condition may be written for it on behalf of the old one."""


class PermitWaits(Protocol):
    def waits_in_permit(self, uid: str) -> bool:
        """Whether the pod is assumed, and waits for Permit plugins."""
        ...


class VictimsEnd(Protocol):
    def concerned_by(self, gone: PodInfo) -> Only | None:
        """The pods that get the event of this one leaving its node; None = all."""
        ...
