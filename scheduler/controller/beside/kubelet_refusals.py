"""Pods that we bound and that the kubelet would not take: counted, and their node left alone for a while.

Two schedulers may fill the last room of a node at the same moment; the kubelet then fails one of the pods (OutOfcpu,
OutOfmemory and the like), and its owner makes another. Lest that one go the same way, the node is shown to the engine
with one taint more, for half a minute and then longer each time. Nothing of it is written: other schedulers, and pods
that tolerate everything, may go there.

A pod that has ended leaves the watch as a deletion, with what was known of it before. So one of ours that has gone
although no kubelet had begun with it and nobody had deleted it is looked up; its node is left alone from that moment,
since its owner may be quicker than the answer.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import structlog

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
LONGEST_BACKOFF_SECONDS: Final = 300.0
MEMORY_SECONDS: Final = 600.0
"""A node without a refusal for so long begins anew."""
PLACEMENTS_KEPT: Final = 20_000
MOST_LOOKUPS_WAITING: Final = 1_000
LOOKUP_SECONDS: Final = 10.0

_OTHER_REASONS: Final = frozenset(
    {"NodeAffinity", "NodeName", "NodePorts", "TopologyAffinityError", "UnexpectedAdmissionError"}
)

log = structlog.get_logger()


def is_refusal(reason: str) -> bool:
    """Whether a failed pod's reason is that of a kubelet which did not admit it."""
    return reason.startswith("OutOf") or reason in _OTHER_REASONS


class KubeletRefusals:
    """``placed`` hears of attempts, ``see`` of what the watch of pods tells; nodes go to the engine through ``dress``.

    ``run`` as a task. ``feed`` takes stimuli for the engine; ``node_named`` is a node as the API server has it.
    """

    def __init__(
        self,
        client: ApiClient,
        feed: Callable[[Sequence[Stimulus]], None],
        node_named: Callable[[str], Node | None],
        counter: instruments.Counter,
        *,
        backoff_seconds: float = BACKOFF_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._feed = feed
        self._node_named = node_named
        self._counter = counter
        self._backoff_seconds = backoff_seconds
        self._clock = clock
        self._placed: OrderedDict[str, str] = OrderedDict()
        """UID of a pod that we bound → its node; the oldest go first."""
        self._lookups: asyncio.Queue[tuple[PodReference, str]] = asyncio.Queue(MOST_LOOKUPS_WAITING)
        self._suspected: Counter[str] = Counter()
        """Node → pods of it that are being looked up."""
        self._ends: dict[str, asyncio.TimerHandle] = {}
        self._history: dict[str, tuple[int, float]] = {}
        """Node → refusals in a row, and when the last one was."""

    @property
    def backed_off(self) -> frozenset[str]:
        """The nodes that are left alone now."""
        return frozenset(self._ends)

    def placed(self, attempt: Attempt) -> None:
        if attempt.result == SCHEDULED:
            self._placed[attempt.uid] = attempt.node
            if len(self._placed) > PLACEMENTS_KEPT:
                self._placed.popitem(last=False)

    def see(self, stimuli: Sequence[Stimulus]) -> None:
        for stimulus in stimuli:
            if isinstance(stimulus, ObjectDeleted) and isinstance(stimulus.object, Pod):
                self._pod_gone(stimulus.object)

    def _pod_gone(self, pod: Pod) -> None:
        node = self._placed.pop(pod.uid, "")
        if not node or pod.is_terminating or pod.status.start_time:
            return
        if self._lookups.full():
            log.warning("Too many pods ended at once, this one is not looked up", pod=pod.key)
            return
        self._suspected[node] += 1
        self._lookups.put_nowait((PodReference(pod.metadata.namespace, pod.metadata.name, pod.uid), node))
        self._show(node)

    def dress(self, stimuli: Sequence[Stimulus]) -> Sequence[Stimulus]:
        """What the watch of nodes tells, as the engine shall see it."""
        if not self._ends and not self._suspected:
            return stimuli
        return [
            ObjectObserved(Kind.NODE, self.dressed(stimulus.object), stimulus.document)
            if isinstance(stimulus, ObjectObserved) and isinstance(stimulus.object, Node)
            else stimulus
            for stimulus in stimuli
        ]

    def dressed(self, node: Node) -> Node:
        """The node with the taint, where it is to be left alone. Its version is one of its own, so that it is news."""
        if node.metadata.name not in self._ends and not self._suspected[node.metadata.name]:
            return node
        version = f"{node.metadata.resource_version}+refused"
        return msgspec.structs.replace(
            node,
            metadata=msgspec.structs.replace(node.metadata, resource_version=version),
            spec=msgspec.structs.replace(node.spec, taints=(*node.spec.taints, TAINT)),
        )

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                pod, node = await self._lookups.get()
                reason = await self._reason_of(pod)
                self._suspected[node] -= 1
                self._suspected = +self._suspected
                if is_refusal(reason):
                    self._counter.child(reason).add()
                    self._back_off(pod, node, reason)
                else:
                    self._show(node)
        except asyncio.CancelledError:
            # Only at the end: after a failure it is started again, and the nodes that are left alone need their ends.
            for timer in self._ends.values():
                timer.cancel()
            raise

    async def _reason_of(self, pod: PodReference) -> str:
        """Why the pod has failed; "" where it has not, or nobody can tell."""
        try:
            answer = await self._client.request("GET", pod_path(pod), timeout_seconds=LOOKUP_SECONDS)
            found = decode_as(Pod, answer.body)
        except (ApiError, InvalidObject) as error:
            if not (isinstance(error, ApiError) and error.is_not_found):
                log.info("Pod that ended early could not be looked up", pod=pod.key, error=str(error))
            return ""
        return found.status.reason if found.uid == pod.uid and found.status.phase == "Failed" else ""

    def _back_off(self, pod: PodReference, name: str, reason: str) -> None:
        now = self._clock()
        self._history = {one: (times, at) for one, (times, at) in self._history.items() if at > now - MEMORY_SECONDS}
        times = self._history.get(name, (0, now))[0] + 1
        self._history[name] = (times, now)
        seconds = min(self._backoff_seconds * 2 ** (times - 1), LONGEST_BACKOFF_SECONDS)
        if timer := self._ends.get(name):
            timer.cancel()
        self._ends[name] = asyncio.get_running_loop().call_later(seconds, self._end, name)
        log.warning(
            "Kubelet refused a pod that we bound, its node is left alone",
            pod=pod.key,
            node=name,
            reason=reason,
            seconds=round(seconds),
        )
        self._show(name)

    def _end(self, name: str) -> None:
        del self._ends[name]
        self._show(name)

    def _show(self, name: str) -> None:
        """Let the engine see the node as it shall see it now."""
        node = self._node_named(name)
        if node is not None:
            self._feed([ObjectObserved(Kind.NODE, self.dressed(node))])
