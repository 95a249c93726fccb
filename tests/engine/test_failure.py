from __future__ import annotations

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.failure import MAX_NOTE_BYTES, UNSEEN_SECONDS, cut_note
from scheduler.framework.enqueue_context import EnqueueContext
from scheduler.framework.plugin import PreEnqueuePlugin
from scheduler.messages.commands import BindPod, PatchPodStatus
from scheduler.messages.status import failure, unschedulable
from tests.engine.driver import Cluster
from tests.engine.scripted import scripted, works

FULL = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "


def full_cluster() -> Cluster:
    """A node of 1 CPU and a pod that asks for two."""
    cluster = Cluster()
    cluster.node("n", cpu="1")
    cluster.pod("a", cpu="2")
    return cluster


def retry(cluster: Cluster, name: str = "a") -> None:
    cluster.engine.queue.activate([f"default/{name}"], cluster.now)
    cluster.schedule()


def test_users_read_why_in_the_event_and_in_the_condition() -> None:
    cluster = full_cluster()
    cluster.schedule()
    (note,) = cluster.said("a")
    assert note.startswith(FULL)
    patch = cluster.write(PatchPodStatus, "a")
    assert patch.condition is not None
    condition = patch.condition
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")
    assert condition.message == note
    assert patch.nominated_node_name is None


def test_an_error_has_a_reason_of_its_own() -> None:
    cluster = Cluster(scripted("Bad", filter=lambda pod, node: failure("lost my way")))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    condition = cluster.write(PatchPodStatus, "a").condition
    assert condition is not None
    assert condition.reason == "SchedulerError"


def test_a_long_note_is_cut_and_the_condition_is_not() -> None:
    reason = "é" * 2000
    cluster = Cluster(scripted("Wordy", filter=lambda pod, node: unschedulable(reason)))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    (note,) = cluster.said("a")
    assert len(note.encode()) <= MAX_NOTE_BYTES
    assert note.endswith(" ...")
    condition = cluster.write(PatchPodStatus, "a").condition
    assert condition is not None
    assert reason in condition.message


def test_a_note_is_cut_to_1024_bytes_and_never_inside_a_character() -> None:
    assert cut_note("x" * 1024) == "x" * 1024
    assert cut_note("x" * 1025) == "x" * 1020 + " ..."
    long = cut_note("é" * 600)
    assert len(long.encode()) <= 1024
    assert long.endswith("é ...")


def test_the_same_message_is_reported_once_and_again_after_a_while() -> None:
    cluster = full_cluster()
    cluster.schedule()
    cluster.settle()
    for _ in range(3):
        retry(cluster)
    assert len(cluster.said("a")) == 1
    assert cluster.writes(PatchPodStatus) == []
    cluster.advance(299)
    cluster.advance(2)
    retry(cluster)
    assert len(cluster.said("a")) == 2
    assert cluster.writes(PatchPodStatus) == []


def test_a_condition_that_is_still_under_way_is_not_written_twice() -> None:
    cluster = full_cluster()
    cluster.schedule()
    retry(cluster)
    assert len(cluster.writes(PatchPodStatus, "a")) == 1


def test_a_condition_that_the_watch_has_not_shown_after_a_while_is_written_with_the_next_attempt() -> None:
    cluster = full_cluster()
    cluster.schedule()
    cluster.fail(cluster.write(PatchPodStatus, "a"))
    retry(cluster)
    assert cluster.writes(PatchPodStatus, "a") == []
    cluster.advance(UNSEEN_SECONDS)
    retry(cluster)
    assert cluster.write(PatchPodStatus, "a").condition is not None


def test_no_answer_is_waited_for_to_a_failed_attempts_report_and_one_to_a_victims_is() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="1")
    cluster.pod("low", cpu="1", node="n", priority=1)
    cluster.pod("high", cpu="1", priority=9)
    cluster.schedule()
    report = cluster.write(PatchPodStatus, "high")
    assert report.condition is not None and report.nominated_node_name == "n"
    assert report.ticket == 0
    assert cluster.write(PatchPodStatus, "low").ticket != 0


def test_a_message_that_changes_back_before_the_watch_shows_it_is_written_again() -> None:
    words = ["one"]
    cluster = Cluster(scripted("Fickle", filter=lambda pod, node: unschedulable(words[0])))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    cluster.succeed(cluster.write(PatchPodStatus))
    words[0] = "two"
    retry(cluster)
    words[0] = "one"
    retry(cluster)
    messages = [patch.condition.message for patch in cluster.writes(PatchPodStatus) if patch.condition is not None]
    assert ["two" in message for message in messages] == [True, False]


def test_the_transition_time_stays_while_only_the_message_changes() -> None:
    words = ["one"]
    cluster = Cluster(scripted("Fickle", filter=lambda pod, node: unschedulable(words[0])))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    first = cluster.write(PatchPodStatus)
    cluster.succeed(first)
    cluster.advance(120)
    words[0] = "two"
    retry(cluster)
    second = cluster.writes(PatchPodStatus)[-1]
    assert first.condition is not None and second.condition is not None
    assert first.condition.last_transition_time == second.condition.last_transition_time


def test_a_pod_that_is_gone_gets_neither_event_nor_condition() -> None:
    cluster = Cluster(scripted("Slow", pre_flight=works))
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    cluster.delete("a")
    cluster.fail(cluster.unanswered[-1])
    assert cluster.said("a") == []
    assert [patch for patch in cluster.writes(PatchPodStatus) if patch.condition] == []
    assert cluster.place("a") == ""


def test_a_pod_recreated_under_the_same_name_gets_no_report_of_its_predecessors_failure() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="1")
    cluster.pod("a", cpu="1")
    cluster.schedule()
    bind = cluster.write(BindPod)
    cluster.delete("a")
    cluster.pod("a", cpu="1", uid="pod-a2")
    cluster.fail(bind, 409, "uid differs")
    assert cluster.said("a") == []
    assert cluster.place("a") == "active"
    cluster.settle()
    assert cluster.pods["default/a"].node_name == "n"


def test_what_was_said_of_a_pod_is_forgotten_with_it() -> None:
    cluster = full_cluster()
    cluster.pod("b", cpu="2")
    cluster.pod("c", cpu="2")
    cluster.schedule_all()
    reports = cluster.engine.reports
    assert len(reports._last_note) == 3
    cluster.delete("a")
    cluster.pod("b", cpu="2", uid="pod-b2")
    cluster.pod("c", cpu="2", node="n")
    cluster.settle()
    assert set(reports._last_note) == {"pod-b2"}
    assert set(reports._last_condition) <= {"pod-b2"}
    assert len(cluster.engine.tickets) == 0


# --- nominations ------------------------------------------------------------------------------------------------------


def test_a_nomination_is_cleared_where_no_node_can_be_made_to_fit() -> None:
    cluster = full_cluster()
    cluster.pod("a", cpu="2", nominated="n")
    cluster.schedule()
    assert cluster.write(PatchPodStatus, "a").nominated_node_name == ""
    assert cluster.nominated("a") == ""


def test_a_nomination_is_kept_while_its_victims_terminate() -> None:
    cluster = Cluster()
    cluster.lingering = {"low"}
    cluster.node("n", cpu="1")
    cluster.pod("low", cpu="1", node="n", priority=1)
    cluster.pod("a", cpu="1", priority=9)
    cluster.schedule()
    assert cluster.nominated("a") == "n"
    cluster.settle()
    retry(cluster)
    assert cluster.attempt("a").message.endswith(
        "preemption: not eligible due to a terminating pod on the nominated node."
    )
    assert cluster.nominated("a") == "n"
    assert cluster.pods["default/a"].nominated_node_name == "n"


def test_a_nomination_is_cleared_when_the_binding_cycle_fails() -> None:
    cluster = Cluster()
    cluster.node("n")
    cluster.pod("a", nominated="n")
    cluster.schedule()
    cluster.fail(cluster.write(BindPod))
    assert cluster.write(PatchPodStatus, "a").nominated_node_name == ""
    assert cluster.nominated("a") == ""


def test_a_nomination_is_cleared_without_nodes() -> None:
    cluster = Cluster()
    cluster.pod("a", nominated="n")
    cluster.schedule()
    assert cluster.write(PatchPodStatus, "a").nominated_node_name == ""


def test_a_nomination_is_cleared_where_no_post_filter_plugin_is_registered() -> None:
    cluster = Cluster(profile={"plugins": {"postFilter": {"disabled": [{"name": "*"}]}}})
    cluster.node("n", cpu="1")
    cluster.pod("a", cpu="2", nominated="n")
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.message == "0/1 nodes are available: 1 Insufficient cpu."
    assert cluster.write(PatchPodStatus, "a").nominated_node_name == ""


def test_our_own_nomination_counts_before_it_comes_back_so_that_no_second_node_is_emptied() -> None:
    cluster = Cluster()
    cluster.lingering = {"low0", "low1"}
    for number in range(2):
        cluster.node(f"n{number}", cpu="1")
        cluster.pod(f"low{number}", cpu="1", node=f"n{number}", priority=1)
    cluster.pod("a", cpu="1", priority=9)
    cluster.schedule()
    nominated = cluster.nominated("a")
    own_patch = cluster.write(PatchPodStatus, "a")
    victim = "low0" if nominated == "n0" else "low1"
    cluster.succeed(cluster.write(PatchPodStatus, victim))
    cluster.succeed(cluster.unanswered[-1])
    assert cluster.pods["default/a"].nominated_node_name == ""
    cluster.engine.queue.activate(["default/a"], cluster.now)
    attempt = cluster.schedule()
    assert attempt is not None
    assert "not eligible due to a terminating pod on the nominated node." in attempt.message
    assert cluster.unanswered[0] == own_patch
    assert len(cluster.said(victim, "Preempted")) == 1
    assert cluster.nominated("a") == nominated


# --- pods that are not even tried -------------------------------------------------------------------------------------


def test_a_pod_behind_an_ordinary_gate_hears_nothing_from_us() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="4")
    cluster.pod("a", gates=["example.com/quota"])
    assert cluster.place("a") == "gated"
    assert cluster.sent == []


def test_a_pre_enqueue_plugin_that_raises_is_named_to_its_pods_users_and_the_others_go_on() -> None:
    class Broken(PreEnqueuePlugin):
        name = "Broken"

        def pre_enqueue(self, pod: PodInfo, context: EnqueueContext) -> None:
            if pod.name == "a":
                raise KeyError("team")

    cluster = Cluster(Broken)
    cluster.node("n", cpu="4")
    cluster.pod("a")
    cluster.pod("b")
    assert cluster.said("a") == ["running PreEnqueue plugin \"Broken\": KeyError: 'team'"]
    cluster.settle()
    assert cluster.node_of("b") == "n"
