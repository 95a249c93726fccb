"""Owners of outstanding answers.

A command that wants an answer carries a ticket; its owner is kept here, as a value, until the answer comes. So the
engine finds the machine that the answer is for by the owner's type, and an answer that no machine waits for any more
has no owner.
"""

from __future__ import annotations

import msgspec

from scheduler.cluster.pod_info import PodInfo


class CycleTicket(msgspec.Struct, frozen=True):
    """An extender's answer to the suspended scheduling cycle."""


class GroupTicket(msgspec.Struct, frozen=True):
    """An extender's answer to the scheduling cycle of a group's member."""


class BindingTicket(msgspec.Struct, frozen=True):
    """A call of ``plugin`` (a plugin, an extender, or the Binding itself) for the pod that is being bound."""

    uid: str
    plugin: str


class VictimTicket(msgspec.Struct, frozen=True):
    """The condition or, with ``is_deletion``, the deletion or eviction of a victim."""

    preemptor_uid: str
    victim: PodInfo
    is_deletion: bool


class ClaimTicket(msgspec.Struct, frozen=True):
    """The write of a ResourceClaim outside of a binding. ``waiting_pod``: the UID of the pod in the queue that waits
    for what it does, "" if none does."""

    waiting_pod: str = ""


TicketOwner = CycleTicket | GroupTicket | BindingTicket | VictimTicket | ClaimTicket


class Tickets:
    """The owners of all outstanding tickets. Tickets count up from 1; 0 means that no answer is expected."""

    __slots__ = ("_last", "_owners")

    def __init__(self) -> None:
        self._last = 0
        self._owners: dict[int, TicketOwner] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def issue(self, owner: TicketOwner) -> int:
        self._last = ticket = self._last + 1
        self._owners[ticket] = owner
        return ticket

    def take(self, ticket: int) -> TicketOwner | None:
        """Remove and return the owner of an answer; None if the answer is no longer expected."""
        return self._owners.pop(ticket, None)

    def drop(self, ticket: int) -> None:
        """Drop a ticket; its answer is no longer expected."""
        self._owners.pop(ticket, None)
