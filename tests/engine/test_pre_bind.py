from __future__ import annotations

import pytest

from scheduler.engine.attempt import ERROR, UNSCHEDULABLE
from scheduler.framework.plugin import PreFlight
from scheduler.messages.commands import BindPod, PatchPodStatus, RunPlugin, StopPlugins
from scheduler.messages.status import SKIP, unschedulable
from scheduler.messages.stimuli import PluginFinished, WriteFinished
from tests.engine.driver import Cluster
from tests.engine.scripted import calls_of, scripted, works, works_in_parallel


def test_pre_bind_plugins_run_one_after_the_other_before_the_binding() -> None:
    cluster = Cluster(scripted("One", pre_flight=works), scripted("Two", pre_flight=works))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    for name in ("One", "Two"):
        assert cluster.writes(BindPod) == []
        asked = cluster.write(RunPlugin, "a")
        assert (asked.point, asked.plugin) == ("PreBind", name)
        cluster.succeed(asked)
    assert cluster.write(BindPod, "a")


def test_neighbours_that_say_so_run_in_parallel_and_others_are_barriers() -> None:
    cluster = Cluster(
        scripted("One", pre_flight=works_in_parallel),
        scripted("Two", pre_flight=works_in_parallel),
        scripted("Barrier", pre_flight=works),
        scripted("Three", pre_flight=works_in_parallel),
    )
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    one, two = cluster.writes(RunPlugin)
    assert (one.plugin, two.plugin) == ("One", "Two")
    cluster.succeed(two)
    assert cluster.writes(RunPlugin) == [one]
    cluster.succeed(one)
    barrier = cluster.write(RunPlugin)
    assert barrier.plugin == "Barrier"
    cluster.succeed(barrier)
    cluster.succeed(cluster.write(RunPlugin))
    assert cluster.write(BindPod)


def test_a_plugin_that_skips_in_its_pre_flight_is_not_run_and_nothing_is_announced() -> None:
    cluster = Cluster(scripted("Idle", pre_flight=lambda pod, node: SKIP))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    assert not cluster.writes(RunPlugin) and not cluster.writes(PatchPodStatus)
    assert cluster.write(BindPod)


def test_a_pre_bind_that_fails_ends_the_group_and_answers_that_come_later_are_dropped() -> None:
    cluster = Cluster(
        scripted("One", pre_flight=works_in_parallel, reserve=lambda pod, node: None),
        scripted("Two", pre_flight=works_in_parallel),
    )
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    one, two = cluster.writes(RunPlugin)
    cluster.fail(one, message="disk on fire")
    assert [command.uid for command in cluster.sent if isinstance(command, StopPlugins)] == ["pod-a"]
    attempt = cluster.attempt("a")
    assert (attempt.result, attempt.message) == (ERROR, 'running PreBind plugin "One": disk on fire')
    assert cluster.place("a") == "error backoff"
    assert cluster.node_of("a") == ""
    cluster.succeed(two)
    assert len(cluster.attempts("a")) == 1
    assert cluster.is_quiet()


def test_even_a_refusal_in_pre_bind_is_an_error_for_the_queue() -> None:
    cluster = Cluster(scripted("One", pre_flight=works))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    asked = cluster.write(RunPlugin)
    cluster.unanswered.remove(asked)
    cluster.feed(PluginFinished(asked.ticket, unschedulable("no")))
    assert cluster.place("a") == "error backoff"


@pytest.mark.parametrize("point", ["PreBind", "Bind"])
def test_a_pod_that_a_plugin_rejects_before_or_in_its_bind_is_reported_as_unschedulable_in_the_plugins_words(
    point: str,
) -> None:
    """As by kube-scheduler, where only an error names point and plugin. Autoscalers read the reason."""
    if point == "PreBind":
        cluster = Cluster(scripted("One", pre_flight=works))
    else:
        cluster = Cluster(scripted("One", bind=True), first=True)
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    asked = cluster.write(RunPlugin)
    assert asked.point == point
    cluster.unanswered.remove(asked)
    cluster.feed(PluginFinished(asked.ticket, unschedulable("no licence", "no seat")))
    attempt = cluster.attempt("a")
    assert (attempt.result, attempt.message) == (UNSCHEDULABLE, "no licence, no seat")
    condition = cluster.writes(PatchPodStatus, "a")[-1].condition
    assert condition is not None and (condition.reason, condition.message) == ("Unschedulable", "no licence, no seat")
    assert cluster.said("a") == ["no licence, no seat"]
    assert (cluster.place("a"), cluster.node_of("a")) == ("error backoff", "")


def test_the_attempt_is_done_before_pre_bind_so_that_no_events_are_kept_for_it() -> None:
    cluster = Cluster(scripted("One", pre_flight=works))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    assert len(cluster.engine.queue.in_flight) == 0


def test_calls_that_hang_and_binds_without_an_answer_are_no_more_than_pods_have_room() -> None:
    cluster = Cluster(scripted("One", pre_flight=lambda pod, node: PreFlight() if pod < "p5" else SKIP))
    cluster.nodes_like(2, pods="4")
    for number in range(10):
        cluster.pod(f"p{number}")
    cluster.schedule_all()
    assert len(cluster.writes(RunPlugin)) == 5
    for bind in cluster.writes(BindPod):
        cluster.unanswered.remove(bind)
        cluster.feed(WriteFinished(bind.ticket, False, 0, "", "no answer", is_unknown=True))
    cluster.schedule_all()
    assert len(cluster.engine.bindings) == 8
    assert [cluster.place(f"p{number}") for number in (8, 9)] == ["unschedulable"] * 2


def test_what_a_plugin_set_going_is_asked_about_every_second_until_it_is_done() -> None:
    left = [2]

    def progress(pod: str, node: str) -> bool:
        left[0] -= 1
        return left[0] < 0

    plugin = scripted("Slow", pre_flight=lambda pod, node: PreFlight(wait_seconds=60.0), progress=progress)
    cluster = Cluster(plugin)
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    cluster.advance(2.5)
    assert cluster.writes(BindPod) == []
    cluster.advance(1)
    assert cluster.write(BindPod)
    assert calls_of(plugin).count("progress a n") == 3


def test_what_is_never_done_is_given_up_after_its_time() -> None:
    cluster = Cluster(
        scripted("Slow", pre_flight=lambda pod, node: PreFlight(wait_seconds=5.0), progress=lambda pod, node: False)
    )
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    cluster.advance(4.5)
    assert cluster.attempts("a") == []
    cluster.advance(1)
    assert "context deadline exceeded" in cluster.attempts("a")[0].message


def test_where_no_plugin_runs_beside_the_one_that_failed_there_is_nothing_to_stop() -> None:
    cluster = Cluster(scripted("One", pre_flight=works), scripted("Two", pre_flight=works))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    cluster.fail(cluster.write(RunPlugin))
    assert cluster.place("a") == "error backoff"
    assert not [command for command in cluster.sent if isinstance(command, StopPlugins)]


def test_a_pod_preempted_in_pre_bind_goes_back_to_the_queue_and_lives() -> None:
    cluster = Cluster(scripted("Works", pre_flight=lambda pod, node: works() if pod == "low" else SKIP))
    cluster.node("n", cpu="2")
    cluster.pod("low", cpu="2", priority=1)
    cluster.schedule()
    cluster.pod("high", cpu="2", priority=10)
    cluster.schedule()
    assert cluster.attempt("low").message == "preempted by DefaultPreemption"
    assert [command.uid for command in cluster.sent if isinstance(command, StopPlugins)] == ["pod-low"]
    assert cluster.place("low") == "error backoff"
    cluster.succeed(cluster.write(RunPlugin, "low"))
    cluster.schedule()
    assert cluster.node_of("high") == "n"
