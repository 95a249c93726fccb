"""The result of a run, computed from the times that the driver recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

# An event counts when it arrives within these seconds of its pod's binding.
EVENT_LIMIT = 5.0


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds of the scheduler's longest step, in which it did nothing else, and the most CPU of one."""

    seconds: float
    cpu_seconds: float | None = None
    is_from_before: bool = False
    """The longest step was before the clock ran, in the start, say: all later ones were shorter."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run has cost while the clock ran: CPU seconds of the processes, the scheduler's peak memory in bytes."""

    scheduler: float
    apiserver: float
    etcd: float
    peak_rss: int
    pause: Pause | None = None
    """None where the scheduler does not say."""
    start: float | None = None
    """Seconds from the start of the process to its first binding, of pods that waited already."""
    start_cpu: float | None = None
    """CPU seconds of the scheduler meanwhile."""


@dataclass(frozen=True, slots=True)
class Result:
    """One contender's run of one scenario. Times in seconds, memory in bytes; `counts` only when `faults` is empty."""

    scenario: str
    contender: str
    nodes: int
    pods: int
    bound: int
    seconds: float
    pods_per_second: float
    p50: float
    p99: float
    cpu_per_pod: float
    peak_rss: int
    faults: tuple[str, ...] = field(default=())
    victims: int = 0
    """Pods that existed before and were preempted."""
    apiserver_cpu_per_pod: float = 0.0
    etcd_cpu_per_pod: float = 0.0
    pause: Pause | None = None
    start: float | None = None
    start_cpu: float | None = None
    cut_off: float | None = None
    """Seconds after which the run was ended although pods had no binding yet: it would have taken longer. None for a
    run that ended by itself."""

    @property
    def whole_cpu_per_pod(self) -> float:
        """Of scheduler, API server and etcd; the driver's own is not among it."""
        return self.cpu_per_pod + self.apiserver_cpu_per_pod + self.etcd_cpu_per_pod

    @property
    def counts(self) -> bool:
        return not self.faults

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "whole_cpu_per_pod": self.whole_cpu_per_pod, "counts": self.counts}


def measure(
    *,
    scenario: str,
    contender: str,
    nodes: int,
    names: frozenset[str],
    began: float,
    created: Mapping[str, float],
    bound: Mapping[str, float],
    reported: Mapping[str, float],
    spent: Spent,
    ended: float,
    victims: int = 0,
) -> Result:
    """The result of a run from the moments (seconds, one clock) at which each pod was created, bound and reported.

    `began` is when the clock starts; a pod that was there before waits from then on. `ended` is when it was stopped.
    """
    waits = sorted(bound[name] - max(created[name], began) for name in names if name in bound)
    seconds = max(bound.values(), default=began) - began
    return Result(
        scenario=scenario,
        contender=contender,
        nodes=nodes,
        pods=len(names),
        bound=len(bound),
        seconds=seconds,
        pods_per_second=len(bound) / seconds if seconds > 0 else 0.0,
        p50=percentile(waits, 50),
        p99=percentile(waits, 99),
        cpu_per_pod=spent.scheduler / len(bound) if bound else 0.0,
        peak_rss=spent.peak_rss,
        faults=tuple(_faults(names, bound, reported)),
        victims=victims,
        apiserver_cpu_per_pod=spent.apiserver / len(bound) if bound else 0.0,
        etcd_cpu_per_pod=spent.etcd / len(bound) if bound else 0.0,
        pause=spent.pause,
        start=spent.start,
        start_cpu=spent.start_cpu,
        cut_off=ended - began if len(bound) < len(names) else None,
    )


def failed(scenario: str, contender: str, nodes: int, pods: int, why: str) -> Result:
    """The result of a run that ended before the measurement."""
    return Result(scenario, contender, nodes, pods, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, (why,))


def _faults(names: frozenset[str], bound: Mapping[str, float], reported: Mapping[str, float]) -> list[str]:
    faults = []
    if unbound := len(names) - len(bound):
        faults.append(f"{unbound} pods without a binding")
    if unreported := sum(name not in reported for name in bound):
        faults.append(f"{unreported} pods without a Scheduled event")
    if late := sum(name in reported and reported[name] - bound[name] > EVENT_LIMIT for name in bound):
        faults.append(f"{late} Scheduled events later than {EVENT_LIMIT:.0f} s")
    return faults


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that at least `percent` of the ascending values do not exceed; 0 of none."""
    if not ordered:
        return 0.0
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def middle(results: Sequence[Result]) -> Result:
    """Of several rounds the one with the median throughput; of the counting rounds, if there are any."""
    rounds = sorted([r for r in results if r.counts] or results, key=lambda r: r.pods_per_second)
    return rounds[(len(rounds) - 1) // 2]


def ratios(results: Sequence[Result], of: str = "tandem", to: str = "kube-scheduler") -> dict[str, dict[str, float]]:
    """Scenario -> how many times `of` is better than `to`, where both runs count; above 1 is better."""
    by_name = {(result.scenario, result.contender): result for result in results if result.counts}
    found = {}
    for scenario in dict.fromkeys(result.scenario for result in results):
        ours, theirs = by_name.get((scenario, of)), by_name.get((scenario, to))
        if ours and theirs:
            found[scenario] = {
                "throughput": _ratio(ours.pods_per_second, theirs.pods_per_second),
                "p99": _ratio(theirs.p99, ours.p99),
                "cpu": _ratio(theirs.cpu_per_pod, ours.cpu_per_pod),
                "whole cpu": _ratio(theirs.whole_cpu_per_pod, ours.whole_cpu_per_pod),
                "memory": _ratio(theirs.peak_rss, ours.peak_rss),
            }
    return found


def least_ratios(results: Sequence[Result], of: str = "tandem", to: str = "kube-scheduler") -> dict[str, float]:
    """Scenario -> how many times quicker `of` is at least, where its run counts and that of `to` was cut off."""
    by_name = {(result.scenario, result.contender): result for result in results}
    found = {}
    for scenario in dict.fromkeys(result.scenario for result in results):
        ours, theirs = by_name.get((scenario, of)), by_name.get((scenario, to))
        if ours and theirs and ours.counts and ours.seconds and theirs.cut_off is not None:
            found[scenario] = round(theirs.cut_off / ours.seconds, 2)
    return found


def _ratio(better: float, worse: float) -> float:
    return round(better / worse, 2) if worse else 0.0
