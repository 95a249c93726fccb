"""A queue with fake plugins, and a clock that tests set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.cluster.nominator import Nominator
from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Facet,
    Hint,
    HintFunction,
    Resource,
    always_queue,
)
from scheduler.messages.now import Now
from scheduler.messages.status import Refusal, unresolvable
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.queue.hints import HintMap
from scheduler.queue.known_pods import KnownPods
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.queue_settings import QueuePlugins, QueueSettings
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.testing.objects import pod

PROFILE = "tandem-scheduler"
WALL = 1_900_000_000_000_000_000

NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
NODE_LABEL = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
POD_DELETE = ClusterEvent(Resource.POD, Action.DELETE)
ASSIGNED_POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
GATES_GONE = ClusterEvent(Resource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)


def on(event: ClusterEvent, hint: HintFunction = always_queue, facet: Facet | None = None) -> EventRegistration:
    return EventRegistration(event, hint, facet)


def own_pod(record: PodInfo, _old: Any, new: Any) -> Hint:
    return Hint.QUEUE if new is not None and new.uid == record.uid else Hint.SKIP


def never(_pod: Any, _old: Any, _new: Any) -> Hint:
    return Hint.SKIP


REGISTRATIONS: dict[str, Sequence[EventRegistration]] = {
    "Fit": (on(NODE_ADD), on(POD_DELETE)),
    "Labels": (on(NODE_LABEL),),
    "Deaf": (),
    "Gate": (on(GATES_GONE, own_pod),),
}


class _Gate:
    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def __call__(self, record: QueuedPod) -> Refusal | None:
        self._bench.gate_runs += 1
        return unresolvable("held").by("Gate") if record.info.name in self._bench.gated else None

    def held_back(self, profile: str, plugin: str) -> set[str]:
        return self._bench.held

    def may_release(self, profile: str, plugin: str, event: ClusterEvent) -> bool:
        return event not in self._bench.useless_to_the_gate


class Bench:
    """A queue under test. ``at`` sets the time in seconds since its start; ``gated`` holds the keys of gated pods."""

    def __init__(
        self,
        registrations: Mapping[str, Sequence[EventRegistration]] | None = None,
        settings: QueueSettings = QueueSettings(),  # noqa: B008
    ) -> None:
        self.seconds = 0.0
        self.gated: set[str] = set()
        self.gate_runs = 0
        self.held: set[str] = set()
        """UIDs of pods that the gate is sure of."""
        self.useless_to_the_gate: set[ClusterEvent] = set()
        self.known = KnownPods()
        self.facts = QueueMetrics()
        self.nominator = Nominator(self.known.get)
        self.queue = SchedulingQueue(
            QueuePlugins(PrioritySort(), HintMap({PROFILE: registrations or REGISTRATIONS}, self.facts), _Gate(self)),
            self.facts,
            self.nominator,
            self.now,
            settings,
        )

    @property
    def now(self) -> Now:
        return Now(70_000.5 + self.seconds, WALL + round(self.seconds * 1e9))

    def at(self, seconds: float) -> None:
        """Let the time pass, ticking whenever the queue asks for it."""
        while (deadline := self.queue.next_deadline()) is not None and deadline <= 70_000.5 + seconds:
            self.seconds = max(self.seconds, deadline - 70_000.5)
            self.queue.tick(self.now)
        self.seconds = seconds

    def add(self, name: str, **fields: Any) -> PodInfo:
        info = PodInfo(pod(name, **fields))
        self.known.put(info)
        self.queue.add(info, self.now)
        return info

    def update(self, old: PodInfo, **fields: Any) -> PodInfo:
        info = PodInfo(pod(old.name, **fields))
        self.known.put(info)
        self.queue.update(old, info, self.now)
        return info

    def delete(self, info: PodInfo) -> None:
        self.known.remove(info)
        self.queue.delete(info)

    def pop(self) -> QueuedPod:
        record = self.queue.pop(self.now)
        assert record is not None, "nothing to pop"
        return record

    def fail(self, record: QueuedPod, *plugins: str, pending: Sequence[str] = ()) -> None:
        record.rejected_by(plugins, pending)
        self.queue.add_unschedulable(record, self.now)

    def rejected(self, name: str, *plugins: str, **fields: Any) -> PodInfo:
        """A pod that was added, tried, and rejected by these plugins."""
        info = self.add(name, **fields)
        record = self.pop()
        assert record.key == info.key
        self.fail(record, *plugins)
        return info

    def move(self, event: ClusterEvent, old: Any = None, new: Any = None, **options: Any) -> int:
        return self.queue.move_all(event, old, new, self.now, **options)

    def names(self) -> dict[str, list[str]]:
        """Where every pod is; empty places are left out."""
        queue = self.queue
        pool = queue.pool_pods()
        places = {
            "active": queue.active_pods(),
            "backoff": queue.backoff_pods(),
            "errors": queue.error_backoff_pods(),
            "pool": [record for record in pool if not record.is_gated],
            "gated": [record for record in pool if record.is_gated],
        }
        return {place: [record.info.name for record in records] for place, records in places.items() if records}
