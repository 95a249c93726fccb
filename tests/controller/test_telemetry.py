"""Metrics that are made in the shell: their names, labels and numbers."""

from __future__ import annotations

from prometheus_client.exposition import generate_latest

from scheduler.compose import build_engine
from scheduler.config.loading import load
from scheduler.controller.engine_gauges import GaugesOfEngine
from scheduler.controller.loop import read_clock
from scheduler.controller.telemetry import SchedulerMetrics
from scheduler.engine.attempt import ERROR, SCHEDULED, Attempt
from tests.controller.test_engine_end_to_end import CONFIGURATION


def page_of(metrics: SchedulerMetrics) -> list[str]:
    return generate_latest(metrics.registry).decode().splitlines()


def attempt(result: str) -> Attempt:
    return Attempt("default/a", "1", "tandem", 1, 0, result=result, node="n1")


def test_a_binding_is_an_extension_point_like_the_others() -> None:
    metrics = SchedulerMetrics(lambda: 0)
    took: list[float | None] = [0.25, 0.5, None]
    metrics.bind_seconds = lambda: took.pop(0)
    for result in (SCHEDULED, ERROR, SCHEDULED):
        metrics.observe(attempt(result))
    name = "scheduler_framework_extension_point_duration_seconds"
    sums = [line for line in page_of(metrics) if line.startswith(f"{name}_sum")]
    assert sums == [
        f'{name}_sum{{extension_point="Bind",profile="tandem",status="Success"}} 0.25',
        f'{name}_sum{{extension_point="Bind",profile="tandem",status="Error"}} 0.5',
    ]


def test_what_the_queue_measures_is_on_the_page() -> None:
    engine = build_engine(load(CONFIGURATION), started=read_clock(), seed=1)
    metrics = SchedulerMetrics()
    metrics.watch_engine(GaugesOfEngine(engine))
    for seconds in (0.000005, 0.00001, 1.0):
        engine.facts.hint_took("NodeResourcesFit", "NodeAdd", "Queue", seconds)
    name = "scheduler_queueing_hint_execution_duration_seconds"
    labels = 'event="NodeAdd",hint="Queue"'
    lines = [line for line in page_of(metrics) if line.startswith(name)]
    assert f'{name}_bucket{{{labels},le="1e-05",plugin="NodeResourcesFit"}} 2.0' in lines
    assert f'{name}_bucket{{{labels},le="+Inf",plugin="NodeResourcesFit"}} 3.0' in lines
    assert f'{name}_count{{{labels},plugin="NodeResourcesFit"}} 3.0' in lines


def test_removals_of_victims_and_nodes_left_out_are_on_the_page() -> None:
    engine = build_engine(load(CONFIGURATION), started=read_clock(), seed=1)
    metrics = SchedulerMetrics()
    metrics.watch_engine(GaugesOfEngine(engine))
    for seconds in (0.005, 0.03):
        engine.removals.times["success"].observe(seconds)
    engine.removals.times["error"].observe(1.0)
    engine.policies.suspensions["taken_again"] += 2
    lines = page_of(metrics)
    assert 'scheduler_preemption_goroutines_execution_total{result="success"} 2.0' in lines
    assert 'scheduler_preemption_goroutines_execution_total{result="error"} 1.0' in lines
    name = "scheduler_preemption_goroutines_duration_seconds"
    assert f'{name}_bucket{{le="0.01",result="success"}} 1.0' in lines
    assert f'{name}_bucket{{le="0.04",result="success"}} 2.0' in lines
    assert f'{name}_count{{result="error"}} 1.0' in lines
    assert 'tandem_preemption_suspensions_total{reason="taken_again"} 2.0' in lines
