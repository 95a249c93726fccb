"""A small real engine for the shell's tests: first come first served onto the nodes in turn, without any thinking."""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Mapping, Sequence

from scheduler.engine.attempt import SCHEDULED, UNSCHEDULABLE, Attempt
from scheduler.engine.commands import Command, RecordAttempt
from scheduler.engine.making_room.removal_times import RemovalTimes
from scheduler.framework.plugin_ports import WaitingPod
from scheduler.messages.commands import BindPod, PatchPodStatus, WriteEvent
from scheduler.messages.now import Now
from scheduler.messages.references import PodReference
from scheduler.messages.stimuli import (
    ObjectDeleted,
    ObjectObserved,
    ShutdownRequested,
    Stimulus,
    Synced,
    WriteFinished,
)
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import Condition
from scheduler.objects.pod import Pod
from scheduler.queue.metrics import Durations

NAME = "tandem-scheduler"


class RoundRobinEngine:
    """Keeps what the tests ask about: ``stimuli`` by type, ``outcomes`` of writes."""

    def __init__(self) -> None:
        self.nodes: dict[str, None] = {}
        self.pending: deque[Pod] = deque()
        self.known: set[str] = set()
        self.outcomes: list[WriteFinished] = []
        self.is_synced = False
        self.modules_when_synced: frozenset[str] = frozenset()
        self.is_shut_down = False
        self._tickets = itertools.count(1)
        self._asked: dict[int, Pod] = {}
        self._turn = 0

    def handle(self, stimulus: Stimulus, now: Now) -> Sequence[Command]:
        if isinstance(stimulus, ObjectObserved | ObjectDeleted):
            self._take_object(stimulus)
        elif isinstance(stimulus, Synced):
            self.is_synced, self.modules_when_synced = True, frozenset(sys.modules)
        elif isinstance(stimulus, ShutdownRequested):
            self.is_shut_down = True
        elif isinstance(stimulus, WriteFinished):
            return self._take_outcome(stimulus)
        return ()

    @property
    def is_waking(self) -> bool:
        return False

    def waiting_pods(self, plugin: str) -> Sequence[WaitingPod]:
        return ()

    def schedule_one(self, now: Now) -> Sequence[Command] | None:
        if not self.pending:
            return None
        pod = self.pending.popleft()
        reference = PodReference(pod.namespace, pod.name, pod.uid)
        if not self.nodes:
            text = "no nodes available to schedule pods"
            attempt = self._attempt(pod, now)
            attempt.result, attempt.message = UNSCHEDULABLE, text
            condition = Condition(type="PodScheduled", status="False", reason="Unschedulable", message=text)
            return (
                WriteEvent(reference, "Warning", "FailedScheduling", "Scheduling", text, NAME),
                PatchPodStatus(0, reference, condition),
                RecordAttempt(attempt),
            )
        node = list(self.nodes)[self._turn % len(self.nodes)]
        self._turn += 1
        ticket = next(self._tickets)
        self._asked[ticket] = pod
        attempt = self._attempt(pod, now)
        attempt.result, attempt.node = SCHEDULED, node
        return (BindPod(ticket, reference, node), RecordAttempt(attempt))

    def next_deadline(self) -> float | None:
        return None

    def pending_counts(self) -> Mapping[str, int]:
        return {"active": len(self.pending)}

    def cache_counts(self) -> Mapping[str, int]:
        return {"nodes": len(self.nodes), "pods": len(self.known), "assumed_pods": len(self._asked)}

    def unschedulable_counts(self) -> Mapping[tuple[str, str], int]:
        return {}

    def incoming_counts(self) -> Mapping[tuple[str, str], int]:
        return {("active", "PodAdd"): len(self.known)}

    def inflight_counts(self) -> Mapping[str, int]:
        return {}

    def hint_durations(self) -> Mapping[tuple[str, str, str], Durations]:
        return {}

    def event_durations(self) -> Mapping[str, Durations]:
        return {}

    def removal_times(self) -> Mapping[str, RemovalTimes]:
        return {}

    def suspension_counts(self) -> Mapping[str, int]:
        return {}

    def _take_object(self, stimulus: ObjectObserved | ObjectDeleted) -> None:
        seen = stimulus.object
        if stimulus.kind is Kind.NODE:
            if isinstance(stimulus, ObjectObserved):
                self.nodes[seen.name] = None
            else:
                self.nodes.pop(seen.name, None)
        elif isinstance(seen, Pod) and isinstance(stimulus, ObjectObserved) and seen.uid not in self.known:
            self.known.add(seen.uid)
            if not seen.spec.node_name and seen.spec.scheduler_name == NAME:
                self.pending.append(seen)

    def _take_outcome(self, outcome: WriteFinished) -> Sequence[Command]:
        self.outcomes.append(outcome)
        pod = self._asked.pop(outcome.ticket, None)
        if pod is None or not outcome.is_done:
            return ()
        note = f"Successfully assigned {pod.key}"
        reference = PodReference(pod.namespace, pod.name, pod.uid)
        return (WriteEvent(reference, "Normal", "Scheduled", "Binding", note, NAME),)

    @staticmethod
    def _attempt(pod: Pod, now: Now) -> Attempt:
        attempt = Attempt(pod.key, pod.uid, NAME, 1, now.wall)
        attempt.durations = {"PreFilter": 0.00001, "Filter": 0.00002, "Score": 0.00003}
        return attempt
