"""What the metrics page of a scheduler offers, its own shell asked."""

from __future__ import annotations

import re
import time

import pytest
from prometheus_client.exposition import generate_latest

from scheduler.cli.prepare import prepare
from scheduler.compose import build_engine
from scheduler.controller.parts import Parts
from scheduler.controller.reload import Build
from scheduler.controller.report.engine_gauges import GaugesOfEngine
from scheduler.controller.run import Shell
from scheduler.engine.attempt import SCHEDULED, UNSCHEDULABLE, Attempt, ExtenderFault
from scheduler.errors import ConfigurationError
from scheduler.framework.plugin_times import PluginTimes
from scheduler.messages.now import Now
from tests.manifests.documents import deployed_flags

_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ", re.MULTILINE)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="')


def refuse(_: bytes) -> Build:
    """No configuration is offered here."""
    raise ConfigurationError(())


@pytest.fixture
async def series() -> dict[str, frozenset[str]]:
    """Name of each series on the page -> its labels, after a pod was placed and another refused."""
    prepared = prepare(deployed_flags())
    engine = build_engine(
        prepared.configuration, started=Now(time.monotonic(), time.time_ns()), seed=1, profiles=prepared.profiles
    )
    engine.facts.incoming[("active", "UnschedulablePodAdd")] = 2
    engine.facts.unschedulable_pods[("NodeResourcesFit", "tandem-scheduler")] = 1
    engine.facts.hint_took("NodeResourcesFit", "NodeAdd", "Queue", 0.00001)
    engine.room.suspensions["any"] = 1
    parts = Parts(engine, GaugesOfEngine(engine), prepare=refuse)
    shell = Shell(prepared.settings, parts, {})
    for result in (SCHEDULED, UNSCHEDULABLE):
        attempt = Attempt("default/a", "1", "tandem-scheduler", 1, 1, result=result)
        attempt.durations.update({"Filter": 0.001, "PostFilter": 0.001})
        attempt.plugin_times = PluginTimes(lambda: 0.0)
        attempt.plugin_times.took("NodeResourcesFit", "Filter", "Success", 0.001)
        attempt.extender_faults = (ExtenderFault("http://extender", "filter", "no answer", is_skipped=True),)
        shell.metrics.observe(attempt)
    assert shell.client.observe is not None
    shell.client.observe("GET", "api:6443", 200, 0.01)
    # Series that begin with the first of what they count.
    for counter, label in (
        (shell.metrics.kubelet_refusals, "OutOfcpu"),
        (shell.metrics.repairs, "pods"),
        (shell.metrics.shadow_decisions, "true"),
        (shell.metrics.task_failures, "scheduling loop"),
    ):
        counter.child(label).add()
    page = generate_latest(shell.metrics.registry).decode()
    return {name: frozenset(_LABEL.findall(labels or "")) for name, labels in _SAMPLE.findall(page)}
