from __future__ import annotations

from scheduler.queue.queue_settings import QueueSettings
from scheduler.queue.story import Place
from scheduler.testing.objects import node
from tests.queue.fakes import (
    GATES_GONE,
    NODE_ADD,
    NODE_LABEL,
    REGISTRATIONS,
    WALL,
    Bench,
)

# --- order and time ---------------------------------------------------------------------------------------------------


def test_higher_priority_first_then_the_longer_wait() -> None:
    bench = Bench()
    for name, priority in (("a", None), ("b", 5), ("c", 0), ("d", 5)):
        bench.add(name, priority=priority)
        bench.seconds += 0.1
    assert [bench.pop().info.name for _ in range(4)] == ["b", "d", "a", "c"]


def test_moves_do_not_change_a_pods_turn() -> None:
    bench = Bench()
    bench.rejected("first", "Fit")
    bench.seconds = 0.5
    bench.rejected("second", "Labels")
    bench.at(20)
    bench.move(NODE_LABEL, node("n"), node("n"))
    bench.at(21)
    bench.move(NODE_ADD, None, node("n"))
    assert bench.names() == {"active": ["first", "second"]}


def test_backoff_doubles_with_each_rejection_up_to_the_maximum() -> None:
    bench = Bench()
    bench.add("a")
    waits = []
    for _ in range(6):
        record = bench.pop()
        bench.fail(record)
        begun = bench.seconds
        expiration = record.backoff_expiration
        assert expiration is not None
        waits.append(expiration / 1e9 - begun)
        bench.at(begun + 20)
    assert waits == [1, 2, 4, 8, 10, 10]


def test_a_streak_of_errors_does_not_lengthen_the_backoff_after_a_rejection() -> None:
    bench = Bench()
    bench.add("a")
    for seconds in (0, 20, 40, 60):
        bench.at(seconds)
        bench.fail(bench.pop())
    bench.at(80)
    record = bench.pop()
    bench.fail(record, "Fit")
    bench.move(NODE_ADD, None, node("n"))
    assert (record.error_count, record.unschedulable_count) == (0, 1)
    assert record.backoff_expiration == 81_000_000_000


def test_a_pod_leaves_at_the_first_whole_second_after_its_backoff() -> None:
    bench = Bench()
    bench.at(0.3)
    bench.add("a")
    bench.fail(bench.pop())
    places = []
    for seconds in (1.99, 2.0):
        bench.at(seconds)
        places.append(bench.names())
    assert places == [{"errors": ["a"]}, {"active": ["a"]}]


def test_an_idle_scheduler_takes_rejected_pods_early_but_never_those_with_errors() -> None:
    bench = Bench()
    bench.rejected("rejected", "Fit")
    bench.add("failed", priority=9)
    bench.fail(bench.pop())
    assert bench.queue.pop(bench.now) is None
    bench.move(NODE_ADD, None, node("n"))
    assert bench.pop().info.name == "rejected"
    assert bench.queue.pop(bench.now) is None
    assert bench.names() == {"errors": ["failed"]}
    assert bench.facts.incoming["active", "PopFromBackoffQ"] == 1


def test_without_the_gate_backoff_is_exact_and_nothing_is_taken_early() -> None:
    bench = Bench(settings=QueueSettings(pops_from_backoff=False))
    bench.at(0.3)
    bench.rejected("a", "Fit")
    bench.move(NODE_ADD, None, node("n"))
    assert bench.names() == {"backoff": ["a"]}
    assert bench.queue.pop(bench.now) is None
    bench.at(2.0)
    assert bench.names() == {"active": ["a"]}


def test_no_backoff_at_all_when_the_maximum_is_nothing() -> None:
    bench = Bench(settings=QueueSettings(maximum_backoff=0))
    bench.add("a")
    bench.fail(bench.pop())
    assert bench.names() == {"active": ["a"]}


def test_pods_too_long_in_the_pool_are_tried_again() -> None:
    bench = Bench()
    bench.at(1)
    bench.rejected("a", "Deaf")
    bench.at(329.9)
    assert bench.names() == {"pool": ["a"]}
    bench.at(330)
    assert bench.names() == {"active": ["a"]}
    record = bench.pop()
    assert record.was_flushed
    bench.fail(record, "Deaf")
    assert not record.was_flushed


def test_the_queue_asks_for_no_tick_while_nothing_waits() -> None:
    bench = Bench()
    bench.add("a")
    assert bench.queue.next_deadline() is None
    bench.at(5.5)
    record = bench.pop()
    bench.fail(record)
    assert bench.queue.next_deadline() == bench.now.monotonic + 1.5
    assert bench.queue.tick(bench.now) == 0


def test_a_wall_clock_that_is_set_moves_no_pod() -> None:
    bench = Bench()
    bench.add("a")
    bench.fail(bench.pop())
    later = bench.now
    assert bench.queue.tick(type(later)(later.monotonic + 0.5, later.wall + 3_600_000_000_000)) == 0


# --- gates ------------------------------------------------------------------------------------------------------------


def test_a_gated_pod_waits_apart_and_counts_as_gated() -> None:
    bench = Bench()
    bench.gated.add("a")
    bench.add("a", gates=["g"])
    assert bench.queue.pending_counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
    record = bench.queue.find("default/a")
    assert record is not None and record.initial_attempt is None and record.attempts == 0


def test_a_storm_of_new_nodes_does_not_ask_the_gates() -> None:
    bench = Bench()
    bench.gated.add("a")
    bench.add("a", gates=["g"])
    runs = bench.gate_runs
    for _ in range(20):
        bench.move(NODE_ADD, None, node("n"))
    assert bench.gate_runs == runs


def test_removing_the_last_gate_queues_the_pod_at_once() -> None:
    bench = Bench()
    bench.gated.add("a")
    old = bench.add("a", gates=["g"])
    bench.gated.clear()
    bench.update(old)
    assert bench.names() == {"active": ["a"]}
    bench.queue.check()


def test_a_gate_that_opened_unnoticed_is_found_by_the_flush() -> None:
    bench = Bench()
    bench.gated.update(("open", "shut"))
    bench.add("open")
    bench.add("shut")
    bench.gated.remove("open")
    bench.at(330)
    assert bench.names() == {"active": ["open"], "gated": ["shut"]}


def test_gauges_come_back_to_nothing_after_gating_twice() -> None:
    bench = Bench()
    bench.gated.add("a")
    old = bench.add("a", gates=["g"])
    bench.gated.clear()
    bench.update(old)
    record = bench.pop()
    bench.gated.add("a")
    bench.fail(record)
    assert bench.facts.unschedulable_pods == {("Gate", "tandem-scheduler"): 1}
    assert bench.queue.pending_counts()["gated"] == 1
    bench.queue.check()
    bench.delete(record.info)
    assert bench.facts.unschedulable_pods == {}
    assert sum(bench.queue.pending_counts().values()) == 0
    bench.queue.check()


def test_activation_does_not_open_a_gate() -> None:
    bench = Bench()
    bench.gated.add("a")
    info = bench.add("a", gates=["g"])
    assert bench.queue.activate([info], bench.now) == 0
    assert bench.names() == {"gated": ["a"]}


# --- updates, deletions, activation -----------------------------------------------------------------------------------


def test_an_update_no_rejector_cares_about_changes_the_pod_but_does_not_move_it() -> None:
    bench = Bench()
    old = bench.rejected("a", "Fit")
    new = bench.update(old, labels={"new": "label"})
    assert bench.names() == {"pool": ["a"]}
    record = bench.queue.find(new.key)
    assert record is not None and record.info is new


def test_an_update_during_the_attempt_is_kept_as_an_event() -> None:
    bench = Bench({"Gate": REGISTRATIONS["Gate"]})
    old = bench.add("a", gates=["g"])
    record = bench.pop()
    bench.update(old)
    bench.fail(record, "Gate")
    assert bench.names() == {"backoff": ["a"]}


def test_an_update_of_the_priority_changes_the_turn() -> None:
    bench = Bench()
    bench.add("a", priority=5)
    old = bench.add("b", priority=1)
    bench.update(old, priority=9)
    assert bench.names() == {"active": ["b", "a"]}
    bench.queue.check()


def test_an_updated_pod_is_popped_once() -> None:
    bench = Bench()
    old = bench.add("a", priority=5)
    bench.update(old, priority=1)
    bench.add("b", priority=3)
    assert [bench.pop().info.name, bench.pop().info.priority] == ["b", 1]
    assert bench.queue.pop(bench.now) is None
    assert bench.facts.take_problems() == ()


def test_a_pod_updated_during_its_backoff_is_popped_in_its_new_version() -> None:
    bench = Bench()
    old = bench.rejected("a", "Fit")
    bench.move(NODE_ADD, None, node("n"))
    new = bench.update(old, labels={"x": "y"})
    assert bench.names() == {"backoff": ["a"]}
    assert bench.pop().info is new
    assert bench.queue.pop(bench.now) is None


def test_a_pod_seen_first_by_an_update_is_queued() -> None:
    bench = Bench()
    other = Bench().add("a")
    bench.update(other)
    assert bench.names() == {"active": ["a"]}
    assert bench.facts.incoming == {("active", "UnschedulablePodUpdate"): 1}


def test_a_deleted_pod_is_nowhere() -> None:
    bench = Bench()
    infos = [bench.rejected("pool", "Fit"), bench.add("active")]
    bench.add("failed", priority=9)
    record = bench.pop()
    bench.fail(record)
    for info in (*infos, record.info):
        bench.delete(info)
    assert bench.names() == {}
    bench.queue.check()


def test_deleting_the_predecessor_leaves_a_new_pod_of_the_same_name_alone() -> None:
    bench = Bench()
    old = bench.add("a", uid="old")
    record = bench.pop()
    bench.add("a", uid="new")
    bench.delete(old)
    assert bench.names() == {"active": ["a"]}
    bench.queue.done(record.uid)
    assert bench.pop().uid == "new"
    bench.queue.check()


def test_activation_skips_the_backoff() -> None:
    bench = Bench()
    waiting = bench.rejected("pool", "Deaf")
    bench.add("failed")
    bench.fail(bench.pop())
    assert bench.queue.activate([waiting, "default/failed", "default/unknown"], bench.now) == 2
    assert bench.names() == {"active": ["pool", "failed"]}


def test_activating_a_pod_in_flight_concerns_no_other_pod_in_flight() -> None:
    bench = Bench()
    bench.add("x", priority=2)
    bench.add("y", priority=1)
    first, second = bench.pop(), bench.pop()
    bench.queue.activate([first.info], bench.now)
    bench.fail(second, "Deaf")
    bench.fail(first, "Deaf")
    assert bench.names() == {"pool": ["y"], "backoff": ["x"]}


def test_a_pod_that_is_already_queued_when_its_attempt_fails_stays_where_it_is() -> None:
    bench = Bench()
    bench.add("a")
    record = bench.pop()
    bench.add("a", uid="another")
    bench.fail(record, "Fit")
    assert bench.names() == {"active": ["a"]}
    assert bench.facts.take_problems() == ("Pod default/a is already present in the active queue",)
    assert len(bench.queue.in_flight) == 0
    bench.queue.check()


def test_the_same_pod_is_never_in_flight_twice() -> None:
    bench = Bench()
    bench.add("a")
    bench.pop()
    bench.add("a")
    assert bench.queue.pop(bench.now) is None
    assert "tracked in multiple places" in bench.facts.take_problems()[0]
    assert bench.queue.cycle == 1


def test_a_closed_queue_gives_nothing_and_lets_go_of_what_is_in_flight() -> None:
    bench = Bench()
    bench.add("a")
    bench.add("b")
    record = bench.pop()
    bench.queue.close()
    assert bench.queue.pop(bench.now) is None
    bench.queue.done(record.uid)
    assert bench.queue.in_flight.lengths() == {}


# --- what people see --------------------------------------------------------------------------------------------------


def test_the_story_tells_where_a_pod_is_why_and_what_would_wake_it() -> None:
    bench = Bench()
    bench.gated.add("gated")
    bench.at(2.5)
    bench.rejected("a", "Fit", "Labels")
    bench.add("gated")
    bench.add("failed")
    bench.fail(bench.pop())
    bench.add("trying")
    bench.pop()
    stories = {story.pod: story for story in bench.queue.describe()}
    story = stories["default/a"]
    assert (story.place, story.rejected_by, story.attempts) == (Place.UNSCHEDULABLE, ("Fit", "Labels"), 1)
    assert story.woken_by == ("NodeAdd", "PodDelete", "NodeUpdateNodeLabel")
    assert story.since == WALL + 2_500_000_000
    assert story.next_try == WALL + 330_000_000_000
    assert stories["default/gated"].place is Place.GATED
    assert stories["default/gated"].gating_reasons == ("held",)
    assert stories["default/gated"].woken_by == (GATES_GONE.label,)
    assert stories["default/failed"].place is Place.ERROR_BACKOFF
    assert stories["default/failed"].next_try == WALL + 4_000_000_000
    assert stories["default/trying"].place is Place.IN_FLIGHT


def test_arrivals_are_counted_by_queue_and_cause() -> None:
    bench = Bench()
    bench.rejected("a", "Fit")
    bench.at(20)
    bench.move(NODE_ADD, None, node("n"))
    assert bench.facts.incoming == {
        ("active", "UnschedulablePodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        ("active", "NodeAdd"): 1,
    }


def test_a_pod_that_an_event_moves_and_a_gate_holds_again_is_counted_once_more() -> None:
    bench = Bench()
    bench.rejected("a", "Fit")
    bench.at(20)
    bench.gated.add("a")
    bench.move(NODE_ADD, None, node("n"))
    assert bench.names() == {"gated": ["a"]}
    assert bench.facts.incoming["unschedulable", "NodeAdd"] == 1
