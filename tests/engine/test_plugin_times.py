"""What is measured of plugins: one attempt in ten, and who had something to say in each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler.engine.attempt import Attempt
from scheduler.engine.internal import CancelBinding
from scheduler.framework.plugin import Wait
from scheduler.framework.plugin_times import PluginTimes
from scheduler.messages.status import SKIP, failure, unschedulable
from tests.engine.driver import Cluster
from tests.engine.scripted import broken, scripted, works


def measured(attempt: Attempt | None, plugin: str) -> list[tuple[str, str]]:
    assert attempt is not None and attempt.plugin_times is not None
    return [(one.point, one.status) for one in attempt.plugin_times.take() if one.plugin == plugin]


def schedule(cluster: Cluster, name: str) -> Attempt:
    cluster.pod(name)
    attempt = cluster.schedule()
    assert attempt is not None
    return attempt


def test_one_attempt_in_ten_is_measured() -> None:
    cluster = Cluster()
    cluster.nodes_like(2)
    attempts = [schedule(cluster, f"p{number}") for number in range(21)]
    assert [number for number, one in enumerate(attempts) if one.plugin_times is not None] == [0, 10, 20]


def test_each_call_of_a_plugin_is_measured_with_its_status() -> None:
    plugin = scripted(
        "Chatty",
        pre_filter=lambda pod: None,
        filter=lambda pod, node: None,
        pre_score=lambda pod: None,
        score=lambda pod, node: 1,
        normalize=lambda scores: scores,
        reserve=lambda pod, node: None,
        permit=lambda pod, node: Wait(5),
        pre_flight=works,
    )
    cluster = Cluster(plugin)
    cluster.nodes_like(2)
    assert measured(schedule(cluster, "a"), "Chatty") == [
        ("PreFilter", "Success"),
        ("Filter", "Success"),
        ("PreScore", "Success"),
        ("Score", "Success"),
        ("ScoreExtensionNormalize", "Success"),
        ("Reserve", "Success"),
        ("Permit", "Wait"),
        ("PreBindPreFlight", "Success"),
    ]


def test_refusals_skips_and_errors_are_distinguished() -> None:
    skips = scripted("Skips", pre_filter=lambda pod: SKIP, filter=lambda pod, node: None)
    refuses = scripted(
        "Refuses",
        reserve=lambda pod, node: None,
        unreserve=lambda pod, node: None,
        permit=lambda pod, node: unschedulable("no"),
    )
    breaks = scripted("Breaks", reserve=broken)
    fails = scripted("Fails", pre_filter=lambda pod: failure("no idea"))
    cluster = Cluster(skips, refuses)
    cluster.nodes_like(2)
    attempt = schedule(cluster, "a")
    assert attempt.plugin_times is not None
    recorded = {(one.plugin, one.point): one.status for one in attempt.plugin_times.take()}
    assert recorded["Skips", "PreFilter"] == "Skip"
    assert ("Skips", "Filter") not in recorded
    assert recorded["Refuses", "Permit"] == "Unschedulable"
    assert recorded["Refuses", "Unreserve"] == "Success"
    for plugin, point in ((breaks, "Reserve"), (fails, "PreFilter")):
        other = Cluster(plugin)
        other.nodes_like(2)
        assert measured(schedule(other, "a"), plugin.name)[0] == (point, "Error")


def test_after_a_measured_attempt_the_next_one_of_the_class_is_not() -> None:
    cluster = Cluster()
    cluster.nodes_like(2)
    first = schedule(cluster, "a")
    assert first.plugin_times is not None
    before = first.plugin_times.take()
    assert {one.point for one in before} >= {"PreFilter", "Filter", "PreScore", "Score"}
    cluster.settle()
    schedule(cluster, "b")
    assert first.plugin_times.take() == []


def test_of_a_class_that_is_known_only_what_is_asked_again_is_measured() -> None:
    cluster = Cluster()
    cluster.nodes_like(2)
    for number in range(10):
        schedule(cluster, f"p{number}")
    eleventh = schedule(cluster, "p10")
    assert eleventh.plugin_times is not None and eleventh.was_class_known
    recorded = {(one.plugin, one.point) for one in eleventh.plugin_times.take()}
    assert ("NodeResourcesFit", "Filter") in recorded
    assert ("NodeResourcesFit", "Score") in recorded
    assert ("NodeAffinity", "Filter") not in recorded


def test_a_call_takes_what_the_stopwatch_says() -> None:
    ticks = iter([1.0, 1.25])
    times = PluginTimes(lambda: next(ticks))
    assert times.timing(lambda: None, "A", "Filter")() is None
    assert [(one.plugin, one.seconds) for one in times.take()] == [("A", 0.25)]


def test_an_attempt_knows_which_plugins_had_something_to_say() -> None:
    cluster = Cluster()
    cluster.nodes_like(2)
    attempt = schedule(cluster, "a")
    assert {("NodeResourcesFit", "PreFilter"), ("NodeResourcesFit", "Filter")} <= attempt.evaluated
    assert ("NodeName", "Filter") in attempt.evaluated
    assert ("NodePorts", "PreFilter") not in attempt.evaluated
    assert ("NodePorts", "Filter") not in attempt.evaluated
    assert {("NodeResourcesFit", "PreScore"), ("NodeResourcesFit", "Score")} <= attempt.evaluated_scores
    assert ("ImageLocality", "PreScore") not in attempt.evaluated_scores


def test_no_filter_runs_for_a_pod_that_pre_filter_refuses() -> None:
    picky = scripted("Picky", pre_filter=lambda pod: unschedulable("never"))
    cluster = Cluster(picky)
    cluster.nodes_like(2)
    attempt = schedule(cluster, "a")
    assert ("Picky", "PreFilter") in attempt.evaluated
    assert {point for _, point in attempt.evaluated} == {"PreFilter"}
    assert attempt.evaluated_scores == frozenset()


def test_a_plugin_that_only_prescores_had_a_say_unless_it_skips() -> None:
    one = scripted("Says", pre_score=lambda pod: None)
    other = scripted("Skips", pre_score=lambda pod: SKIP)
    cluster = Cluster(one, other)
    cluster.nodes_like(2)
    said = schedule(cluster, "a").evaluated_scores
    assert ("Says", "PreScore") in said
    assert ("Skips", "PreScore") not in said


@pytest.mark.parametrize(
    ("end", "recorded"),
    [
        (lambda cluster: cluster.allow("a", "Waits"), ("Success", 2)),
        (lambda cluster: cluster.reject("a", "Waits"), ("Unschedulable", 2)),
        (lambda cluster: cluster.advance(60), ("Unschedulable", 10)),
        (lambda cluster: cluster.engine.bindings.cancel(CancelBinding("pod-a"), cluster.now), ("Error", 2)),
    ],
)
def test_a_wait_in_permit_is_recorded_with_its_end(end: Callable[[Cluster], object], recorded: tuple[str, int]) -> None:
    cluster = Cluster(scripted("Waits", permit=lambda pod, node: Wait(10)))
    cluster.node("n")
    attempt = schedule(cluster, "a")
    before = attempt.permit_wait
    cluster.advance(2)
    end(cluster)
    assert before is None
    assert attempt.permit_wait is not None
    ending, seconds = attempt.permit_wait
    assert (ending, round(seconds)) == recorded


def test_an_attempt_says_how_long_ago_its_pod_could_be_tried_first() -> None:
    """Pods that one moment makes ready have their order in time, but none is ready in the future."""
    cluster = Cluster()
    cluster.node("full", cpu="0")
    cluster.pod("a", cpu="1")
    cluster.pod("b", cpu="1")
    cluster.schedule_all()
    assert [cluster.attempt(name).queued_seconds for name in "ab"] == [0.0, 0.0]
    cluster.advance(30)
    cluster.node("n", cpu="4")
    cluster.settle()
    assert [round(cluster.attempt(name).queued_seconds, 6) for name in "ab"] == [30.0, 30.0]


def test_an_attempt_says_whether_only_the_flush_brought_the_pod_back() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="1")
    cluster.pod("a", cpu="2")
    first = cluster.schedule()
    assert first is not None and not first.was_flushed
    cluster.advance(400)
    second = cluster.schedule()
    assert second is not None and second.was_flushed


def test_what_handling_an_event_takes_is_counted_by_its_label() -> None:
    cluster = Cluster()
    cluster.node("n")
    cluster.pod("a")
    cluster.pod("b", node="n")
    cluster.pod("b", node="n", labels={"x": "y"})
    cluster.delete("b")
    cluster.delete("a")
    cluster.remove_node("n")
    durations = cluster.engine.facts.event_durations
    assert {label: one.count for label, one in durations.items()} == {
        "NodeAdd": 1,
        "UnschedulablePodAdd": 1,
        "AssignedPodAdd": 1,
        "AssignedPodUpdatePodLabel": 1,
        "AssignedPodDelete": 1,
        "UnschedulablePodDelete": 1,
        "NodeDelete": 1,
    }
