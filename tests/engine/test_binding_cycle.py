from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.attempt import ERROR, SCHEDULED
from scheduler.engine.error_texts import go_duration
from scheduler.framework.plugin import Wait
from scheduler.messages.commands import BindPod, PatchPodStatus, RunPlugin
from scheduler.messages.status import failure
from scheduler.messages.stimuli import PluginFinished, ShutdownRequested
from tests.engine.driver import Cluster
from tests.engine.scripted import calls_of, scripted

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


@pytest.mark.parametrize(
    ("at_bind", "asked"),
    [({}, []), ({"enabled": [{"name": "Own"}]}, ["Own"]), ({"disabled": [{"name": "DefaultBinder"}]}, ["Own"])],
)
def test_a_bind_plugin_is_asked_where_it_is_enabled_at_bind_as_well_or_the_default_is_disabled(
    at_bind: dict[str, Any], asked: list[str]
) -> None:
    cluster = Cluster(scripted("Own", bind=True), profile={"plugins": {"bind": at_bind}})
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    assert [command.plugin for command in cluster.writes(RunPlugin, "a")] == asked


def test_post_bind_plugins_run_and_are_not_waited_for() -> None:
    cluster = Cluster(scripted("After", post_bind=True))
    cluster.node("n")
    cluster.pod("a")
    cluster.settle()
    after = [command for command in cluster.sent if isinstance(command, RunPlugin)]
    assert [(each.ticket, each.point, each.plugin) for each in after] == [(0, "PostBind", "After")]
    assert cluster.is_quiet()


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
