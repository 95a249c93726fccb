"""The shell's metrics: their names, labels and values."""

from __future__ import annotations

from prometheus_client.exposition import generate_latest

from scheduler.compose import build_engine
from scheduler.config.loading import load
from scheduler.controller.loop import read_clock
from scheduler.controller.report.engine_gauges import GaugesOfEngine
from scheduler.controller.report.instruments import exponential
from scheduler.controller.report.metrics import SchedulerMetrics
from scheduler.engine.attempt import ERROR, SCHEDULED, UNSCHEDULABLE, Attempt
from scheduler.framework.plugin_times import PluginTimes
from scheduler.preemption.evaluation import PreemptionEvidence
from scheduler.queue.metrics import HINT_BUCKETS
from tests.controller.running import CONFIGURATION
from tests.engine.driver import Cluster


def page_of(metrics: SchedulerMetrics) -> list[str]:
    return generate_latest(metrics.registry).decode().splitlines()


def attempt(result: str, bind_seconds: float | None = None) -> Attempt:
    return Attempt("default/a", "1", "tandem", 1, 0, result=result, node="n1", bind_seconds=bind_seconds)


def test_a_binding_is_an_extension_point_like_the_others() -> None:
    metrics = SchedulerMetrics(lambda: 0.0)
    for result, seconds in ((SCHEDULED, 0.25), (ERROR, 0.5), (SCHEDULED, None)):
        metrics.observe(attempt(result, seconds))
    name = "scheduler_framework_extension_point_duration_seconds"
    sums = [line for line in page_of(metrics) if line.startswith(f"{name}_sum")]
    assert sums == [
        f'{name}_sum{{extension_point="Bind",profile="tandem",status="Success"}} 0.25',
        f'{name}_sum{{extension_point="Bind",profile="tandem",status="Error"}} 0.5',
    ]


def test_each_extension_point_has_the_status_that_it_came_to_itself() -> None:
    metrics = SchedulerMetrics(lambda: 0.0)
    tried = attempt(UNSCHEDULABLE)
    tried.durations = {"PreFilter": 0.1, "Filter": 0.2, "PostFilter": 0.4}
    tried.statuses = {"PostFilter": "Unschedulable"}
    tried.preemption = PreemptionEvidence(eligible=False)
    metrics.observe(tried)
    nominated = attempt(UNSCHEDULABLE)
    nominated.durations = {"PreFilter": 0.1, "Filter": 0.2, "PostFilter": 0.8}
    nominated.preemption = PreemptionEvidence(eligible=True)
    metrics.observe(nominated)
    name = "scheduler_framework_extension_point_duration_seconds"
    counts = {line for line in page_of(metrics) if line.startswith(f"{name}_count")}
    assert counts == {
        f'{name}_count{{extension_point="PreFilter",profile="tandem",status="Success"}} 2.0',
        f'{name}_count{{extension_point="Filter",profile="tandem",status="Success"}} 2.0',
        f'{name}_count{{extension_point="PostFilter",profile="tandem",status="Unschedulable"}} 1.0',
        f'{name}_count{{extension_point="PostFilter",profile="tandem",status="Success"}} 1.0',
    }


def test_the_algorithm_of_an_attempt_that_finds_no_node_counts_with_its_preemption() -> None:
    metrics = SchedulerMetrics(lambda: 0.0)
    for result in (SCHEDULED, UNSCHEDULABLE, ERROR):
        tried = attempt(result)
        tried.durations = {"PreFilter": 0.25, "Filter": 0.5, "PostFilter": 1.0, "Reserve": 4.0}
        metrics.observe(tried)
    metrics.observe(attempt(""))
    lines = page_of(metrics)
    assert "scheduler_scheduling_algorithm_duration_seconds_count 3.0" in lines
    assert "scheduler_scheduling_algorithm_duration_seconds_sum 5.25" in lines


def test_only_attempts_of_default_preemption_are_preemption_attempts() -> None:
    metrics = SchedulerMetrics(lambda: 0.0)
    for evidence in (None, PreemptionEvidence(eligible=True)):
        tried = attempt(UNSCHEDULABLE)
        tried.durations, tried.preemption = {"PostFilter": 0.1}, evidence
        metrics.observe(tried)
    assert "scheduler_preemption_attempts_total 1.0" in page_of(metrics)


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
        engine.room.times["success"].observe(seconds)
    engine.room.times["error"].observe(1.0)
    engine.room.suspensions["taken_again"] += 2
    lines = page_of(metrics)
    assert 'scheduler_preemption_goroutines_execution_total{result="success"} 2.0' in lines
    assert 'scheduler_preemption_goroutines_execution_total{result="error"} 1.0' in lines
    name = "scheduler_preemption_goroutines_duration_seconds"
    assert f'{name}_bucket{{le="0.01",result="success"}} 1.0' in lines
    assert f'{name}_bucket{{le="0.04",result="success"}} 2.0' in lines
    assert f'{name}_count{{result="error"}} 1.0' in lines
    assert 'tandem_preemption_suspensions_total{reason="taken_again"} 2.0' in lines


def test_dry_runs_of_many_nodes_that_failed_are_on_the_page() -> None:
    metrics = SchedulerMetrics(lambda: 0.0)
    for faults in ((), ("ValueError: no tally in NoTally.tallies",)):
        tried = attempt(UNSCHEDULABLE)
        tried.durations = {"PostFilter": 0.1}
        tried.preemption = PreemptionEvidence(eligible=True, faults=faults)
        metrics.observe(tried)
    assert "tandem_preemption_wave_faults_total 1.0" in page_of(metrics)


def test_of_a_measured_attempt_each_call_of_a_plugin_is_on_the_page_once() -> None:
    metrics = SchedulerMetrics(lambda: 0.0)
    measured = attempt(SCHEDULED)
    measured.plugin_times = PluginTimes(lambda: 0.0)
    measured.plugin_times.took("NodeResourcesFit", "Filter", "Success", 0.00001)
    measured.plugin_times.took("NodeResourcesFit", "Filter", "Success", 0.5)
    metrics.observe(measured)
    metrics.observe(measured)
    name = "scheduler_plugin_execution_duration_seconds"
    labels = 'extension_point="Filter"'
    lines = page_of(metrics)
    assert f'{name}_bucket{{{labels},le="1e-05",plugin="NodeResourcesFit",status="Success"}} 1.0' in lines
    assert f'{name}_count{{{labels},plugin="NodeResourcesFit",status="Success"}} 2.0' in lines
    assert len([line for line in lines if line.startswith(f"{name}_bucket")]) == 21


def test_a_plugin_is_evaluated_once_an_attempt() -> None:
    metrics = SchedulerMetrics(lambda: 0.0)
    for scores in (frozenset({("Fit", "Score")}), frozenset()):
        one = attempt(SCHEDULED)
        one.evaluated, one.evaluated_scores = frozenset({("Fit", "Filter"), ("Ports", "Filter")}), scores
        metrics.observe(one)
    name = "scheduler_plugin_evaluation_total"

    def shown() -> list[str]:
        return [line for line in page_of(metrics) if line.startswith(name)]

    assert shown() == [
        f'{name}{{extension_point="Filter",plugin="Fit",profile="tandem"}} 2.0',
        f'{name}{{extension_point="Score",plugin="Fit",profile="tandem"}} 1.0',
        f'{name}{{extension_point="Filter",plugin="Ports",profile="tandem"}} 2.0',
    ]
    metrics.instruments.reset()
    assert shown() == []


def test_waits_in_permit_are_on_the_page_by_how_they_ended() -> None:
    metrics = SchedulerMetrics(lambda: 0.0)
    for result, wait in ((SCHEDULED, ("Success", 1.5)), (ERROR, ("Unschedulable", 10.0)), (SCHEDULED, None)):
        one = attempt(result)
        one.permit_wait = wait
        metrics.observe(one)
    name = "scheduler_permit_wait_duration_seconds"
    assert [line for line in page_of(metrics) if line.startswith((f"{name}_sum", f"{name}_count"))] == [
        f'{name}_count{{result="Success"}} 1.0',
        f'{name}_sum{{result="Success"}} 1.5',
        f'{name}_count{{result="Unschedulable"}} 1.0',
        f'{name}_sum{{result="Unschedulable"}} 10.0',
    ]


def test_pods_that_only_the_flush_brought_back_count_when_they_are_placed() -> None:
    metrics = SchedulerMetrics(lambda: 0.0)
    for result, was_flushed in ((ERROR, True), (SCHEDULED, True), (SCHEDULED, False)):
        one = attempt(result)
        one.was_flushed = was_flushed
        metrics.observe(one)
    assert "scheduler_pod_scheduled_after_flush_total 1.0" in page_of(metrics)


def test_what_handling_events_takes_is_on_the_page() -> None:
    engine = build_engine(load(CONFIGURATION), started=read_clock(), seed=1)
    metrics = SchedulerMetrics()
    metrics.watch_engine(GaugesOfEngine(engine))
    for seconds in (0.0001, 0.0003, 1.0):
        engine.facts.event_took("NodeAdd", seconds)
    name = "scheduler_event_handling_duration_seconds"
    lines = [line for line in page_of(metrics) if line.startswith(name)]
    assert f'{name}_bucket{{event="NodeAdd",le="0.0001"}} 1.0' in lines
    assert f'{name}_bucket{{event="NodeAdd",le="0.0004"}} 2.0' in lines
    assert f'{name}_bucket{{event="NodeAdd",le="+Inf"}} 3.0' in lines
    assert len([line for line in lines if "_bucket" in line]) == 13


def test_bounds_are_written_with_the_digits_of_kube_scheduler_s_so_that_series_of_both_add_up() -> None:
    of_kube_scheduler = [
        1e-05,
        1.5000000000000002e-05,
        2.2500000000000005e-05,
        3.375000000000001e-05,
        5.062500000000001e-05,
        7.593750000000002e-05,
        0.00011390625000000003,
        0.00017085937500000006,
        0.0002562890625000001,
        0.00038443359375000017,
        0.0005766503906250003,
        0.0008649755859375004,
        0.0012974633789062506,
        0.0019461950683593758,
        0.0029192926025390638,
        0.004378938903808595,
        0.006568408355712893,
        0.009852612533569338,
        0.014778918800354007,
        0.02216837820053101,
    ]
    assert exponential(0.00001, 1.5, 20) == list(HINT_BUCKETS) == of_kube_scheduler


def test_pods_in_flight_are_a_series_also_while_there_are_none() -> None:
    metrics = SchedulerMetrics()
    metrics.watch_engine(GaugesOfEngine(build_engine(load(CONFIGURATION), started=read_clock(), seed=1)))
    assert 'scheduler_inflight_events{event="PodPopped"} 0.0' in page_of(metrics)


def test_an_attempt_takes_no_less_time_because_the_wall_clock_is_set_back() -> None:
    cluster = Cluster()
    cluster.pod("a")
    tried = cluster.schedule()
    assert tried is not None
    tried.started_wall += 3600 * 10**9
    metrics = SchedulerMetrics(lambda: cluster.time + 2.0)
    metrics.observe(tried)
    labels = 'profile="tandem-scheduler",result="unschedulable"'
    assert f"scheduler_scheduling_attempt_duration_seconds_sum{{{labels}}} 2.0" in page_of(metrics)
