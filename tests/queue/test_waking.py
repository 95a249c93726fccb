"""Which waiting pods an event wakes, and when, whether it comes while they wait or while they are tried."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

import pytest

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import EventRegistration, Hint, HintKeys, only_itself
from scheduler.queue.interrupted import Waking
from scheduler.queue.waking import OnlyIf
from scheduler.testing.objects import node
from tests.queue.fakes import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_LABEL,
    POD_DELETE,
    Bench,
    on,
)


def test_an_event_during_the_attempt_is_not_lost() -> None:
    bench = Bench()
    bench.add("a")
    record = bench.pop()
    bench.move(NODE_ADD, None, node("n"))
    bench.fail(record, "Fit")
    assert bench.names() == {"backoff": ["a"]}


def test_an_event_before_the_attempt_does_not_count() -> None:
    bench = Bench()
    bench.add("a")
    bench.move(NODE_ADD, None, node("n"))
    bench.fail(bench.pop(), "Fit")
    assert bench.names() == {"pool": ["a"]}


def test_an_event_between_two_pops_counts_for_the_first_pod_only() -> None:
    bench = Bench()
    bench.add("a", priority=2)
    bench.add("b", priority=1)
    first = bench.pop()
    bench.move(NODE_ADD, None, node("n"))
    second = bench.pop()
    bench.fail(second, "Fit")
    bench.fail(first, "Fit")
    assert bench.names() == {"backoff": ["a"], "pool": ["b"]}


def test_a_later_word_of_a_pending_plugin_still_skips_the_backoff() -> None:
    bench = Bench()
    bench.add("a")
    record = bench.pop()
    bench.move(NODE_ADD, None, node("n"))
    bench.move(NODE_LABEL, node("n"), node("n"))
    bench.fail(record, "Fit", pending=["Labels"])
    assert bench.names() == {"active": ["a"]}


def test_an_event_that_no_plugin_registered_is_not_even_kept() -> None:
    bench = Bench({"Deaf": ()})
    bench.add("a")
    bench.pop()
    bench.move(NODE_ADD, None, node("n"))
    assert len(bench.queue.in_flight.entries) == 1


def test_the_word_of_a_pending_plugin_skips_the_backoff() -> None:
    bench = Bench()
    bench.add("a")
    record = bench.pop()
    bench.move(NODE_ADD, None, node("n"))
    bench.fail(record, pending=["Fit"])
    assert bench.names() == {"active": ["a"]}


def test_another_plugins_word_does_not_skip_the_backoff_of_a_pending_pod() -> None:
    bench = Bench()
    bench.add("a")
    record = bench.pop()
    bench.move(NODE_ADD, None, node("n"))
    bench.fail(record, "Fit", pending=["Labels"])
    assert bench.names() == {"backoff": ["a"]}


def test_any_one_of_several_rejectors_wakes_a_pod() -> None:
    bench = Bench()
    bench.rejected("a", "Deaf", "Fit", "Labels")
    bench.at(20)
    assert bench.move(NODE_LABEL, node("n"), node("n")) == 1
    assert bench.names() == {"active": ["a"]}


def test_pods_that_back_off_already_are_not_hurried_by_events() -> None:
    bench = Bench()
    bench.rejected("a", "Fit")
    assert bench.move(NODE_ADD, None, node("n")) == 1
    assert bench.move(NODE_ADD, None, node("n")) == 0
    assert bench.names() == {"backoff": ["a"]}


def test_an_event_can_be_restricted_to_some_pods() -> None:
    bench = Bench()
    bench.rejected("low", "Fit", priority=1)
    bench.rejected("high", "Fit", priority=9)
    bench.at(20)
    bench.move(ASSIGNED_POD_DELETE, None, None, only=OnlyIf(lambda record: record.info.priority <= 5))
    assert bench.names() == {"active": ["low"], "pool": ["high"]}


def test_copies_of_a_pod_share_one_answer() -> None:
    asked: list[str] = []

    def hint(pod: object, _old: object, _new: object) -> Hint:
        asked.append(str(pod))
        return Hint.QUEUE

    bench = Bench({"Fit": (on(NODE_ADD, hint),)})
    for number in range(5):
        bench.rejected(f"web-{number}", "Fit", labels={"app": "web"})
    bench.rejected("other", "Fit", labels={"app": "other"})
    bench.at(20)
    assert bench.move(NODE_ADD, None, node("n")) == 6
    assert len(asked) == 2
    bench.queue.check()


def test_events_that_look_alike_are_answered_once_for_as_long_as_the_same_pods_wait() -> None:
    asked: list[str] = []

    def hint(pod: PodInfo, _old: object, new: Any) -> Hint:
        asked.append(pod.name)
        return Hint.QUEUE if new.labels["for"] == pod.labels["app"] else Hint.SKIP

    bench = Bench({"Fit": (on(NODE_ADD, hint, lambda node_: node_.labels["for"]),)})
    for app in ("web", "db"):
        bench.rejected(app, "Fit", labels={"app": app})
    bench.at(20)
    for name in ("n1", "n2", "n3"):
        assert bench.move(NODE_ADD, None, node(name, labels={"for": "other"})) == 0
    assert asked == ["web", "db"]
    bench.rejected("late", "Fit", labels={"app": "late"})
    bench.at(40)
    assert bench.move(NODE_ADD, None, node("n4", labels={"for": "other"})) == 0
    assert asked == ["web", "db", "late"], "those that have come since are asked"
    assert bench.move(NODE_ADD, None, node("n5", labels={"for": "db"})) == 1
    assert bench.names()["active"] == ["db"]
    bench.queue.check()


def test_an_answer_is_forgotten_with_the_pods_it_was_about() -> None:
    bench = Bench({"Fit": (on(NODE_ADD, facet=only_itself),)})
    for round_ in range(50):
        bench.at(20.0 * round_)
        bench.rejected(f"p{round_}", "Fit", labels={"round": str(round_)})
        bench.at(20.0 * round_ + 10)
        assert bench.move(NODE_ADD, None, node("n")) == 1
        bench.queue.done(bench.pop().uid)
        bench.queue.check()


def _waits_for_app(asked: list[str]) -> Any:
    def hint(pod: PodInfo, _old: object, new: Any) -> Hint:
        asked.append(pod.name)
        return Hint.QUEUE if new.labels["for"] == pod.labels["app"] else Hint.SKIP

    return hint


def _app_keys(pod: PodInfo) -> Any:
    return ((frozenset([pod.labels["app"]]),),)


def test_an_event_like_no_other_asks_only_the_pods_that_its_keys_lead_to() -> None:
    asked: list[str] = []
    keys = HintKeys(_app_keys, lambda node_: [node_.labels["for"]])
    bench = Bench({"Fit": (EventRegistration(NODE_ADD, _waits_for_app(asked), lambda it: it.labels["for"], keys),)})
    for number in range(100):
        bench.rejected(f"p{number}", "Fit", labels={"app": str(number)})
    bench.at(20)
    for number in (7, 3, 500):
        bench.move(NODE_ADD, None, node(f"n{number}", labels={"for": str(number)}))
    assert set(asked) == {"p7", "p3"}
    assert {bench.pop().info.name, bench.pop().info.name} == {"p3", "p7"}
    bench.rejected("late", "Fit", labels={"app": "500"})
    bench.at(40)
    assert bench.move(NODE_ADD, None, node("again", labels={"for": "500"})) == 1, (
        "groups that came later are filed, too"
    )


@pytest.mark.parametrize(
    "keys",
    [
        HintKeys(lambda pod: cast(Any, pod).nonsense, lambda node_: []),
        HintKeys(lambda pod: None, lambda node_: []),
        HintKeys(lambda pod: ((),), lambda node_: []),
        HintKeys(_app_keys, lambda node_: node_.nonsense),
        HintKeys(_app_keys, lambda node_: None),
        HintKeys(_app_keys, lambda node_: cast(Any, [{}])),
    ],
)
def test_keys_that_fail_or_cannot_say_leave_it_to_the_hint(keys: HintKeys) -> None:
    hint = _waits_for_app([])
    bench = Bench({"Fit": (EventRegistration(NODE_ADD, hint, lambda it: it.labels["for"], keys),)})
    bench.rejected("p", "Fit", labels={"app": "web"})
    bench.at(20)
    assert bench.move(NODE_ADD, None, node("n", labels={"for": "web"})) == 1


def test_a_facet_that_fails_leaves_it_to_the_hint() -> None:
    for facet in (lambda node_: node_.nonsense, lambda node_: node_.labels):
        bench = Bench({"Fit": (on(NODE_ADD, facet=facet),)})
        bench.rejected("p", "Fit")
        assert bench.move(NODE_ADD, None, node("n")) == 1


def test_the_events_own_pod_is_asked_for_alone() -> None:
    def unless_own(pod: object, old: object, _new: object) -> Hint:
        return Hint.SKIP if pod.uid == old.uid else Hint.QUEUE  # type: ignore[attr-defined]

    bench = Bench({"Fit": (on(POD_DELETE, unless_own),)})
    own = bench.rejected("own", "Fit")
    bench.rejected("copy", "Fit")
    bench.at(20)
    bench.move(ASSIGNED_POD_DELETE, own, None)
    assert bench.names() == {"active": ["copy"], "pool": ["own"]}


def test_a_hint_that_raises_counts_as_queue_and_is_reported() -> None:
    def broken(_pod: object, _old: object, _new: object) -> Hint:
        raise KeyError("oops")

    bench = Bench({"Fit": (on(NODE_ADD, broken),)})
    bench.rejected("a", "Fit")
    bench.at(20)
    assert bench.move(NODE_ADD, None, node("n")) == 1
    assert "QueueingHintFn returns error: Fit, NodeAdd, default/a" in bench.facts.take_problems()[0]
    assert bench.facts.take_problems() == ()


def test_a_pod_of_an_unknown_profile_is_moved_by_any_event() -> None:
    bench = Bench()
    bench.rejected("a", "Fit", scheduler="gone")
    bench.at(20)
    assert bench.move(NODE_LABEL, node("n"), node("n")) == 1


def test_a_wake_that_fails_does_not_hold_up_those_behind_it() -> None:
    done: list[str] = []

    def failing() -> Generator[None, None, int]:
        yield
        yield
        raise RuntimeError("a fault of ours")

    def moving() -> Generator[None, None, int]:
        yield
        done.append("moved")
        return 1

    waking = Waking(1)
    waking.begin(failing())
    waking.begin(moving())
    with pytest.raises(RuntimeError):
        waking.finish()
    waking.finish()
    assert done == ["moved"]
    assert not waking.unfinished
