"""What a scheduling cycle comes to."""

from __future__ import annotations

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.plugin import State
from scheduler.framework.post_filter import CLEAR_NOMINATION, Nomination, Room
from scheduler.messages.claim_commands import ClaimCommand
from scheduler.messages.status import Skip
from scheduler.messages.stimuli import PermitDecided, PodsActivated


class GroupPermitted(msgspec.Struct, frozen=True):
    """A Permit plugin lets the pods of a group (``namespace/name``) go that wait for it, those placed so far."""

    group: str
    plugin: str


PodRequest = PermitDecided | PodsActivated | GroupPermitted


class Placed(msgspec.Struct, frozen=True):
    """A node was found; the pod is assumed there and its plugins have set aside what it needs."""

    pod: PodInfo
    """With ``node_name`` set."""
    states: dict[str, State | Skip]
    unconcerned: frozenset[str] = frozenset()
    """Plugins that have nothing to say about the pod."""
    waits: dict[str, float] = msgspec.field(default_factory=dict)
    """Permit plugins that said "not yet" → seconds to wait at most."""
    requests: tuple[PodRequest, ...] = ()
    """What plugins ask about other pods."""


class NotPlaced(msgspec.Struct, frozen=True):
    """No node, for now.

    ``is_error``: a fault (of a plugin, an object, a write) rather than a lack of room; the pod is retried after
    the error back-off whatever happens in the cluster. Without any plugin in the two sets the queue treats it so too
    (docs/kube-scheduler/cycle.md §9).
    """

    message: str
    is_error: bool = False
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    nomination: Nomination = CLEAR_NOMINATION
    room: Room | None = None
    """What is to be done so that the pod finds room."""
    writes: tuple[ClaimCommand, ...] = ()
    """What PostFilter plugins want to be written, if the pod still waits."""
    requests: tuple[PodRequest, ...] = ()
    """What plugins ask about other pods."""


CycleOutcome = Placed | NotPlaced

NO_NODES = "no nodes available to schedule pods"
