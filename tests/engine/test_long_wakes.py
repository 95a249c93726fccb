"""An event that helps many waiting pods is applied in slices, with the outcome of one step."""

from __future__ import annotations

import pytest

from scheduler.compose import build_engine
from scheduler.config.loading import load
from scheduler.engine.commands import RecordAttempt
from scheduler.engine.engine import Engine
from scheduler.framework.plugin import Wait
from scheduler.messages.commands import BindPod
from scheduler.messages.now import Now
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, Stimulus, Synced, Tick, WakingContinued
from scheduler.objects.kinds import Kind
from scheduler.objects.pod import Pod
from scheduler.testing.objects import node, pod
from tests.engine.driver import Cluster
from tests.engine.scripted import scripted

PODS = 120
START = Now(1_000.0, 1_900_000_000_000_000_000)


def later(seconds: float) -> Now:
    return Now(START.monotonic + seconds, START.wall + round(seconds * 1e9))


def engine_with_waiting_pods() -> Engine:
    """None like another; the only node is full."""
    engine = build_engine(load(), started=START, seed=1, stopwatch=lambda: 0.0)
    engine.handle(ObjectObserved(Kind.NODE, node("full", cpu="4")), START)
    engine.handle(ObjectObserved(Kind.POD, running()), START)
    for number in range(PODS):
        waiting = pod(f"p{number:03}", cpu=f"{100 + number}m", priority=number % 3, scheduler="tandem-scheduler")
        engine.handle(ObjectObserved(Kind.POD, waiting), START)
    engine.handle(Synced(), START)
    while engine.schedule_one(START) is not None:
        pass
    assert engine.queue.pending_counts()["unschedulable"] == PODS
    return engine


def running() -> Pod:
    return pod("running", cpu="4", node="full")


def in_one_step(engine: Engine, stimulus: Stimulus, now: Now) -> None:
    engine.handle(stimulus, now)
    engine.queue.finish_waking()


def in_slices(engine: Engine, stimulus: Stimulus, now: Now) -> int:
    engine.handle(stimulus, now)
    slices = 0
    while engine.is_waking:
        # A later time, which must not count.
        engine.handle(WakingContinued(), later(500.0))
        slices += 1
    return slices


def tried(engine: Engine, now: Now) -> list[str]:
    """The pods in the order in which they are tried."""
    names = []
    while (commands := engine.schedule_one(now)) is not None:
        for command in commands:
            match command:
                case BindPod():
                    names.append(command.pod.key)
                case RecordAttempt():
                    names.append(command.attempt.pod)
        if len(names) > PODS:
            break
    return names


EVENTS: dict[str, tuple[Stimulus, float]] = {
    "a node appears": (ObjectObserved(Kind.NODE, node("new", cpu="1")), 20.0),
    "a pod leaves": (ObjectDeleted(Kind.POD, running()), 20.0),
    "the pool is flushed": (Tick(), 400.0),
}


@pytest.mark.parametrize("event", EVENTS)
def test_slices_change_neither_the_order_of_attempts_nor_what_they_find(event: str) -> None:
    stimulus, seconds = EVENTS[event]
    whole, sliced = engine_with_waiting_pods(), engine_with_waiting_pods()
    in_one_step(whole, stimulus, later(seconds))
    assert in_slices(sliced, stimulus, later(seconds)) >= 2
    assert whole.queue.pending_counts() == sliced.queue.pending_counts()
    assert [one.key for one in whole.queue.active_pods()] == [one.key for one in sliced.queue.active_pods()]
    assert [one.timestamp for one in whole.queue.active_pods()] == [one.timestamp for one in sliced.queue.active_pods()]
    sliced.check()
    assert tried(whole, later(seconds)) == tried(sliced, later(seconds))


def test_an_event_that_helps_none_of_many_pods_alike_is_applied_in_one_step() -> None:
    """Their hints are asked once for all, and the event would otherwise cost another turn of the loop."""
    engine = build_engine(load(), started=START, seed=1, stopwatch=lambda: 0.0)
    engine.handle(ObjectObserved(Kind.NODE, node("full", cpu="4")), START)
    for number in range(PODS):
        alike = pod(f"p{number:03}", cpu="5", scheduler="tandem-scheduler")
        engine.handle(ObjectObserved(Kind.POD, alike), START)
    engine.handle(Synced(), START)
    while engine.schedule_one(START) is not None:
        pass
    engine.handle(ObjectObserved(Kind.NODE, node("small", cpu="1")), later(20.0))
    assert not engine.is_waking
    assert engine.queue.pending_counts()["unschedulable"] == PODS


def test_pods_that_back_off_leave_in_slices_in_the_same_order() -> None:
    whole, sliced = engine_with_waiting_pods(), engine_with_waiting_pods()
    for engine in (whole, sliced):
        in_one_step(engine, ObjectDeleted(Kind.POD, running()), START)
        assert engine.queue.pending_counts()["backoff"] == PODS
    in_one_step(whole, Tick(), later(5.0))
    assert in_slices(sliced, Tick(), later(5.0)) >= 2
    assert len(whole.queue.active_pods()) == PODS
    assert [one.key for one in whole.queue.active_pods()] == [one.key for one in sliced.queue.active_pods()]


@pytest.mark.parametrize("slices", [0, 1, 2])
def test_a_decision_in_the_middle_of_a_wake_waits_for_its_end(slices: int) -> None:
    stimulus, seconds = EVENTS["a pod leaves"]
    whole, sliced = engine_with_waiting_pods(), engine_with_waiting_pods()
    in_one_step(whole, stimulus, later(seconds))
    sliced.handle(stimulus, later(seconds))
    for _ in range(slices):
        sliced.handle(WakingContinued(), later(seconds))
    assert sliced.is_waking
    assert tried(whole, later(seconds)) == tried(sliced, later(seconds))


def test_another_stimulus_in_the_middle_of_a_wake_is_applied_after_its_end() -> None:
    whole, sliced = engine_with_waiting_pods(), engine_with_waiting_pods()
    urgent = pod("urgent", cpu="1", priority=9, scheduler="tandem-scheduler")
    gone = pod("p007", cpu="107m", priority=1, scheduler="tandem-scheduler")
    for engine in (whole, sliced):
        engine.handle(ObjectDeleted(Kind.POD, running()), later(20.0))
        if engine is whole:
            engine.queue.finish_waking()
        engine.handle(ObjectObserved(Kind.POD, urgent), later(20.0))
        engine.handle(ObjectDeleted(Kind.POD, gone), later(20.0))
    order = tried(sliced, later(20.0))
    assert order == tried(whole, later(20.0))
    assert order[0] == "default/urgent"
    assert "default/p007" not in order


def test_what_follows_from_a_stimulus_is_not_lost_where_another_long_wake_begins_before_its_end() -> None:
    cluster = Cluster(scripted("Holds", permit=lambda pod, _: Wait(600) if pod == "held" else None))
    cluster.node("full", cpu="4")
    cluster.pod("running", cpu="4", node="full", priority=9)
    cluster.pod("held", memory="1Gi", priority=9)
    cluster.schedule()
    for number in range(PODS):
        cluster.pod(f"p{number:03}", cpu=f"{100 + number}m", priority=number % 3)
    cluster.schedule_all()
    cluster.advance(20)
    cluster.delete("held")
    assert cluster.engine.queue.is_waking
    cluster.node("new", cpu="4")
    while cluster.engine.is_waking:
        cluster.feed(WakingContinued())
    assert [one.pod for one in cluster.attempts("held")] == ["default/held"]
    assert cluster.is_quiet() and len(cluster.engine.queue.active_pods()) == PODS


def test_nothing_to_go_on_with_is_no_error() -> None:
    engine = engine_with_waiting_pods()
    assert engine.handle(WakingContinued(), START) == []
