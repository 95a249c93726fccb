"""A bind whose outcome is unknown: the pod stays assumed, and the same bind is sent until the answer is conclusive."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from scheduler.engine.binding import LATE_BIND_SECONDS
from scheduler.engine.binding_cycle import BIND_AGAIN_FIRST_SECONDS, MAX_BIND_AGAIN_SECONDS
from scheduler.engine.commands import Command
from scheduler.engine.deadlines import BindAgain
from scheduler.engine.due import commands_of_due
from scheduler.engine.internal import CancelBinding, Step
from scheduler.messages.commands import BindPod, ReportProblem
from scheduler.messages.stimuli import ShutdownRequested, WriteFinished
from tests.engine.driver import Cluster


def unheard() -> tuple[Cluster, BindPod]:
    """A pod whose bind has had no answer."""
    cluster = Cluster()
    cluster.node("n", cpu="1")
    cluster.pod("a", cpu="1")
    cluster.schedule()
    bind = cluster.write(BindPod)
    unknown(cluster, bind)
    return cluster, bind


def unknown(cluster: Cluster, bind: BindPod) -> None:
    cluster.unanswered.remove(bind)
    cluster.feed(WriteFinished(bind.ticket, False, 0, "", "no answer", is_unknown=True))


def test_the_pod_stays_assumed_and_its_room_is_not_given_away() -> None:
    cluster, _ = unheard()
    cluster.pod("b", cpu="1")
    cluster.schedule()
    assert cluster.node_of("a") == "n"
    assert cluster.node_of("b") == ""
    assert cluster.said("a") == []
    assert cluster.engine.bindings.under_way[0].state.value == "BindUnknown"


def test_the_same_bind_is_sent_again_after_a_back_off_that_doubles_up_to_a_limit() -> None:
    cluster, first = unheard()
    waits = []
    for _ in range(7):
        since = cluster.time
        while not cluster.writes(BindPod):
            cluster.advance(0.5)
        waits.append(cluster.time - since)
        again = cluster.write(BindPod)
        assert (again.pod, again.node) == (first.pod, first.node)
        assert again.ticket != first.ticket
        unknown(cluster, again)
    assert waits == [BIND_AGAIN_FIRST_SECONDS, 2, 4, 8, 16, MAX_BIND_AGAIN_SECONDS, MAX_BIND_AGAIN_SECONDS]
    assert cluster.node_of("a") == "n"


def test_a_bug_in_sending_it_again_is_reported_and_puts_it_off_for_twice_as_long() -> None:
    cluster, first = unheard()

    def breaks() -> Sequence[Step]:
        raise RuntimeError("a bug")

    again = BindAgain(first.pod.uid)
    cluster.engine.deadlines.drop(again)
    (problem,) = commands_of_due([(again, breaks)], partial(put_off, cluster))
    assert isinstance(problem, ReportProblem) and "a bug" in problem.message
    cluster.advance(1.5)
    assert not cluster.writes(BindPod)
    cluster.advance(1)
    assert cluster.write(BindPod).node == first.node


def put_off(cluster: Cluster, steps: Sequence[Step]) -> list[Command]:
    """What the engine does with the step that follows a bug."""
    (cancel,) = steps
    assert isinstance(cancel, CancelBinding)
    assert cluster.engine.bindings.cancel(cancel, cluster.now) == []
    return []


def test_a_bind_is_not_sent_again_to_a_node_that_is_gone_and_its_pod_is_tried_again() -> None:
    cluster, _ = unheard()
    cluster.remove_node("n")
    cluster.node("m", cpu="1")
    cluster.advance(2)
    assert not cluster.writes(BindPod)
    cluster.advance(20)
    cluster.settle()
    assert cluster.node_of("a") == "m"


def test_a_bind_that_is_sent_again_and_succeeds_is_a_success() -> None:
    cluster, _ = unheard()
    cluster.advance(1)
    cluster.succeed(cluster.write(BindPod))
    assert cluster.said("a", "Scheduled") == ["Successfully assigned default/a to n"]
    assert cluster.is_quiet()


def test_a_refusal_of_the_bind_that_is_sent_again_is_conclusive() -> None:
    cluster, _ = unheard()
    cluster.advance(1)
    cluster.fail(cluster.write(BindPod), 409, "pod a is already assigned to node m")
    assert cluster.node_of("a") == ""
    assert cluster.place("a") == "error backoff"


def refuse(cluster: Cluster) -> None:
    """An admission webhook refuses the bind that is sent again, and the writer has seen that the pod has no node."""
    again = cluster.write(BindPod)
    assert again.is_again
    cluster.unanswered.remove(again)
    refused = WriteFinished(again.ticket, False, 403, "Forbidden", "denied", is_conclusive=False, is_unbound=True)
    cluster.feed(refused)


def test_a_refusal_ends_the_attempt_once_the_api_server_has_given_up_the_bind_before_it() -> None:
    cluster, _ = unheard()
    began = cluster.time
    while cluster.node_of("a"):
        cluster.advance(1)
        if cluster.writes(BindPod):
            refuse(cluster)
    assert LATE_BIND_SECONDS <= cluster.time - began <= LATE_BIND_SECONDS + MAX_BIND_AGAIN_SECONDS + 1
    assert cluster.said("a") == ['running Bind plugin "DefaultBinder": denied']
    cluster.pod("b", cpu="1", priority=1)
    cluster.schedule()
    assert cluster.node_of("b") == "n"


def test_after_another_bind_without_an_answer_a_refusal_says_nothing_for_as_long_again() -> None:
    cluster, _ = unheard()
    cluster.advance(LATE_BIND_SECONDS)
    unknown(cluster, cluster.write(BindPod))
    cluster.advance(MAX_BIND_AGAIN_SECONDS)
    refuse(cluster)
    assert cluster.node_of("a") == "n"
    assert cluster.engine.bindings.under_way[0].state.value == "BindUnknown"


def test_refusals_end_the_attempt_as_well_where_the_pod_can_not_be_read() -> None:
    cluster, _ = unheard()
    began = cluster.time
    while cluster.node_of("a") and cluster.time < began + 10 * LATE_BIND_SECONDS:
        cluster.advance(1)
        if cluster.writes(BindPod):
            refuse_unread(cluster)
    assert LATE_BIND_SECONDS <= cluster.time - began <= LATE_BIND_SECONDS + MAX_BIND_AGAIN_SECONDS + 1
    assert cluster.said("a") == ['running Bind plugin "DefaultBinder": denied']
    assert cluster.place("a") == "error backoff"
    cluster.pod("b", cpu="1", priority=1)
    cluster.schedule()
    assert cluster.node_of("b") == "n"


def refuse_unread(cluster: Cluster) -> None:
    """The bind is refused, and so is the right to read the pod."""
    bind = cluster.write(BindPod)
    cluster.unanswered.remove(bind)
    forbidden = WriteFinished(bind.ticket, False, 403, "Forbidden", "denied", is_unknown=True, is_conclusive=False)
    cluster.feed(msgspec.structs.replace(forbidden, is_unread=True))


def test_a_first_bind_whose_refusal_may_be_by_an_earlier_one_is_repeated_for_as_long() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="1")
    cluster.pod("a", cpu="1")
    cluster.schedule()
    began = cluster.time
    refuse_unread(cluster)
    assert cluster.said("a") == []
    while cluster.node_of("a") and cluster.time < began + 10 * LATE_BIND_SECONDS:
        cluster.advance(1)
        if cluster.writes(BindPod):
            refuse_unread(cluster)
    assert LATE_BIND_SECONDS <= cluster.time - began <= LATE_BIND_SECONDS + MAX_BIND_AGAIN_SECONDS + 1


def test_when_the_watch_shows_the_pod_on_its_node_it_is_bound() -> None:
    cluster, bind = unheard()
    cluster.take_effect(bind)
    cluster.watch("a")
    assert cluster.said("a", "Scheduled") == ["Successfully assigned default/a to n"]
    cluster.advance(60)
    assert cluster.writes(BindPod) == []
    assert cluster.is_quiet()


def test_when_the_watch_shows_the_pod_elsewhere_or_gone_its_room_is_free() -> None:
    for is_deleted in (False, True):
        cluster, _ = unheard()
        if is_deleted:
            cluster.delete("a")
        else:
            cluster.node("m", cpu="1")
            cluster.pod("a", cpu="1", node="m")
        assert cluster.said("a") == []
        cluster.pod("b", cpu="1")
        cluster.settle()
        assert cluster.node_of("b") == "n"
        cluster.advance(60)
        assert cluster.writes(BindPod) == []
        assert cluster.is_quiet()


def test_a_stop_leaves_such_a_bind_to_the_api_server() -> None:
    cluster, _ = unheard()
    cluster.feed(ShutdownRequested())
    assert cluster.node_of("a") == "n"
    assert [binding.pod.name for binding in cluster.engine.bindings.under_way] == ["a"]


def test_a_refusal_of_the_second_bind_proves_nothing_while_the_first_may_still_be_carried_out() -> None:
    cluster, _ = unheard()
    cluster.advance(1)
    again = cluster.write(BindPod)
    cluster.unanswered.remove(again)
    cluster.feed(WriteFinished(again.ticket, False, 409, "Conflict", "modified", is_conclusive=False))
    assert cluster.node_of("a") == "n"
    assert cluster.said("a") == []
    cluster.advance(2)
    cluster.succeed(cluster.write(BindPod))
    assert cluster.said("a", "Scheduled") == ["Successfully assigned default/a to n"]


def test_a_first_bind_that_is_refused_has_failed() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="1")
    cluster.pod("a", cpu="1")
    cluster.schedule()
    bind = cluster.write(BindPod)
    cluster.unanswered.remove(bind)
    cluster.feed(WriteFinished(bind.ticket, False, 409, "Conflict", "modified", is_conclusive=False))
    assert cluster.node_of("a") == ""
