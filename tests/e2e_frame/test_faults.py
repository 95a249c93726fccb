"""What the fault proxy decides, and what it makes of an API server's answers."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from e2e.faults.plan import MAX_LINES_HELD, WATCH_ENDS, WRITE_FAULTS, Fault, LineOrder, Plan, Treatment, kind_of

LINES = [b"%d\n" % number for number in range(3000)]


def treatments(plan: Plan, kind: str, count: int = 300) -> list[Treatment]:
    return [plan.request(kind, is_write=True) for _ in range(count)]


def passed_on(order: LineOrder) -> list[bytes]:
    return [one for line in LINES for one in order.take(line)] + order.rest()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/v1/pods", "pods"),
        ("/api/v1/namespaces/default/pods/web", "pods"),
        ("/api/v1/namespaces/default/pods/web/binding", "pods/binding"),
        ("/api/v1/namespaces", "namespaces"),
        ("/api/v1/namespaces/default", "namespaces"),
        ("/apis/apps/v1/replicasets", "replicasets"),
        ("/apis/events.k8s.io/v1/namespaces/default/events", "events"),
        ("/apis/apps/v1", "discovery"),
        ("/apis", "discovery"),
        ("/version", "discovery"),
    ],
)
def test_a_path_says_which_kind_is_asked_for(path: str, kind: str) -> None:
    assert kind_of(path) == kind


def test_one_seed_makes_the_same_decisions_and_another_seed_others() -> None:
    first, again, other = (treatments(Plan(seed, 60), "pods/binding") for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_what_happens_to_one_kind_does_not_depend_on_the_others() -> None:
    alone, busy = Plan(1, 60), Plan(1, 60)
    treatments(busy, "nodes", 50)
    assert treatments(alone, "pods") == treatments(busy, "pods")


def test_every_fault_of_a_write_happens_and_most_writes_meet_none() -> None:
    plan = Plan(3, 60)
    seen = Counter(treatment.fault for treatment in treatments(plan, "pods/binding", 3000))
    assert set(seen) == {None, *WRITE_FAULTS}
    assert seen[None] > 2000
    assert plan.fired["pods/binding"] == {fault: times for fault, times in seen.items() if fault}


def test_a_read_is_never_delivered_late() -> None:
    plan = Plan(1, 60)
    assert Fault.LATE not in {plan.request("pods", is_write=False).fault for _ in range(3000)}


def test_silences_have_a_limit_and_some_lost_answers_none() -> None:
    seen = [treatment for treatment in treatments(Plan(1, 30), "pods", 5000) if treatment.fault]
    assert all(2 <= one.seconds <= 30 for one in seen if one.fault is Fault.SILENCE)
    assert {one.seconds == 0 for one in seen if one.fault is Fault.LOST_ANSWER} == {True, False}


def test_watches_end_in_every_way_sooner_or_later() -> None:
    plan = Plan(1, 60)
    watches = [plan.watch("nodes") for _ in range(300)]
    assert {watch.end for watch in watches} == set(WATCH_ENDS)
    assert min(watch.life_seconds for watch in watches) < 5 < max(watch.life_seconds for watch in watches)
    assert {watch.opening.fault is None for watch in watches} == {True, False}


def test_no_line_is_lost_and_each_comes_little_late() -> None:
    fired: Counter[Fault] = Counter()
    passed = passed_on(LineOrder(random.Random(1), 2.0, fired))
    assert set(passed) == set(LINES)
    assert len(passed) == len(LINES) + fired[Fault.DUPLICATE]
    first = {line: place for place, line in reversed(list(enumerate(dict.fromkeys(passed))))}
    late = [first[line] - place for place, line in enumerate(LINES)]
    assert 0 < max(late) <= MAX_LINES_HELD
    assert min(fired[Fault.DUPLICATE], fired[Fault.REORDER]) > 50


def test_a_line_comes_together_with_those_that_have_passed_it() -> None:
    order, newest = LineOrder(random.Random(1), 2.0, Counter()), -1
    for line in LINES:
        if passed := order.take(line):
            places = [LINES.index(one) for one in passed]
            # All up to the newest one have come by now.
            missing = set(range(newest + 1, max(places))) - set(places)
            assert not missing
            newest = max(newest, *places)


def test_what_is_held_back_is_given_once() -> None:
    order = LineOrder(random.Random(1), 1e9, Counter())
    assert order.take(b"a\n") == [] and order.holds_any
    assert order.rest() == [b"a\n"]
    assert order.rest() == [] and not order.holds_any


def test_lines_stand_still_now_and_then_and_it_is_counted() -> None:
    fired: Counter[Fault] = Counter()
    order = LineOrder(random.Random(1), 1.0, fired)
    delays = [seconds for _ in LINES if (seconds := order.delay_seconds())]
    assert len(delays) == fired[Fault.DELAY] > 3
    assert max(delays) <= 3
