"""Who waits for which answer.

A command that wants an answer carries a ticket; its owner is kept here, as a value, until the answer comes. So the
engine finds the machine that the answer is for by the owner's type, and an answer that no machine waits for any more
finds no owner.
"""

from __future__ import annotations

import msgspec

from scheduler.cluster.pod_info import PodInfo


class CycleTicket(msgspec.Struct, frozen=True):
    """An extender's answer to the scheduling cycle that waits for it."""


class BindingTicket(msgspec.Struct, frozen=True):
    """What ``plugin`` (a plugin, an extender, the Binding itself) does for the pod that is being bound."""

    uid: str
    plugin: str


class VictimTicket(msgspec.Struct, frozen=True):
    """The condition or, with ``is_deletion``, the deletion or eviction of a victim."""

    preemptor_uid: str
    victim: PodInfo
    is_deletion: bool


TicketOwner = CycleTicket | BindingTicket | VictimTicket


class Tickets:
    """The owners of all tickets whose answers are outstanding. Tickets count up from 1; 0 stands for no answer."""

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
        """The owner, to which the answer now goes. None for an answer that is no longer waited for."""
        return self._owners.pop(ticket, None)

    def drop(self, ticket: int) -> None:
        """The answer is no longer waited for."""
        self._owners.pop(ticket, None)
