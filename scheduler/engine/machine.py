"""Claims of the engine's machines: the state that each reads, and the state that it alone writes.

Each machine states its claims as a value. No part of the state has two machines that write it, and no type of ticket
or deadline two that own it. What a machine only reads it gets by a protocol without any method that changes it, so
that the type checker holds it to its claims.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from enum import Enum
from typing import Protocol

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.engine.deadlines import Deadline
from scheduler.engine.tickets import ClaimTicket, TicketOwner
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject


class Part(Enum):
    """The parts of the engine's state, by the name of the engine's attribute."""

    CACHE = "cache"
    QUEUE = "queue"
    KNOWN_PODS = "known_pods"
    NOMINATOR = "nominator"
    BINDINGS = "bindings"
    ROOM = "room"
    REPORTS = "reports"
    CYCLES = "cycles"
    CLASSES = "classes"
    ATTEMPTS = "attempts"
    GROUP_CYCLES = "group_cycles"
    GROUP_REPORTS = "group_reports"

    __hash__ = object.__hash__


class Claims(msgspec.Struct, frozen=True):
    """What one machine writes and reads of the engine's state, and the tickets and deadlines that it owns."""

    writes: frozenset[Part]
    reads: frozenset[Part] = frozenset()
    tickets: frozenset[type[TicketOwner]] = frozenset()
    deadlines: frozenset[type[Deadline]] = frozenset()


HANDLERS = Claims(
    writes=frozenset({Part.CACHE, Part.QUEUE, Part.KNOWN_PODS, Part.NOMINATOR}),
    reads=frozenset({Part.BINDINGS, Part.ROOM}),
    tickets=frozenset({ClaimTicket}),
)
"""Of ``queue/handlers.py``, which knows nothing of the engine."""


class ReadsView(Protocol):
    @property
    def view(self) -> View: ...


class ReadsObjects(Protocol):
    def all(self, kind: Kind) -> Mapping[str, ApiObject]: ...


class ReadsCache(Protocol):
    @property
    def objects(self) -> ReadsObjects: ...


class ReadsPods(Protocol):
    """The pods that the watch has shown, as they are now."""

    def get(self, key: str) -> PodInfo | None: ...

    def by_uid(self, uid: str) -> PodInfo | None: ...

    def __iter__(self) -> Iterator[PodInfo]: ...


class ReadsNominations(Protocol):
    def nominated_node(self, uid: str) -> str: ...

    def pods_for_node(self, node_name: str) -> Sequence[PodInfo]: ...

    def is_foreign(self, uid: str) -> bool: ...

    @property
    def uids(self) -> Set[str]: ...


class ReadsBindings(Protocol):
    def can_cancel(self, uid: str) -> bool: ...


class ReadsRoom(Protocol):
    """The facts about running preemptions that PreEnqueue plugins may read."""

    def is_removing_for(self, uid: str) -> bool: ...

    @property
    def held_back(self) -> Collection[str]: ...
