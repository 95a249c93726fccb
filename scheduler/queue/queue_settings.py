"""What a scheduling queue is made with."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import ClusterEvent
from scheduler.messages.status import Refusal
from scheduler.queue.active import QueueSort
from scheduler.queue.hints import HintMap
from scheduler.queue.in_flight import EVENT_LIMIT
from scheduler.queue.queued_pod import QueuedPod


class PreEnqueue(Protocol):
    """The PreEnqueue plugins of all profiles (``gates.py``)."""

    def __call__(self, record: QueuedPod) -> Refusal | None:
        """Runs the plugins of the pod's profile: None, or the first refusal, signed."""
        ...

    def held_back(self, profile: str, name: str) -> Collection[str]:
        """UIDs of pods that the named plugin is certain to refuse again."""
        ...

    def may_release(self, profile: str, name: str, event: ClusterEvent) -> bool:
        """Whether an event of this kind may change what the named plugin said of a pod."""
        ...


GroupOf = Callable[[PodInfo], str]
"""``namespace/name`` of the group with which a pod is tried; "" without one."""


def no_group(_pod: PodInfo) -> str:
    return ""


class QueueSettings(Struct, frozen=True):
    """Seconds, as in the configuration. ``pops_from_backoff``: the gate SchedulerPopFromBackoffQ."""

    initial_backoff: float = 1.0
    maximum_backoff: float = 10.0
    maximum_in_pool: float = 300.0
    pops_from_backoff: bool = True
    steps_a_slice: int = 0
    """Asked groups and moved pods after which a long wake is interrupted; 0: it never is."""
    event_limit: int = EVENT_LIMIT


class QueuePlugins(Struct, frozen=True):
    """What the queue asks of the plugins of all profiles. ``queue_sort`` is that of the first one."""

    queue_sort: QueueSort
    hints: HintMap
    pre_enqueue: PreEnqueue
