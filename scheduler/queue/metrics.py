"""The queue's metrics and problem messages; no decision depends on them (docs/kube-scheduler/queue.md §14)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from itertools import accumulate, repeat
from operator import mul

HINT_BUCKETS: tuple[float, ...] = tuple(accumulate(repeat(1.5, 19), mul, initial=1e-5))
"""Upper bounds in seconds of ``queueing_hint_execution_duration_seconds``, rounded as kube-scheduler's are."""

EVENT_BUCKETS: tuple[float, ...] = tuple(1e-4 * 2**exponent for exponent in range(12))
"""Upper bounds in seconds of ``event_handling_duration_seconds``."""

_MAX_PROBLEMS = 1000


class Durations:
    """A histogram: ``buckets[i]`` counts durations of at most ``bounds[i]`` seconds and above the previous bound."""

    __slots__ = ("_bounds", "buckets", "count", "seconds")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.count = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(bounds) + 1)

    def observe(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds
        self.buckets[bisect_left(self._bounds, seconds)] += 1


class QueueMetrics:
    """Counters that only grow, gauges, and messages for the log."""

    __slots__ = ("event_durations", "hint_durations", "incoming", "problems", "unschedulable_pods")

    def __init__(self) -> None:
        self.incoming: Counter[tuple[str, str]] = Counter()
        """(queue, event label) → pods added: ``queue_incoming_pods_total``."""
        self.unschedulable_pods: Counter[tuple[str, str]] = Counter()
        """(plugin, profile) → queued pods that the plugin rejected last."""
        self.event_durations: dict[str, Durations] = {}
        """Event label → durations of handling such events, cache and queue together; only with a stopwatch."""
        self.hint_durations: dict[tuple[str, str, str], Durations] = {}
        """(plugin, event label, ``Queue`` | ``QueueSkip`` | ``Error``) → durations; only with a stopwatch."""
        self.problems: deque[str] = deque(maxlen=_MAX_PROBLEMS)
        """Messages about states that should not occur, oldest first; at most ``_MAX_PROBLEMS``, the newest are kept."""

    def problem(self, message: str) -> None:
        self.problems.append(message)

    def take_problems(self) -> tuple[str, ...]:
        """The messages since the last call."""
        taken = tuple(self.problems)
        self.problems.clear()
        return taken

    def hint_took(self, plugin: str, event: str, outcome: str, seconds: float) -> None:
        durations = self.hint_durations.get((plugin, event, outcome))
        if durations is None:
            durations = self.hint_durations[plugin, event, outcome] = Durations(HINT_BUCKETS)
        durations.observe(seconds)

    def event_took(self, event: str, seconds: float) -> None:
        durations = self.event_durations.get(event)
        if durations is None:
            durations = self.event_durations[event] = Durations(EVENT_BUCKETS)
        durations.observe(seconds)

    def rejected(self, plugins: frozenset[str], profile: str, sign: int) -> None:
        """Adjusts the gauge of rejected pods: +1 where a pod starts to wait for these plugins, -1 where it stops."""
        for plugin in plugins:
            count = self.unschedulable_pods[plugin, profile] + sign
            if count:
                self.unschedulable_pods[plugin, profile] = count
            else:
                del self.unschedulable_pods[plugin, profile]
