"""Detects pods that we bound and the kubelet refused, counts them, and avoids their nodes for a while.

Two schedulers may fill the last room of a node at the same moment; the kubelet then fails one of the pods (OutOfcpu,
OutOfmemory and the like), and its owner creates another. To keep that one from failing likewise, the engine is given
the node with an additional taint, for half a minute and then longer each time. The taint is not written: other
schedulers, and pods that tolerate everything, may use the node. If the reason is the pod's own (``kubelet_reasons``),
only pods of the same controller avoid the node.

A pod that has ended leaves the watch as a deletion, with its last known state. So a pod of ours that is gone without
having been accepted by a kubelet or deleted by a client is looked up; pods of its controller avoid its node from that
moment on, since the controller may be quicker than the answer.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import structlog
from msgspec import Struct

from scheduler.controller.beside.kubelet_reasons import ROOM_PREFIX, Concern, concern_of
from scheduler.controller.beside.workload_avoidance import WorkloadAvoidance, owner_of
from scheduler.controller.report import instruments
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.requests import pod_path
from scheduler.engine.attempt import SCHEDULED, Attempt
from scheduler.errors import ApiError, InvalidObject
from scheduler.messages.references import PodReference
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, Stimulus
from scheduler.objects.kinds import Kind, decode_as
from scheduler.objects.node import Node, Taint
from scheduler.objects.pod import Pod

TAINT: Final = Taint("tandem.scheduling/refused-by-kubelet", "", "NoSchedule")
BACKOFF_SECONDS: Final = 30.0
MAX_BACKOFF_SECONDS: Final = 300.0
MEMORY_SECONDS: Final = 600.0
"""Time without a refusal after which a node's back-off is reset."""
PLACEMENTS_KEPT: Final = 20_000
MAX_GONE_KEPT: Final = 1_000
MAX_LOOKUPS_WAITING: Final = 1_000
LOOKUP_SECONDS: Final = 10.0

MAX_SHARE_LEFT_ALONE: Final = 0.1
"""Maximum share of all nodes, and at least one node, that is avoided at a time. Two schedulers that fill the last room
of a node affect single nodes; a tenth of a cluster that refuses at once has another cause."""
MAX_REASONS_COUNTED: Final = 64
"""Distinct reasons counted; beyond, the metric's label omits the resource's name, since reasons are foreign input."""

log = structlog.get_logger()


class KubeletRefusals:
    """``placed`` takes finished attempts; ``nodes_for_engine`` and ``pods_for_engine`` map watch events to the
    engine's stimuli.

    ``run`` as a task. ``feed`` passes stimuli to the engine; ``node_named`` returns a node as the API server has it,
    ``node_count`` the number of nodes.
    """

    def __init__(
        self,
        client: ApiClient,
        feed: Callable[[Sequence[Stimulus]], None],
        node_named: Callable[[str], Node | None],
        node_count: Callable[[], int],
        counter: instruments.Counter,
        *,
        backoff_seconds: float = BACKOFF_SECONDS,
    ) -> None:
        self._client = client
        self._feed = feed
        self._node_named = node_named
        self._node_count = node_count
        self._counter = counter
        self._backoff_seconds = backoff_seconds
        self._placed: OrderedDict[str, str] = OrderedDict()
        """UID of a pod that we bound → its node; the oldest are dropped first."""
        self._gone: OrderedDict[str, _Lookup] = OrderedDict()
        """UID → the lookup for a pod that ended before it was accepted, while it is unknown whether we bound it: its
        watch event may arrive before the answer to the binding. The oldest are dropped first."""
        self._lookups: asyncio.Queue[_Lookup] = asyncio.Queue(MAX_LOOKUPS_WAITING)
        self._workloads = WorkloadAvoidance(feed)
        self._ends: dict[tuple[str, str], asyncio.TimerHandle] = {}
        """(UID of a controller or "" for all pods, node) → the timer that ends the avoidance."""
        self._history: dict[tuple[str, str], tuple[int, float]] = {}
        """The same key → consecutive refusals, and the time of the last one."""
        self._reasons: set[str] = set()

    @property
    def backed_off(self) -> frozenset[str]:
        """The nodes that all pods avoid now."""
        return frozenset(node for owner, node in self._ends if not owner)

    def placed(self, attempt: Attempt) -> None:
        if attempt.result != SCHEDULED:
            return
        if (gone := self._gone.pop(attempt.uid, None)) is not None:
            self._look_up(gone)
        else:
            self._placed[attempt.uid] = attempt.node
            if len(self._placed) > PLACEMENTS_KEPT:
                self._placed.popitem(last=False)

    def pods_for_engine(self, stimuli: Sequence[Stimulus]) -> Sequence[Stimulus]:
        """The pod watch's stimuli as passed to the engine; deleted pods are checked for a refusal."""
        for stimulus in stimuli:
            if isinstance(stimulus, ObjectDeleted) and isinstance(stimulus.object, Pod):
                self._pod_gone(stimulus.object)
        return self._workloads.for_engine(stimuli)

    def _pod_gone(self, pod: Pod) -> None:
        node = self._placed.pop(pod.uid, "")
        if not pod.node_name or pod.is_terminating or _was_accepted(pod):
            return
        lookup = _Lookup(PodReference(pod.namespace, pod.name, pod.uid), pod.node_name, owner_of(pod))
        if node:
            self._look_up(lookup)
            return
        self._gone[pod.uid] = lookup
        if len(self._gone) > MAX_GONE_KEPT:
            self._gone.popitem(last=False)

    def _look_up(self, lookup: _Lookup) -> None:
        if self._lookups.full():
            log.warning("Too many pods ended at once, this one is not looked up", pod=lookup.pod.key)
            return
        if lookup.owner:
            self._workloads.avoid(lookup.owner, lookup.node)
        self._lookups.put_nowait(lookup)

    def nodes_for_engine(self, stimuli: Sequence[Stimulus]) -> Sequence[Stimulus]:
        """The node watch's stimuli as passed to the engine."""
        if not self._ends:
            return stimuli
        return [
            ObjectObserved(Kind.NODE, self.node_for_engine(stimulus.object), stimulus.document)
            if isinstance(stimulus, ObjectObserved) and isinstance(stimulus.object, Node)
            else stimulus
            for stimulus in stimuli
        ]

    def node_for_engine(self, node: Node) -> Node:
        """The node, with the taint if it is avoided, and then with a resource version of its own, to be a change."""
        if ("", node.metadata.name) not in self._ends:
            return node
        version = f"{node.metadata.resource_version}+refused"
        return msgspec.structs.replace(
            node,
            metadata=msgspec.structs.replace(node.metadata, resource_version=version),
            spec=msgspec.structs.replace(node.spec, taints=(*node.spec.taints, TAINT)),
        )

    async def run(self) -> None:
        """Runs until cancelled."""
        try:
            while True:
                lookup = await self._lookups.get()
                reason = ""
                try:
                    reason = await self._reason_of(lookup.pod)
                finally:
                    # A failed look-up must not keep the controller's pods off the node for ever.
                    self._judge(lookup, reason)
        except asyncio.CancelledError:
            # Only at the end: after a failure the task is restarted, and avoided nodes need their timers.
            for timer in self._ends.values():
                timer.cancel()
            raise

    async def _reason_of(self, pod: PodReference) -> str:
        """The reason of the pod's failure; "" if it has not failed or the reason is unknown."""
        try:
            answer = await self._client.request("GET", pod_path(pod), timeout_seconds=LOOKUP_SECONDS)
            found = decode_as(Pod, answer.body)
        except (ApiError, InvalidObject) as error:
            if not (isinstance(error, ApiError) and error.is_not_found):
                log.info("Pod that ended early could not be looked up", pod=pod.key, error=str(error))
            return ""
        return found.status.reason if found.uid == pod.uid and found.status.phase == "Failed" else ""

    def _judge(self, lookup: _Lookup, reason: str) -> None:
        concern = concern_of(reason)
        if concern is not None:
            self._count(reason)
        if concern is Concern.WORKLOAD and lookup.owner:
            self._back_off(lookup, lookup.owner, reason)
            return
        if concern is Concern.NODE:
            self._back_off(lookup, "", reason)
        if lookup.owner and (lookup.owner, lookup.node) not in self._ends:
            self._workloads.release(lookup.owner, lookup.node)

    def _count(self, reason: str) -> None:
        if reason not in self._reasons and len(self._reasons) >= MAX_REASONS_COUNTED:
            reason = ROOM_PREFIX
        self._reasons.add(reason)
        self._counter.child(reason).add()

    def _back_off(self, lookup: _Lookup, owner: str, reason: str) -> None:
        """Starts the avoidance of a node by all pods (``owner`` ""), or those of one controller."""
        key = (owner, lookup.node)
        if not owner and key not in self._ends and not self._may_leave_another_alone():
            log.warning(
                "Kubelet refused a pod that we bound; its node stays in use, as enough nodes are left alone",
                pod=lookup.pod.key,
                node=lookup.node,
                reason=reason,
            )
            return
        now = time.monotonic()
        self._history = {one: (times, at) for one, (times, at) in self._history.items() if at > now - MEMORY_SECONDS}
        times = self._history.get(key, (0, now))[0] + 1
        self._history[key] = (times, now)
        seconds = min(self._backoff_seconds * 2 ** (times - 1), MAX_BACKOFF_SECONDS)
        if timer := self._ends.get(key):
            timer.cancel()
        self._ends[key] = asyncio.get_running_loop().call_later(seconds, self._end, key)
        log.warning(
            "Kubelet refused a pod that we bound, its node is left alone",
            pod=lookup.pod.key,
            node=lookup.node,
            reason=reason,
            by=f"pods of controller {owner}" if owner else "all pods",
            seconds=round(seconds),
        )
        if owner:
            self._workloads.avoid(owner, lookup.node)
        else:
            self._show(lookup.node)

    def _may_leave_another_alone(self) -> bool:
        return len(self.backed_off) < max(1, int(self._node_count() * MAX_SHARE_LEFT_ALONE))

    def _end(self, key: tuple[str, str]) -> None:
        del self._ends[key]
        owner, node = key
        if owner:
            self._workloads.release(owner, node)
        else:
            self._show(node)

    def _show(self, name: str) -> None:
        """Passes the node in its present form to the engine."""
        node = self._node_named(name)
        if node is not None:
            self._feed([ObjectObserved(Kind.NODE, self.node_for_engine(node))])


def _was_accepted(pod: Pod) -> bool:
    """Whether a kubelet has begun with the pod. It may write a start time before it refuses a pod, but no condition."""
    return pod.status.phase not in ("", "Pending") or pod.condition("Initialized") is not None


class _Lookup(Struct, frozen=True):
    """A pod whose state is to be looked up. ``owner``: the UID of its controller, "" without one."""

    pod: PodReference
    node: str
    owner: str
