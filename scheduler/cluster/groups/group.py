"""A group of pods as scheduling sees it, and the seam to the APIs that name groups.

Each API is one ``GroupApi``: the kind of its objects, how a pod names its group, and how an object becomes a ``Group``.
Nothing else in the scheduler knows of any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

import msgspec

from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject, Condition
from scheduler.objects.pod import Pod

GANG_PLUGIN: Final = "GangScheduling"
"""The plugin that demands the quorum: before a pod is queued, and in Permit."""

PERMIT_SECONDS: Final = 300.0
"""Seconds that a member waits in Permit for the quorum, where the API states nothing else."""


class DisruptionMode(Enum):
    """What of a group may be preempted."""

    POD = "Pod"
    GROUP = "PodGroup"
    """All of the group or none."""


class GroupReference(msgspec.Struct, frozen=True):
    """The object of a group. A name can be used again, so the UID goes along as a precondition."""

    kind: Kind
    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class GroupClaim(msgspec.Struct, frozen=True):
    """A ResourceClaim that the group's pods share. ``claim_name`` or ``template_name`` is stated; ``made`` is the name
    of the claim that was made from the template: None before it is stated, "" where none is needed."""

    name: str
    claim_name: str | None
    template_name: str | None
    made: str | None = None


class Group(msgspec.Struct, frozen=True):
    """What an API's object says about a group."""

    reference: GroupReference
    min_count: int | None = None
    """The quorum: at least this number of pods start, or none. None: a group without a quorum."""
    topology_key: str = ""
    """The node label of whose values all pods must have one; "" for none."""
    has_constraints: bool = False
    """Whether it states constraints of placement, even if they demand nothing."""
    demands_topology: bool = False
    """Whether it states a topology, even if that is not honoured: no victims are sought for such a group as a whole."""
    priority: int | None = 0
    """The group's own; its pods' priorities are independent of it. None: it has none, and its least important pod
    decides what may be preempted for it."""
    disruption: DisruptionMode = DisruptionMode.POD
    preempts_as_one: bool = False
    """Whether victims are sought for the group as a whole, of a lower priority than the group's; else for each of its
    pods, of a lower priority than the pod's."""
    permit_seconds: float = PERMIT_SECONDS
    min_resources: tuple[tuple[str, int], ...] = ()
    """Resource → what must be free in the whole cluster before the group is tried, in the units of ``NodeColumns``."""
    fault: str = ""
    """What is wrong with the object; none of its pods is tried then, and each says so. "" for nothing."""
    claims: tuple[GroupClaim, ...] = ()
    """The claims that are reserved for the group instead of its pods."""
    scheduled: Condition | None = None
    """The condition that reports whether the group is scheduled, as the object has it; None: it has none."""
    reports_condition: bool = True
    """Whether the scheduler writes that condition."""


class GroupApi(msgspec.Struct, frozen=True):
    """One API that names groups."""

    kind: Kind
    name_in: Callable[[Pod], str]
    """The name of the pod's group in its namespace; "" if the API names none."""
    read: Callable[[ApiObject], Group]
    has_claims: bool = False
    """Whether its groups may have ResourceClaims of their own."""
    preempts_as_one: bool = False
    """Whether no pod that names a group preempts for itself, also while no object describes the group."""
