"""Internal stimuli: messages from one machine of the engine to another.

A machine answers each stimulus with a list of steps: commands for the shell, and internal stimuli for other machines.
The engine takes the steps in order; what an internal stimulus leads to takes its place in the list. So a machine
never calls another one, and each step meets a state in which the step before it is complete.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.binding import Binding
from scheduler.engine.commands import Command
from scheduler.engine.group_attempt import GroupAttempt
from scheduler.engine.outcome import CycleOutcome, GroupPermitted, NotPlaced
from scheduler.framework.profile import Profile
from scheduler.messages.references import PodReference
from scheduler.messages.stimuli import PermitDecided, PodsActivated
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.queue.queued_pod import QueuedPod


class CycleEnded(msgspec.Struct, frozen=True):
    """A scheduling cycle has ended."""

    queued: QueuedPod
    profile: Profile
    attempt: Attempt
    outcome: CycleOutcome


class DeadlinesDue(msgspec.Struct, frozen=True):
    """A Tick has moved the pods whose time has come; the other deadlines follow."""


class GroupCycleEnded(msgspec.Struct, frozen=True):
    """A group has been tried, and all its members' cycles have ended."""

    attempt: GroupAttempt


class RoomTakenBack(msgspec.Struct, frozen=True):
    """A pod that counted on its node, for its group or by a nomination, does not any more: others may use the room."""

    pod: PodInfo


class ObjectLearned(msgspec.Struct, frozen=True):
    """A write's answer shows an object's new state, ahead of the watch."""

    kind: Kind
    object: ApiObject


class AllocationSent(msgspec.Struct, frozen=True):
    """A claim's allocation is on its way to the API server: its devices stay taken until the answer comes, whatever
    becomes of the pod."""

    ticket: int
    claim_uid: str


class AttemptSettled(msgspec.Struct, frozen=True):
    """A failure of the pod's binding is an error from now on: the queue need not keep events for it."""

    uid: str


class BindingFailed(msgspec.Struct, frozen=True):
    """A binding cycle has failed: unreserve, forget, requeue, report."""

    binding: Binding
    failure: NotPlaced


class PodBound(msgspec.Struct, frozen=True):
    """The binding has succeeded."""

    uid: str


class RejectWaiting(msgspec.Struct, frozen=True):
    """The pod waits in Permit and is being deleted."""

    uid: str


class CancelBinding(msgspec.Struct, frozen=True):
    """A pod that is not bound yet is preempted by another one, or its binding met a bug, which ``message`` names."""

    uid: str
    message: str = ""


class VictimSettled(msgspec.Struct, frozen=True):
    """A victim needs no further write, and its effect on the cluster has been applied."""

    preemptor_uid: str
    victim_uid: str


class PodsReady(msgspec.Struct, frozen=True):
    """The room that these pods (``namespace/name``) wait for may be free."""

    keys: Sequence[str]


class NominationChanged(msgspec.Struct, frozen=True):
    """The pod's nominated node is to be written to its status; "" clears it. ``is_carried``: by a write of a PreBind
    plugin."""

    pod: PodReference
    node: str
    is_carried: bool = False


Internal = (
    CycleEnded
    | DeadlinesDue
    | GroupCycleEnded
    | RoomTakenBack
    | ObjectLearned
    | AllocationSent
    | AttemptSettled
    | BindingFailed
    | PodBound
    | RejectWaiting
    | CancelBinding
    | VictimSettled
    | NominationChanged
    | PodsReady
    | PodsActivated
    | PermitDecided
    | GroupPermitted
)
Step = Command | Internal
Steps = Sequence[Step]
