"""Metrics with kube-scheduler's names, labels and buckets (docs/kube-scheduler/cycle.md §16), derived from Attempts.

Dashboards and alerts written for kube-scheduler work unchanged. Tandem's own metrics start with ``tandem_``.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct, field
from prometheus_client import CollectorRegistry
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from scheduler.controller.report.evaluations import Evaluations
from scheduler.controller.report.instruments import (
    CounterChild,
    Gauge,
    HistogramChild,
    Instruments,
    ReadCounter,
    ReadHistogram,
    exponential,
)
from scheduler.engine.attempt import ERROR, SCHEDULED, Attempt
from scheduler.engine.group_attempt import GroupAttempt
from scheduler.engine.making_room.removal_times import REMOVAL_BUCKETS, RemovalTimes
from scheduler.preemption.evaluation import PreemptionEvidence
from scheduler.queue.metrics import EVENT_BUCKETS, HINT_BUCKETS, Durations

MAX_ATTEMPTS_LABEL = 15
"""Number of attempts from which the label ``attempts`` is ``15+``."""
ALGORITHM_POINTS = frozenset({"PreFilter", "Filter", "PostFilter", "PreScore", "Score", "ScoreExtensionNormalize"})
VOLUME_OPERATIONS = {"Filter": "predicate", "Reserve": "assume", "PreBind": "bind"}
"""What kube-scheduler calls the work of VolumeBinding at an extension point."""
QUEUES = ("active", "backoff", "unschedulable", "gated")


class EngineGauges(Protocol):
    """The engine's present numbers, read when scraped."""

    def pending_counts(self) -> Mapping[str, int]:
        """Queue (``active``, ``backoff``, ``unschedulable``, ``gated``) → number of pods."""
        ...

    def cache_counts(self) -> Mapping[str, int]:
        """The numbers of ``nodes``, ``pods`` and ``assumed_pods``."""
        ...

    def unschedulable_counts(self) -> Mapping[tuple[str, str], int]:
        """(plugin, profile) → number of waiting pods that this plugin rejected."""
        ...

    def incoming_counts(self) -> Mapping[tuple[str, str], int]:
        """(queue, event) → number of pods that have entered the queue."""
        ...

    def inflight_counts(self) -> Mapping[str, int]:
        """Event → number of entries kept for attempts under way."""
        ...

    def removal_times(self) -> Mapping[str, RemovalTimes]:
        """``success`` and ``error`` → durations of the removal of victims."""
        ...

    def suspension_counts(self) -> Mapping[str, int]:
        """Reason → number of times that a node was excluded for a preemptor."""
        ...

    def hint_durations(self) -> Mapping[tuple[str, str, str], Durations]:
        """(plugin, event, hint) → durations of the hint's calls."""
        ...

    def event_durations(self) -> Mapping[str, Durations]:
        """Event → durations of its handling."""
        ...


class _ProfileChildren(Struct):
    """The children of one (result, profile), looked up once. ``points``: of successes, by extension point."""

    attempts: CounterChild
    duration: HistogramChild
    points: dict[str, HistogramChild] = field(default_factory=dict)


class SchedulerMetrics:
    """Call ``observe`` for each finished attempt on the event loop's thread; ``/metrics`` exports ``registry``."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self.registry = CollectorRegistry()
        self.instruments = made = Instruments()
        short = exponential(0.001, 2, 15)
        self._attempts = made.counter(
            "scheduler_schedule_attempts", "Number of attempts to schedule pods, by the result.", ("result", "profile")
        )
        self._duration = made.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
            short,
            ("result", "profile"),
        )
        self._algorithm = made.histogram(
            "scheduler_scheduling_algorithm_duration_seconds", "Scheduling algorithm latency in seconds", short
        ).child()
        self._indicator = made.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue.",
            exponential(0.01, 2, 20),
            ("attempts",),
        )
        self._pod_attempts = made.histogram(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod.",
            exponential(1, 2, 5),
        ).child()
        self._points = made.histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Latency for running all plugins of a specific extension point.",
            exponential(0.0001, 2, 12),
            ("extension_point", "status", "profile"),
        )
        self._plugins = made.histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Duration for running a plugin at a specific extension point.",
            exponential(0.00001, 1.5, 20),
            ("plugin", "extension_point", "status"),
        )
        self._evaluations = Evaluations(
            "scheduler_plugin_evaluation",
            "Number of attempts to schedule pods by each plugin and the extension point (available only in PreFilter, "
            "Filter, PreScore, and Score).",
        )
        made.add(self._evaluations)
        self._permit_waits = made.histogram(
            "scheduler_permit_wait_duration_seconds", "Duration of waiting on permit.", short, ("result",)
        )
        self._device_waits = made.histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.",
            exponential(0.1, 2, 14),
            ("profile", "driver", "status"),
        )
        self._device_allocations = made.counter(
            "scheduler_dra_bindingconditions_allocations",
            "Number of allocations using devices with BindingConditions, counted per driver per scheduling attempt",
            ("profile", "driver", "status"),
        )
        self._volume_failures = made.counter(
            "scheduler_volume_scheduling_stage_error", "Volume scheduling stage error count", ("operation",)
        )
        self._after_flush = made.counter(
            "scheduler_pod_scheduled_after_flush",
            "Number of pods that were successfully scheduled after being flushed from unschedulablePods due to "
            "timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues.",
        ).child()
        self._preemption_attempts = made.counter(
            "scheduler_preemption_attempts", "Total preemption attempts in the cluster till now"
        ).child()
        self._victims = made.histogram(
            "scheduler_preemption_victims", "Number of selected preemption victims", exponential(1, 2, 7)
        ).child()
        self._shared = made.counter(
            "tandem_shared_attempts", "Attempts that shared answers with an earlier pod of the same class."
        ).child()
        text = "New configurations while running, by result."
        self.reloads = made.counter("tandem_config_reloads", text, ("result",))
        text = "Missed changes that were repaired in the cache, by kind. Each is a bug."
        self.repairs = made.counter("tandem_cache_repairs", text, ("kind",))
        text = "Decisions compared with where the other scheduler put the pod; unknown: it has not, in time."
        self.shadow_decisions = made.counter("tandem_shadow_decisions", text, ("agrees",))
        text = "Pods that we bound and that the kubelet refused, by its reason."
        self.kubelet_refusals = made.counter("tandem_kubelet_refusals", text, ("reason",))
        text = "Calls of extenders that failed; skipped: the attempt went on without them."
        self._extender_faults = made.counter("tandem_extender_faults", text, ("extender", "verb", "skipped"))
        text = "Attempts whose dry runs of many nodes at once failed; nodes were tried one by one. Each is a bug."
        self._wave_faults = made.counter("tandem_preemption_wave_faults", text).child()
        text = "Restarts of tasks that ended with an exception, by task."
        self.task_failures = made.counter("tandem_task_failures", text, ("task",))
        self._by_profile: dict[tuple[str, str], _ProfileChildren] = {}
        self.registry.register(made)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)

    def observe(self, attempt: Attempt) -> None:
        """Counts an attempt; call it right when the attempt ends. Of one without a result (its pod is gone) only the
        failures of volumes count."""
        for point, plugin in attempt.failed:
            if plugin == "VolumeBinding" and point in VOLUME_OPERATIONS:
                self._volume_failures.child(VOLUME_OPERATIONS[point]).add()
        result = attempt.result
        if not result:
            return
        profile = attempt.scheduler_name
        children = self._by_profile.get((result, profile))
        if children is None:
            children = _ProfileChildren(self._attempts.child(result, profile), self._duration.child(result, profile))
            self._by_profile[result, profile] = children
        children.attempts.value += 1.0
        spent = self._monotonic() - attempt.started_monotonic
        algorithm = 0.0
        points, statuses = children.points, attempt.statuses
        for point, seconds in attempt.durations.items():
            if point in ALGORITHM_POINTS:
                algorithm += seconds
            if point in statuses:
                self._points.child(point, statuses[point], profile).observe(seconds)
                continue
            child = points.get(point) or self._point(children, point, profile)
            # As ``observe``, without a call for each of an attempt's six or more points.
            child.counts[bisect_left(child.bounds, seconds)] += 1
            child.sum += seconds
        if attempt.bind_seconds is not None:
            status = "Error" if result == ERROR else "Success"
            self._points.child("Bind", status, profile).observe(attempt.bind_seconds)
        children.duration.observe(spent)
        self._evaluations.note(profile, attempt.evaluated)
        self._evaluations.note(profile, attempt.evaluated_scores)
        if attempt.plugin_times is not None:
            for one in attempt.plugin_times.take():
                self._plugins.child(one.plugin, one.point, one.status).observe(one.seconds)
        if attempt.permit_wait is not None:
            ending, waited = attempt.permit_wait
            self._permit_waits.child(ending).observe(waited)
        for wait in attempt.device_waits:
            for driver in wait.drivers:
                self._device_waits.child(profile, driver, wait.ending).observe(wait.seconds)
            for driver in wait.awaited:
                self._device_allocations.child(profile, driver, wait.ending).add()
        for fault in attempt.extender_faults:
            self._extender_faults.child(fault.extender, fault.verb, str(fault.is_skipped).lower()).add()
        if attempt.was_class_known:
            self._shared.value += 1.0
        self._algorithm.observe(algorithm)
        if result == SCHEDULED:
            self._pod_attempts.observe(attempt.number)
            label = str(attempt.number) if attempt.number < MAX_ATTEMPTS_LABEL else f"{MAX_ATTEMPTS_LABEL}+"
            if attempt.was_flushed:
                self._after_flush.value += 1.0
            self._indicator.child(label).observe(attempt.queued_seconds + spent)
        found = attempt.preemption
        if isinstance(found, PreemptionEvidence) and "PostFilter" in attempt.durations:
            self._preemption_attempts.value += 1.0
            self._wave_faults.value += bool(found.faults)
            if attempt.victims and not found.is_only_waiting:
                self._victims.observe(len(attempt.victims))

    def observe_group(self, attempt: GroupAttempt) -> None:
        """The extension points of a group's placements; those of its pods are in their own attempts."""
        for point, seconds in attempt.placement_seconds.items():
            self._points.child(point, "Success", attempt.scheduler_name).observe(seconds)

    def _point(self, children: _ProfileChildren, point: str, profile: str) -> HistogramChild:
        child = children.points[point] = self._points.child(point, "Success", profile)
        return child

    def watch_engine(self, engine: EngineGauges) -> None:
        """Adds the metrics that are read from the engine when scraped."""
        add = self.instruments.add
        text = "Number of pending pods, by the queue type."
        add(Gauge("scheduler_pending_pods", text, ("queue",), lambda: _by_one(engine.pending_counts(), QUEUES)))
        text = "Number of nodes, pods, and assumed (bound) pods in the scheduler cache."
        add(Gauge("scheduler_cache_size", text, ("type",), lambda: _by_one(engine.cache_counts())))
        text = "The number of unschedulable pods broken down by plugin name."
        add(
            Gauge(
                "scheduler_unschedulable_pods",
                text,
                ("plugin", "profile"),
                lambda: ((key, float(count)) for key, count in engine.unschedulable_counts().items()),
            )
        )
        text = "Number of pods added to scheduling queues by event and queue type."
        add(
            ReadCounter(
                "scheduler_queue_incoming_pods",
                text,
                ("queue", "event"),
                lambda: ((key, float(count)) for key, count in engine.incoming_counts().items()),
            )
        )

        text = "Number of events currently tracked in the scheduling queue."
        add(Gauge("scheduler_inflight_events", text, ("event",), lambda: _by_one(engine.inflight_counts())))
        text = "Latency for running a queueing hint function of a plugin."
        add(
            ReadHistogram(
                "scheduler_queueing_hint_execution_duration_seconds",
                text,
                ("plugin", "event", "hint"),
                HINT_BUCKETS,
                lambda: ((key, one.buckets, one.seconds) for key, one in engine.hint_durations().items()),
            )
        )
        text = "Event handling latency in seconds."
        add(
            ReadHistogram(
                "scheduler_event_handling_duration_seconds",
                text,
                ("event",),
                EVENT_BUCKETS,
                lambda: (((key,), one.buckets, one.seconds) for key, one in engine.event_durations().items()),
            )
        )

        text = "Duration of the removal of victims, by its result."
        add(
            ReadHistogram(
                "scheduler_preemption_goroutines_duration_seconds",
                text,
                ("result",),
                REMOVAL_BUCKETS,
                lambda: (((key,), one.buckets, one.seconds) for key, one in engine.removal_times().items()),
            )
        )
        text = "Number of removals of victims that have ended, by result."
        add(
            ReadCounter(
                "scheduler_preemption_goroutines_execution",
                text,
                ("result",),
                lambda: (((key,), float(one.count)) for key, one in engine.removal_times().items()),
            )
        )
        text = "Number of times that preemption excluded a node for a pod, by reason."
        add(
            ReadCounter(
                "tandem_preemption_suspensions",
                text,
                ("reason",),
                lambda: (((key,), float(count)) for key, count in engine.suspension_counts().items()),
            )
        )

    def watch_number(self, name: str, text: str, read: Callable[[], float], *, is_counter: bool = False) -> None:
        """Adds a gauge or counter without labels, read when scraped."""
        instrument = ReadCounter if is_counter else Gauge
        self.instruments.add(instrument(name, text, (), lambda: (((), read()),)))

    def watch_numbers(
        self, name: str, text: str, label: str, read: Callable[[], Mapping[str, float]], *, is_counter: bool = False
    ) -> None:
        """Adds a gauge or counter with one label, read when scraped."""
        instrument = ReadCounter if is_counter else Gauge
        self.instruments.add(instrument(name, text, (label,), lambda: _by_one(read())))


def _by_one(counts: Mapping[str, float], always: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], float]]:
    missing = {name: 0.0 for name in always if name not in counts}
    return [((name,), float(count)) for name, count in {**counts, **missing}.items()]
