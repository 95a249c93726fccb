"""The binding cycle of one pod: its states and the table of their transitions."""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.errors import InvariantViolation
from scheduler.extenders.extender import Extender
from scheduler.framework.plugin import PreBindPlugin, PreFlight, State
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.messages.references import PodReference
from scheduler.messages.status import Skip
from scheduler.messages.stimuli import WriteFinished
from scheduler.queue.queued_pod import QueuedPod


class BindingState(Enum):
    """How far the binding of one pod has come; BINDING_MOVES has the transitions."""

    STARTED = "Started"
    PERMIT_WAIT = "PermitWait"
    PRE_BIND_WRITE = "PreBindWrite"
    PRE_BIND_WAIT = "PreBindWait"
    BINDING = "Binding"
    UNKNOWN = "BindUnknown"
    BOUND = "Bound"
    FAILED = "Failed"
    ABANDONED = "Abandoned"

    __hash__ = object.__hash__


BINDING_MOVES: Final[dict[tuple[BindingState, BindingState], str]] = {
    (BindingState.STARTED, BindingState.PERMIT_WAIT): "a Permit plugin says wait",
    (BindingState.STARTED, BindingState.PRE_BIND_WRITE): "there is work before binding",
    (BindingState.STARTED, BindingState.BINDING): "there is none",
    (BindingState.STARTED, BindingState.FAILED): "a pre-flight fails",
    (BindingState.PERMIT_WAIT, BindingState.PRE_BIND_WRITE): "all plugins allow it, and there is work before binding",
    (BindingState.PERMIT_WAIT, BindingState.BINDING): "all plugins allow it",
    (BindingState.PERMIT_WAIT, BindingState.FAILED): "rejected, timed out, deleted or preempted",
    (BindingState.PRE_BIND_WRITE, BindingState.PRE_BIND_WAIT): "the writes are done, what they set going is not",
    (BindingState.PRE_BIND_WRITE, BindingState.PRE_BIND_WRITE): "the next plugins follow",
    (BindingState.PRE_BIND_WRITE, BindingState.BINDING): "the last plugin is done",
    (BindingState.PRE_BIND_WRITE, BindingState.FAILED): "a plugin or write fails, or the pod is preempted",
    (BindingState.PRE_BIND_WAIT, BindingState.PRE_BIND_WAIT): "a second later it is not done yet",
    (BindingState.PRE_BIND_WAIT, BindingState.PRE_BIND_WRITE): "the next plugins follow",
    (BindingState.PRE_BIND_WAIT, BindingState.BINDING): "the last plugin is done",
    (BindingState.PRE_BIND_WAIT, BindingState.FAILED): "a plugin fails or takes too long, or the pod is preempted",
    (BindingState.BINDING, BindingState.BOUND): "bound",
    (BindingState.BINDING, BindingState.UNKNOWN): "no answer, or none that is conclusive",
    (BindingState.BINDING, BindingState.FAILED): "refused",
    (BindingState.UNKNOWN, BindingState.BINDING): "after a back-off the same bind is sent again",
    (BindingState.UNKNOWN, BindingState.BOUND): "the watch shows the pod on its node",
    (BindingState.UNKNOWN, BindingState.FAILED): "the watch shows the pod on another node, or gone",
    (BindingState.PERMIT_WAIT, BindingState.ABANDONED): "shutdown",
    (BindingState.PRE_BIND_WRITE, BindingState.ABANDONED): "shutdown",
    (BindingState.PRE_BIND_WAIT, BindingState.ABANDONED): "shutdown",
}
"""From and to, with the cause. No other transition is possible."""

SENT: Final = (BindingState.BINDING, BindingState.UNKNOWN)
"""The API server may have the bind: the pod can no longer be unreserved."""


LATE_BIND_SECONDS: Final = 120.0
"""Seconds after which a bind that had no answer is carried out no more: twice the time after which a kube-apiserver
gives up a request, unless its ``--request-timeout`` says more."""


class Binding(msgspec.Struct, eq=False):
    """The binding cycle of one pod."""

    queued: QueuedPod
    pod: PodInfo
    profile: Profile
    attempt: Attempt
    states: dict[str, State | Skip]
    state: BindingState = BindingState.STARTED
    waits: dict[str, float] = msgspec.field(default_factory=dict)
    """Permit plugins that have not decided → the seconds they asked for."""
    work: list[tuple[PreBindPlugin, PreFlight]] = msgspec.field(default_factory=list)
    """PreBind plugins not started yet, in order."""
    running: dict[str, tuple[PreBindPlugin, PreFlight]] = msgspec.field(default_factory=dict)
    """Running PreBind plugins by name."""
    tickets: set[int] = msgspec.field(default_factory=set)
    """Tickets of outstanding answers."""
    binders: list[Extender | str] = msgspec.field(default_factory=list)
    """Binders not asked yet: extenders, then Bind plugins by name."""
    asked: Extender | None = None
    """The extender that is binding the pod."""
    unknown_outcomes: int = 0
    """The number of binds of this pod without a conclusive answer."""
    is_open_until: float = 0.0
    """Monotonic second until which a bind of this pod that had no answer may still be carried out, or its node be
    shown."""
    give_up_at: dict[str, float] = msgspec.field(default_factory=dict)
    """PreBind plugin → monotonic second at which its wait ends."""

    waiting_since: dict[str, float] = msgspec.field(default_factory=dict)
    """PreBind plugin whose wait is reported → monotonic second at which it began."""
    waits_since: float = 0.0
    """Monotonic second at which the wait in Permit began."""

    @property
    def runs_plugins(self) -> bool:
        """Whether a ``pre_bind`` of a user plugin is under way."""
        is_writing = self.state is BindingState.PRE_BIND_WRITE
        return is_writing and any(not each.writes and each.wait_seconds is None for _, each in self.running.values())

    @property
    def reference(self) -> PodReference:
        return PodReference(self.pod.namespace, self.pod.name, self.pod.uid)

    def become(self, state: BindingState) -> None:
        """Raises InvariantViolation for a change that is not in the table."""
        if (self.state, state) not in BINDING_MOVES:
            raise InvariantViolation(f"binding of pod {self.pod.key} can't go from {self.state.value} to {state.value}")
        self.state = state


def is_undecided(binding: Binding, outcome: WriteFinished, now: Now) -> bool:
    """Whether the pod may have its node in spite of this failed bind, by this request or by an earlier one."""
    is_first = binding.unknown_outcomes == 0
    if outcome.is_unknown and (is_first or not outcome.is_unread):
        binding.is_open_until = now.monotonic + LATE_BIND_SECONDS
        return True
    # A refusal after which the pod can't be read prolongs nothing: the right to read it may never come back. If the pod
    # has its node by an earlier bind, the watch shows it, and the API server refuses to bind it to another one.
    is_over = (outcome.is_unbound or outcome.is_unread) and now.monotonic >= binding.is_open_until
    return not (is_first or outcome.is_conclusive or is_over)
