from __future__ import annotations

import pytest

from scheduler.engine.attempt import ERROR, SCHEDULED, UNSCHEDULABLE
from scheduler.engine.error_texts import go_duration
from scheduler.framework.plugin import PreFlight, Wait
from scheduler.messages.commands import BindPod, PatchPodStatus, RunPlugin
from scheduler.messages.status import SKIP, failure, unschedulable
from scheduler.messages.stimuli import PluginFinished, ShutdownRequested
from tests.engine.driver import Cluster
from tests.engine.scripted import calls_of, scripted, works, works_in_parallel


def waiting(name: str = "Waits", seconds: float = 10) -> type:
    return scripted(name, permit=lambda pod, node: Wait(seconds))


# --- binding ----------------------------------------------------------------------------------------------------------


def test_a_pod_is_bound_announced_and_confirmed() -> None:
    cluster = Cluster()
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    assert cluster.place("a") == ""
    assert cluster.engine.cache.is_assumed("pod-a")
    bind = cluster.write(BindPod, "a")
    assert (bind.node, bind.pod.uid) == ("n", "pod-a")
    cluster.settle()
    assert cluster.attempt("a").result == SCHEDULED
    assert cluster.said("a", "Scheduled") == ["Successfully assigned default/a to n"]
    assert cluster.writes(PatchPodStatus) == []
    assert cluster.is_quiet()


def test_a_bind_that_fails_frees_the_room_and_the_pod_is_tried_again_after_its_back_off() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="2")
    cluster.pod("a", cpu="2")
    cluster.schedule()
    cluster.fail(cluster.write(BindPod), 500, "etcd is away")
    attempt = cluster.attempt("a")
    assert (attempt.result, attempt.message) == (ERROR, 'running Bind plugin "DefaultBinder": etcd is away')
    assert cluster.node_of("a") == ""
    assert cluster.place("a") == "error backoff"
    assert cluster.is_quiet()
    cluster.advance(5)
    cluster.settle()
    assert cluster.pods["default/a"].node_name == "n"


def test_a_failed_bind_wakes_those_who_wait_for_the_room_before_the_pod_itself_is_back() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="2")
    cluster.pod("a", cpu="2", priority=1)
    cluster.pod("b", cpu="2")
    cluster.schedule()
    cluster.schedule()
    assert cluster.place("b") == "unschedulable"
    cluster.fail(cluster.write(BindPod, "a"))
    assert cluster.place("b") in ("active", "backoff")
    cluster.schedule()
    assert cluster.node_of("b") == "n"


def test_a_bind_whose_answer_was_lost_but_that_the_watch_confirmed_is_a_success() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="2")
    cluster.pod("a", cpu="2")
    cluster.schedule()
    bind = cluster.write(BindPod)
    cluster.take_effect(bind)
    cluster.watch("a")
    cluster.fail(bind, 0, "timed out")
    assert cluster.node_of("a") == "n"
    assert cluster.place("a") == ""
    assert cluster.said("a") == []
    assert cluster.is_quiet()


def test_a_lost_answer_before_the_watch_puts_the_pod_back_and_the_watch_takes_it_out_again() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="2")
    cluster.pod("a", cpu="2")
    cluster.schedule()
    cluster.lose(cluster.write(BindPod))
    assert cluster.place("a") == "error backoff"
    cluster.watch("a")
    assert cluster.place("a") == ""
    assert cluster.node_of("a") == "n"
    cluster.advance(60)
    assert cluster.schedule() is None


def test_a_pod_that_another_scheduler_bound_elsewhere_counts_there() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="2")
    cluster.node("m", cpu="2", unschedulable=True)
    cluster.pod("a", cpu="2")
    cluster.schedule()
    cluster.pod("a", cpu="2", node="m")
    cluster.fail(cluster.write(BindPod), 409, 'pod a is already assigned to node "m"', "Conflict")
    assert cluster.node_of("a") == "m"
    assert cluster.place("a") == ""
    assert cluster.said("a") == []
    cluster.pod("b", cpu="2")
    cluster.schedule()
    assert cluster.node_of("b") == "n"


def test_an_assumed_pod_that_is_deleted_frees_its_room_at_once_and_its_bind_may_fail_later() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="2")
    cluster.pod("a", cpu="2", priority=1)
    cluster.pod("b", cpu="2")
    cluster.schedule()
    cluster.schedule()
    bind = cluster.write(BindPod, "a")
    cluster.delete("a")
    assert cluster.node_of("a") == ""
    cluster.schedule()
    assert cluster.node_of("b") == "n"
    cluster.fail(bind, 404, "not found")
    assert cluster.said("a") == []
    assert cluster.place("a") == ""
    cluster.settle()
    assert cluster.is_quiet()


def test_an_assumed_pod_that_begins_to_terminate_frees_its_room_at_once() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="2")
    cluster.pod("a", cpu="2")
    cluster.schedule()
    cluster.terminate("a")
    assert cluster.node_of("a") == ""
    cluster.fail(cluster.write(BindPod, "a"), 409, "being deleted")
    assert cluster.node_of("a") == ""


def test_an_answer_to_a_bind_that_is_no_longer_under_way_is_dropped() -> None:
    cluster = Cluster()
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    bind = cluster.write(BindPod)
    cluster.settle()
    cluster.unanswered.append(bind)
    cluster.fail(bind)
    assert cluster.attempt("a").result == SCHEDULED


def test_a_bind_plugin_of_ones_own_is_asked_first_and_may_leave_it_to_the_default() -> None:
    cluster = Cluster(scripted("Own", bind=True), first=True)
    cluster.node("n")
    for name in ("a", "b", "c"):
        cluster.pod(name)
        cluster.schedule()
        asked = cluster.write(RunPlugin, name)
        assert (asked.point, asked.plugin, asked.node) == ("Bind", "Own", "n")
        cluster.unanswered.remove(asked)
        match name:
            case "a":
                cluster.feed(PluginFinished(asked.ticket, None, is_skip=True))
                cluster.succeed(cluster.write(BindPod, "a"))
            case "b":
                cluster.feed(PluginFinished(asked.ticket, None))
            case _:
                cluster.feed(PluginFinished(asked.ticket, failure("no")))
    assert cluster.attempt("a").result == cluster.attempt("b").result == SCHEDULED
    assert cluster.attempt("c").message == 'running Bind plugin "Own": no'
    assert cluster.place("c") == "error backoff"


def test_post_bind_plugins_run_and_are_not_waited_for() -> None:
    cluster = Cluster(scripted("After", post_bind=True))
    cluster.node("n")
    cluster.pod("a")
    cluster.settle()
    after = [command for command in cluster.sent if isinstance(command, RunPlugin)]
    assert [(each.ticket, each.point, each.plugin) for each in after] == [(0, "PostBind", "After")]
    assert cluster.is_quiet()


# --- Permit -----------------------------------------------------------------------------------------------------------


def test_a_pod_waits_in_permit_assumed_and_with_its_node_announced() -> None:
    cluster = Cluster(waiting())
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    assert cluster.node_of("a") == "n"
    assert cluster.writes(BindPod) == []
    assert cluster.write(PatchPodStatus, "a").nominated_node_name == "n"
    assert cluster.place("a") == "in flight"


def test_it_is_bound_when_every_plugin_has_allowed_it() -> None:
    cluster = Cluster(waiting("One"), waiting("Two"))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    cluster.allow("a", "One")
    assert cluster.writes(BindPod) == []
    cluster.allow("a", "One")
    cluster.allow("a", "Two")
    assert cluster.write(BindPod, "a").node == "n"
    assert cluster.place("a") == ""
    cluster.settle()
    assert cluster.attempt("a").result == SCHEDULED


def test_one_rejection_is_enough_and_later_words_are_ignored() -> None:
    cluster = Cluster(waiting("One"), waiting("Two"))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    cluster.reject("a", "Two", "not now")
    cluster.allow("a", "One")
    attempt = cluster.attempt("a")
    assert (attempt.result, attempt.message) == (UNSCHEDULABLE, "0/1 nodes are available: 1 not now.")
    assert attempt.rejectors == ("Two",)
    assert cluster.node_of("a") == ""


def test_a_pod_that_was_rejected_in_permit_is_not_woken_by_its_own_failure() -> None:
    cluster = Cluster(waiting())
    cluster.node("n", cpu="2")
    cluster.pod("a", cpu="2", priority=1)
    cluster.pod("b", cpu="2")
    cluster.schedule()
    cluster.schedule()
    cluster.reject("a", "Waits")
    assert cluster.place("a") == "unschedulable"
    assert cluster.place("b") in ("active", "backoff"), "the room is free for others"


@pytest.mark.parametrize(("seconds", "text"), [(10, "10s"), (60, "1m0s"), (3600, "15m0s"), (1.5, "1.5s")])
def test_a_wait_ends_after_its_time_and_says_so(seconds: float, text: str) -> None:
    cluster = Cluster(waiting("Slow", seconds))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    cluster.advance(min(seconds, 900) - 0.5)
    assert cluster.attempts("a") == []
    cluster.advance(1)
    assert cluster.attempts("a")[0].message == (
        f"0/1 nodes are available: 1 rejected due to timeout after waiting {text} at plugin Slow."
    )
    assert cluster.attempts("a")[0].rejectors == ("Slow",)


def test_the_first_of_several_waits_to_end_ends_them_all() -> None:
    cluster = Cluster(waiting("Long", 100), waiting("Short", 5))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    cluster.advance(6)
    assert cluster.attempts("a")[0].rejectors == ("Short",)
    assert cluster.place("a") == "unschedulable"
    cluster.advance(200)
    assert len(cluster.attempts("a")) == 1


def test_a_pod_deleted_while_it_waits_is_removed_without_a_word() -> None:
    cluster = Cluster(waiting())
    cluster.node("n", cpu="2")
    cluster.pod("a", cpu="2", priority=1)
    cluster.pod("b", cpu="2")
    cluster.schedule()
    cluster.schedule()
    cluster.delete("a")
    assert cluster.attempt("a").message == "0/1 nodes are available: 1 removed."
    assert cluster.said("a") == []
    assert cluster.place("a") == ""
    assert cluster.place("b") in ("active", "backoff")
    assert not cluster.engine.bindings.under_way


def test_a_pod_preempted_while_it_waits_goes_back_to_the_queue_and_lives() -> None:
    cluster = Cluster(waiting())
    cluster.node("n", cpu="2")
    cluster.pod("low", cpu="2", priority=1)
    cluster.schedule()
    cluster.pod("high", cpu="2", priority=10)
    cluster.schedule()
    attempt = cluster.attempt("low")
    assert (attempt.result, attempt.message) == (ERROR, "waiting on permit for pod: preempted")
    assert cluster.place("low") == "error backoff"
    assert cluster.said("low", "Preempted") == ["Preempted by pod pod-high on node n (in kube-scheduler memory)."]
    cluster.schedule()
    assert cluster.node_of("high") == "n"
    assert "default/low" in cluster.pods


def test_the_nomination_announced_for_a_wait_is_taken_back_though_it_has_not_come_back_yet() -> None:
    cluster = Cluster(waiting())
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    cluster.reject("a", "Waits")
    first, second = cluster.writes(PatchPodStatus, "a")
    assert first.nominated_node_name == "n"
    assert second.nominated_node_name == ""


# --- PreBind ----------------------------------------------------------------------------------------------------------


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


def test_the_attempt_is_done_before_pre_bind_so_that_no_events_are_kept_for_it() -> None:
    cluster = Cluster(scripted("One", pre_flight=works))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    assert len(cluster.engine.queue.in_flight) == 0


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


def test_a_pod_preempted_in_pre_bind_goes_back_to_the_queue_and_lives() -> None:
    cluster = Cluster(scripted("Works", pre_flight=lambda pod, node: works() if pod == "low" else SKIP))
    cluster.node("n", cpu="2")
    cluster.pod("low", cpu="2", priority=1)
    cluster.schedule()
    cluster.pod("high", cpu="2", priority=10)
    cluster.schedule()
    assert cluster.attempt("low").message == "preempted by DefaultPreemption"
    assert cluster.place("low") == "error backoff"
    cluster.succeed(cluster.write(RunPlugin, "low"))
    cluster.schedule()
    assert cluster.node_of("high") == "n"


# --- the end ----------------------------------------------------------------------------------------------------------


def test_on_shutdown_waits_give_up_their_room_and_binds_are_settled() -> None:
    reserving = scripted(
        "Waits",
        permit=lambda pod, node: Wait(60) if pod == "a" else None,
        reserve=lambda pod, node: None,
        unreserve=lambda pod, node: None,
    )
    cluster = Cluster(reserving)
    cluster.node("n")
    cluster.pod("a", priority=1)
    cluster.pod("b")
    cluster.schedule()
    cluster.schedule()
    cluster.feed(ShutdownRequested())
    assert cluster.node_of("a") == ""
    assert "unreserve a n" in calls_of(reserving)
    assert [binding.pod.name for binding in cluster.engine.bindings.under_way] == ["b"]
    cluster.pod("c")
    assert cluster.schedule() is None
    cluster.succeed(cluster.write(BindPod, "b"))
    assert cluster.attempt("b").result == SCHEDULED
    assert cluster.is_quiet()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "250ms"), (10, "10s"), (60, "1m0s"), (75, "1m15s"), (900, "15m0s"), (3600, "1h0m0s"), (1.5, "1.5s")],
)
def test_durations_are_written_as_go_writes_them(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text
