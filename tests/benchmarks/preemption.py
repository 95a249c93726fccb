"""One dry run at 5,000 nodes with 30 pods each: every node is tried, and the best of the candidates is chosen."""

from __future__ import annotations

import statistics
import time
from typing import Any

from scheduler.engine.engine import Engine
from scheduler.framework.post_filter import PostFilterAnswer, PostFilterContext, PostFilterPlugin
from scheduler.framework.preemption_policy import UPSTREAM_POLICY
from scheduler.objects.kinds import Kind
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.preemption.evaluation import Candidates, Extent, conclude, dry_run_all
from scheduler.preemption.kept_answers import KeptAnswers
from scheduler.preemption.pod_columns import PodColumns
from scheduler.testing.fragments import affinity_json, pod_term
from tests.benchmarks.clusters import PROFILE, engine_with, now, pending, show

NODES = 5_000
PODS_A_NODE = 30
ROUNDS = 15
HOST = "kubernetes.io/hostname"


class _Kept(PostFilterPlugin):
    """Replaces DefaultPreemption: keeps its input, so that the call can be repeated."""

    name = "Kept"

    def post_filter(self, context: PostFilterContext) -> PostFilterAnswer:
        self.context = context
        return DefaultPreemption().post_filter(context)


def dry_runs() -> dict[str, float]:
    """Milliseconds of trials and choice: as configured, where candidates from a tenth of the nodes end the search, and
    with every node tried. The pods of each node are sorted already, as they are after the first attempt. ``again``: for
    a pod of the same template, while nothing has changed."""
    engine = full_engine()
    found = {}
    for label, preemptor in {
        "plain": pending("plain", cpu="4"),
        "required anti-affinity": _apart("apart"),
    }.items():
        preemptor["spec"]["priority"] = 1_000
        context = _asked(engine, preemptor)
        found[label] = _median(context, Extent()) * 1e3
        found[f"{label}, again"] = _median(context, Extent(), again=True) * 1e3
        found[f"{label}, every node"] = _median(context, Extent(100, 0)) * 1e3
    return found


def full_engine(nodes: int = NODES) -> Engine:
    """Each node of 32 CPUs is filled by thirty pods of several priorities; two of them carry the label of a group."""
    engine = engine_with(nodes)
    for number in range(nodes * PODS_A_NODE):
        place = number // nodes
        labels = {"app": "group"} if place % 15 == 0 else {"app": f"app-{number % 300}"}
        there = pending(f"there-{number}", cpu="1060m", memory="1Gi", labels=labels)
        there["spec"] |= {"nodeName": f"node-{number % nodes:05}", "priority": place % 7}
        there["status"] = {"phase": "Running", "startTime": f"2026-01-01T00:00:{place:02}Z"}
        show(engine, Kind.POD, there)
    return engine


def _apart(name: str) -> dict[str, Any]:
    document = pending(name, labels={"app": "single"})
    document["spec"]["affinity"] = affinity_json(anti_required=[pod_term({"app": "group"}, HOST)])
    return document


def _asked(engine: Engine, preemptor: dict[str, Any]) -> PostFilterContext:
    """PostFilter's input for this pod, which fits nowhere."""
    profile = engine.profiles[PROFILE]
    kept = _Kept()
    before = profile.post_filter_plugins
    object.__setattr__(profile, "post_filter_plugins", (kept,))
    show(engine, Kind.POD, preemptor)
    engine.schedule_one(now())
    object.__setattr__(profile, "post_filter_plugins", before)
    return kept.context


def _median(context: PostFilterContext, extent: Extent, *, again: bool = False) -> float:
    columns = PodColumns()
    dry_run_all(context, Extent(100, 0), UPSTREAM_POLICY, columns)
    times = []
    for _ in range(ROUNDS):
        if not again:
            columns.kept = KeptAnswers()
        started = time.perf_counter()
        candidates = dry_run_all(context, extent, UPSTREAM_POLICY, columns)
        _chosen(context, candidates)
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def _chosen(context: PostFilterContext, candidates: Candidates) -> None:
    if not conclude(context, candidates, UPSTREAM_POLICY).nomination.node_name:
        raise AssertionError("no candidate: the measurement would be of nothing")
