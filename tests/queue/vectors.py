"""Runs the queue scenarios of the conformance vectors against the product's own handlers, queue, gates and hints.

A scenario is a list of steps, and where every pod is after each. Where Tandem differs from kube-scheduler 1.36 on
purpose, ``DIFFERENCES`` names the step. One more difference is taken back by the driver itself: a failed attempt that
says nothing of a nomination keeps the one in memory, which kube-scheduler forgets, so ``_fail`` drops it first.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import Any

import msgspec

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.groups.facts import Groups
from scheduler.cluster.nominator import Nominator
from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import ClusterEvent, Hint
from scheduler.framework.plugin import Plugin, PreEnqueuePlugin, QueueSortPlugin
from scheduler.framework.post_filter import CLEAR_NOMINATION, KEEP_NOMINATION, nominate
from scheduler.messages.now import Now
from scheduler.objects.kinds import Kind, decode
from scheduler.queue.cluster_events import pod_events
from scheduler.queue.gates import Gates
from scheduler.queue.handlers import EventHandlers
from scheduler.queue.hints import HintMap, registrations_of
from scheduler.queue.in_flight import KeptEvent
from scheduler.queue.known_pods import KnownPods
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.our_pods import OurPods
from scheduler.queue.queue_settings import QueuePlugins, QueueSettings
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.queue.story import Place
from scheduler.queue.waking import Only
from tests.queue.outside import Outside

DATA = Path(__file__).parent.parent / "conformance" / "data" / "queue.jsonl.gz"
PROFILE = "default-scheduler"
MILLISECOND = 1_000_000

GATED_FLUSH = "the flush of the pool asks gated pods' gates again, which kube-scheduler leaves asleep"
RELEASE = "a nominated pod that was bound elsewhere wakes those who can use the room; kube-scheduler says nothing"
DIFFERENCES = {
    "queue-1-0134": (45, GATED_FLUSH),
    "queue-1-0192": (32, GATED_FLUSH),
    "queue-1-0344": (14, GATED_FLUSH),
    "queue-1-0222": (26, RELEASE),
}
"""Scenario → the step at which Tandem differs for the first time, and why. The scenario is compared up to there."""

STARTED = Now(monotonic=5_000.75, wall=1_800_000_000_000_000_000)

Json = dict[str, Any]
KIND_BY_NAME = {kind.entry.name: kind for kind in Kind}


def scenarios() -> Iterator[Json]:
    with gzip.open(DATA, "rb") as lines:
        for line in lines:
            yield msgspec.json.decode(line)


class Removals:
    """The running preemptions of a script, for the gate of DefaultPreemption."""

    def __init__(self, known_pods: KnownPods) -> None:
        self._known_pods = known_pods
        self.last_victims: dict[str, str] = {}

    def is_removing_victims_for(self, uid: str) -> bool:
        if uid not in self.last_victims:
            return False
        victim = self.last_victims[uid]
        known = self._known_pods.get(victim) if victim else None
        return not victim or (known is not None and not known.is_terminating)

    def preemptors_held_back(self) -> set[str]:
        return {uid for uid, victim in self.last_victims.items() if not victim}

    def lookup(self, kind: Kind, key: str) -> None:
        raise AssertionError(f"no default plugin looks up {kind} {key} here")

    @property
    def groups(self) -> Groups:
        """None: a script has pods on their own only."""
        return Groups(())


class ListeningQueue(SchedulingQueue):
    """Writes down what every hint would answer, where the queue stops asking once it knows enough.

    ``answers``: (event label, pod, plugin) → ``Queue``, ``Skip`` or both, in the last step.
    """

    def __init__(self, plugins: QueuePlugins, *parts: Any, **settings: Any) -> None:
        super().__init__(plugins, *parts, **settings)
        self._every_hint = plugins.hints
        self.answers: dict[tuple[str, str, str], set[str]] = {}

    def move_all(self, event: ClusterEvent, old: Any, new: Any, now: Now, only: Only | None = None) -> int:
        for record in self.pool_pods():
            self._listen(record, event, old, new)
        return super().move_all(event, old, new, now, only)

    def update(self, old: PodInfo, new: PodInfo, now: Now) -> Place:
        for record in self.pool_pods():
            if record.key == new.key:
                asked = copy(record)
                asked.replace_pod(new)
                for event in pod_events(old.pod, new.pod):
                    self._listen(asked, event, old, new)
        return super().update(old, new, now)

    def add_unschedulable(self, record: QueuedPod, now: Now) -> Place:
        for kept in self.in_flight.events_for(record.uid) or ():
            self._listen(record, kept.event, kept.old, kept.new)
        return super().add_unschedulable(record, now)

    def _listen(self, record: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> None:
        for plugin, listener in self._every_hint.interest(event).get(PROFILE, {}).items():
            if plugin in record.rejectors:
                is_wanted = any(hint(record.info, old, new) is Hint.QUEUE for hint in listener.hints)
                heard = self.answers.setdefault((event.label, record.uid, plugin), set())
                heard.add("Queue" if is_wanted else "Skip")


class ScriptedCluster:
    """A queue with everything around it, driven by the steps of one scenario."""

    def __init__(self, scenario: Mapping[str, Any], plugins: tuple[Plugin, ...], steps_a_slice: int = 0) -> None:
        self.pods: Json = scenario["pods"]
        self.cache = ClusterCache()
        self.known_pods = KnownPods()
        self.removals = Removals(self.known_pods)
        facts = QueueMetrics()
        config = scenario["config"] or {}
        self.queue = ListeningQueue(
            QueuePlugins(
                next(plugin for plugin in plugins if isinstance(plugin, QueueSortPlugin)),
                HintMap({PROFILE: registrations_of(plugins, has_extenders=False)}, facts),
                Gates(
                    {PROFILE: [plugin for plugin in plugins if isinstance(plugin, PreEnqueuePlugin)]},
                    self.removals,
                    facts,
                ),
            ),
            facts,
            Nominator(self.known_pods.get),
            STARTED,
            QueueSettings(
                initial_backoff=config.get("podInitialBackoffSeconds", 1),
                maximum_backoff=config.get("podMaxBackoffSeconds", 10),
                maximum_in_pool=config.get("maxInUnschedulablePodsSeconds", 300),
                steps_a_slice=steps_a_slice,
            ),
        )
        outside = Outside()
        ours = OurPods(frozenset({PROFILE}))
        self.handlers = EventHandlers(self.cache, self.queue, self.known_pods, outside, outside, ours)
        self._binding: dict[str, tuple[QueuedPod, PodInfo]] = {}
        self._fill(scenario["objects"])

    def run(self, step: Json) -> str | None:
        """Let the time pass, then carry the step out. Returns the popped pod's UID for ``pop``."""
        now = self._at(step["at"])
        while (deadline := self.queue.next_deadline()) is not None and deadline <= now.monotonic:
            self.queue.tick(Now(deadline, STARTED.wall + round((deadline - STARTED.monotonic) * 1e9)))
        self.queue.answers.clear()
        operation = getattr(self, f"_{step['op']}")
        popped: str | None = operation(step, now)
        self.queue.check()
        return popped

    # --- operations ---------------------------------------------------------------------------------------------------

    def _tick(self, step: Json, now: Now) -> None:
        pass

    def _add(self, step: Json, now: Now) -> None:
        self.handlers.on_observed(Kind.POD, _object(Kind.POD, self.pods[step["pod"]]), now)

    def _update(self, step: Json, now: Now) -> None:
        self.pods[step["pod"]] = step["new"]
        self.handlers.on_observed(Kind.POD, _object(Kind.POD, step["new"]), now)

    def _delete(self, step: Json, now: Now) -> None:
        self.handlers.on_deleted(Kind.POD, _object(Kind.POD, self.pods[step["pod"]]), False, now)

    def _event(self, step: Json, now: Now) -> None:
        kind = KIND_BY_NAME[step["kind"]]
        if step.get("new") is not None:
            self.handlers.on_observed(kind, _object(kind, step["new"]), now)
        else:
            self.handlers.on_deleted(kind, _object(kind, step["old"]), False, now)

    def _pop(self, step: Json, now: Now) -> str:
        record = self.queue.pop(now)
        return record.uid if record is not None else ""

    def _fail(self, step: Json, now: Now) -> None:
        record = self._in_flight(step["pod"])
        record.rejected_by(step.get("plugins") or (), step.get("pending") or ())
        node = step.get("nominated")
        if node is None:
            self.queue.nominator.delete(record.uid)
            nomination = KEEP_NOMINATION
        else:
            nomination = nominate(node) if node else CLEAR_NOMINATION
        self.handlers.requeue_failed(record, nomination, now)

    def _assume(self, step: Json, now: Now) -> None:
        record = self._in_flight(step["pod"])
        assumed = record.info.on_node(step["node"])
        self.cache.assume(assumed)
        self.queue.nominator.delete(record.uid)
        self._binding[record.uid] = record, assumed

    def _done(self, step: Json, now: Now) -> None:
        self.queue.done(step["pod"])

    def _bindFail(self, step: Json, now: Now) -> None:
        record, assumed = self._binding.pop(step["pod"])
        record.rejected_by(())
        self.handlers.requeue_unbound(record, assumed, False, now)

    def _activate(self, step: Json, now: Now) -> None:
        self.queue.activate([PodInfo(_object(Kind.POD, self.pods[uid])) for uid in step["pods"]], now)

    def _preempt(self, step: Json, now: Now) -> None:
        self.removals.last_victims[step["pod"]] = step.get("victim", "")

    def _preemptEnd(self, step: Json, now: Now) -> None:
        del self.removals.last_victims[step["pod"]]
        if step.get("error"):
            self._activate({"pods": [step["pod"]]}, now)

    # --- what can be seen ---------------------------------------------------------------------------------------------

    def state(self) -> Json:
        """In the form of ``expect``, without ``pop`` and ``events``; what is a set there is sorted here."""
        queue = self.queue
        while queue.is_waking:
            queue.continue_waking()
        pool = queue.pool_pods()
        entries = queue.in_flight.entries
        waiting = (*queue.active_pods(), *queue.backoff_pods(), *queue.error_backoff_pods(), *pool)
        trying = [entry for entry in entries if isinstance(entry, QueuedPod)]
        in_backoff = {record.uid for record in (*queue.backoff_pods(), *queue.error_backoff_pods())}
        nominator = queue.nominator
        return {
            "active": [record.uid for record in queue.active_pods()],
            "backoff": [record.uid for record in queue.backoff_pods()],
            "errorBackoff": sorted(record.uid for record in queue.error_backoff_pods()),
            "unschedulable": sorted(record.uid for record in pool if not record.is_gated),
            "gated": sorted(record.uid for record in pool if record.is_gated),
            "inFlight": [
                {"event": entry.event.label} if isinstance(entry, KeptEvent) else {"pod": entry.uid}
                for entry in entries
            ],
            "nominated": {node: sorted(pod.uid for pod in nominator.pods_for_node(node)) for node in nominator.nodes},
            "pods": {record.uid: self._details(record, record.uid in in_backoff) for record in (*trying, *waiting)},
            "cycle": queue.cycle,
        }

    def _details(self, record: QueuedPod, is_backing_off: bool) -> Json:
        details: Json = {
            "attempts": record.attempts,
            "unschedulable": record.unschedulable_count,
            "errors": record.error_count,
            "since": record.timestamp // MILLISECOND,
        }
        if record.initial_attempt is not None:
            details["first"] = record.initial_attempt // MILLISECOND
        if is_backing_off:
            details["expiry"] = (record.backoff_expiration or 0) // MILLISECOND
        if record.unschedulable_plugins:
            details["plugins"] = sorted(record.unschedulable_plugins)
        if record.pending_plugins:
            details["pending"] = sorted(record.pending_plugins)
        if record.gating_plugin:
            details["gatedBy"] = record.gating_plugin
        if record.was_flushed:
            details["flushed"] = True
        return details

    def wrong_hints(self, events: list[Json] | None) -> list[str]:
        """Where a hint answered otherwise in the last step than ``expect.events`` says."""
        wrong = []
        for event in events or ():
            for uid, answers in event.get("hints", {}).items():
                for plugin, answer in answers.items():
                    heard = self.queue.answers.get((event["event"], uid, plugin), set())
                    if answer not in heard:
                        wrong.append(f"{event['event']}, {uid}, {plugin}: expected {answer}, heard {heard}")
        return wrong

    # --- inside -------------------------------------------------------------------------------------------------------

    def _fill(self, objects: Mapping[str, list[Json]]) -> None:
        for plural, documents in objects.items():
            kind: Kind = Kind._value2member_map_[plural]  # type: ignore[assignment]  # __new__ takes the entry
            for document in documents:
                if kind is Kind.NODE:
                    self.cache.observe_node(_object(kind, document))
                elif kind is Kind.POD:
                    info = PodInfo(_object(kind, document))
                    self.known_pods.put(info)
                    self.cache.observe_pod(info)
                else:
                    value = _object(kind, document)
                    self.cache.objects.put(kind, value.key, value)

    def _in_flight(self, uid: str) -> QueuedPod:
        record = self.queue.in_flight.get(uid)
        assert record is not None, f"{uid} is not in flight"
        return record

    def _at(self, milliseconds: int) -> Now:
        return Now(STARTED.monotonic + milliseconds / 1000, STARTED.wall + milliseconds * MILLISECOND)


def _object(kind: Kind, document: Json) -> Any:
    return decode(kind, msgspec.json.encode(document))


def comparable(expected: Json) -> Json:
    """``expect`` with its sets sorted, and without what only shows where a difference comes from."""
    state = {name: value for name, value in expected.items() if name not in ("pop", "events")}
    for name in ("errorBackoff", "unschedulable", "gated"):
        state[name] = sorted(state[name])
    state["nominated"] = {node: sorted(pods) for node, pods in state["nominated"].items()}
    for details in state["pods"].values():
        for name in ("plugins", "pending"):
            if name in details:
                details[name] = sorted(details[name])
    return state


def differences(expected: Json, found: Json) -> list[str]:
    return [
        f"{name}: expected {expected.get(name)}, found {found.get(name)}"
        for name in expected
        if expected[name] != found.get(name)
    ]
