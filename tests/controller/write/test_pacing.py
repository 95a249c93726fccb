"""Pacing: which write leaves next, as rules and as properties of any sequence of offers, departures and ends."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from scheduler.controller.write.pacing import (
    ACTING,
    MAX_EVENTS_WAITING,
    MAX_WAIT_SECONDS,
    MIN_PLACES,
    SHARE,
    TIMELY,
    Pacing,
    Rank,
    Slot,
)
from scheduler.controller.write.writer_settings import WriterSettings

PLACES = 28
COMMON = PLACES - SHARE * len(Rank)


@dataclass(eq=False)
class Write:
    """A condition is replaced by whatever comes after it for the same pod."""

    rank: Rank
    key: str = ""
    stands_for: list[Write] = field(default_factory=list)
    is_continuation: bool = False

    def folded_over(self, older: Write) -> Write | None:
        if older.rank is not Rank.CONDITION:
            return None
        rank, originals = min(self.rank, older.rank), older.originals + self.originals
        return Write(rank, self.key, originals, self.is_continuation)

    @property
    def originals(self) -> list[Write]:
        return self.stands_for or [self]


def offered(pacing: Pacing[Write], count: int, rank: Rank, now: float = 0.0) -> None:
    for _ in range(count):
        pacing.offer(Write(rank), now)


def taken(pacing: Pacing[Write], now: float = 0.0) -> list[Slot[Write]]:
    slots = []
    while (slot := pacing.take(now)) is not None:
        slots.append(slot)
    return slots


def ranks(slots: list[Slot[Write]]) -> list[Rank]:
    return [slot.write.rank for slot in slots]


def test_fewer_places_than_shares_are_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        Pacing[Write](MIN_PLACES - 1)


def test_bindings_take_every_place_but_the_shares_of_the_others() -> None:
    pacing = Pacing[Write](PLACES)
    offered(pacing, 100, Rank.EVENT)
    offered(pacing, 100, Rank.BINDING)
    out = ranks(taken(pacing))
    assert out.count(Rank.BINDING) == COMMON + SHARE
    assert out.count(Rank.EVENT) == SHARE


def test_a_removal_that_has_begun_goes_on_before_others_begin() -> None:
    pacing = Pacing[Write](PLACES)
    offered(pacing, 100, Rank.AWAITED)
    first = [slot for _ in range(COMMON + SHARE) if (slot := pacing.take(0.0)) is not None]
    pacing.offer(Write(Rank.AWAITED, is_continuation=True), 0.0)
    pacing.offer(Write(Rank.AWAITED, is_continuation=True), 1.0)
    for slot in first[:3]:
        pacing.finished(slot)
    out = taken(pacing)
    assert [(slot.since, slot.write.is_continuation) for slot in out] == [(0.0, True), (1.0, True), (0.0, False)]


def test_a_folded_write_that_goes_on_with_a_removal_leaves_as_such() -> None:
    pacing = Pacing[Write](PLACES)
    offered(pacing, COMMON + SHARE, Rank.CONDITION)
    busy = taken(pacing)
    offered(pacing, 5, Rank.CONDITION)
    pacing.offer(Write(Rank.CONDITION, "pod"), 0.0)
    pacing.offer(Write(Rank.CONDITION, "pod", is_continuation=True), 0.0)
    pacing.finished(busy[0])
    assert [slot.write.key for slot in taken(pacing)] == ["pod"]


def test_what_only_reports_keeps_to_its_share() -> None:
    pacing = Pacing[Write](PLACES)
    for rank in (Rank.EVENT, Rank.SCHEDULED, Rank.CONDITION):
        offered(pacing, 100, rank)
    out = ranks(taken(pacing))
    assert {rank: out.count(rank) for rank in set(out)} == {
        Rank.CONDITION: SHARE,
        Rank.SCHEDULED: SHARE,
        Rank.EVENT: SHARE,
    }


def test_a_deletion_waits_for_no_condition_and_no_binding() -> None:
    pacing = Pacing[Write](PLACES)
    offered(pacing, 1000, Rank.CONDITION)
    offered(pacing, 1000, Rank.BINDING)
    taken(pacing)
    offered(pacing, 1000, Rank.AWAITED)
    assert ranks(taken(pacing)) == [Rank.AWAITED] * SHARE


def test_a_scheduled_event_that_has_waited_for_long_goes_before_the_bindings() -> None:
    pacing = Pacing[Write](PLACES)
    offered(pacing, 100, Rank.BINDING)
    under_way = taken(pacing)
    offered(pacing, 100, Rank.SCHEDULED)
    assert len(taken(pacing)) == SHARE
    pacing.finished(under_way.pop())
    assert ranks(taken(pacing, MAX_WAIT_SECONDS - 0.1)) == [Rank.BINDING]
    pacing.finished(under_way.pop())
    assert ranks(taken(pacing, MAX_WAIT_SECONDS)) == [Rank.SCHEDULED]


def test_an_event_leaves_in_time_after_an_older_one_has_left_and_none_was_overdue_between_them() -> None:
    pacing = Pacing[Write](PLACES)
    offered(pacing, SHARE, Rank.SCHEDULED)
    assert len(taken(pacing)) == SHARE
    offered(pacing, 1, Rank.SCHEDULED)
    offered(pacing, 1, Rank.SCHEDULED, 3.0)
    assert [slot.since for slot in taken(pacing, MAX_WAIT_SECONDS)] == [0.0]
    assert taken(pacing, MAX_WAIT_SECONDS + 1.0) == []
    assert pacing._oldest == 3.0
    assert [slot.since for slot in taken(pacing, 3.0 + MAX_WAIT_SECONDS)] == [3.0]


def test_events_that_get_no_answer_keep_to_their_share_until_one_does() -> None:
    pacing = Pacing[Write](PLACES)
    offered(pacing, 100, Rank.BINDING)
    offered(pacing, 100, Rank.SCHEDULED)
    out = taken(pacing)
    bindings = [slot for slot in out if slot.write.rank is Rank.BINDING]
    events = [slot for slot in out if slot.write.rank is Rank.SCHEDULED]
    pacing.finished(events.pop(), is_answered=False)
    pacing.finished(bindings.pop())
    assert ranks(taken(pacing, 10.0)) == [Rank.BINDING, Rank.SCHEDULED]
    pacing.finished(events.pop(), is_answered=True)
    pacing.finished(bindings.pop())
    assert ranks(taken(pacing, 10.0)) == [Rank.SCHEDULED, Rank.SCHEDULED]


def test_scheduled_events_that_pile_up_go_before_the_bindings_until_they_are_fewer() -> None:
    pacing = Pacing[Write](PLACES)
    offered(pacing, 100, Rank.BINDING)
    offered(pacing, MAX_EVENTS_WAITING + SHARE + 5, Rank.SCHEDULED)
    out = ranks(taken(pacing))
    assert WriterSettings().events_queued > MAX_EVENTS_WAITING, "none is dropped by then"
    assert out.count(Rank.SCHEDULED) == SHARE + 5
    assert out.count(Rank.BINDING) == SHARE + COMMON - 5


def test_other_events_never_go_before_what_acts() -> None:
    pacing = Pacing[Write](PLACES)
    offered(pacing, 100, Rank.BINDING)
    under_way = taken(pacing)
    offered(pacing, 100, Rank.EVENT)
    taken(pacing)
    pacing.finished(under_way[0])
    assert ranks(taken(pacing, 1000.0)) == [Rank.BINDING]


def test_a_bind_stands_for_the_condition_that_was_queued_before_it() -> None:
    pacing = Pacing[Write](PLACES)
    condition, bind = Write(Rank.CONDITION, "pod"), Write(Rank.BINDING, "pod")
    pacing.offer(condition, 0.0)
    pacing.offer(bind, 0.0)
    (slot,) = taken(pacing)
    assert slot.write.rank is Rank.BINDING
    assert slot.write.stands_for == [condition, bind]
    assert pacing.folded == 1


def test_a_bind_waits_for_the_condition_that_has_left() -> None:
    pacing = Pacing[Write](PLACES)
    pacing.offer(Write(Rank.CONDITION, "pod"), 0.0)
    (condition,) = taken(pacing)
    pacing.offer(Write(Rank.BINDING, "pod"), 0.0)
    assert not taken(pacing)
    pacing.finished(condition)
    assert ranks(taken(pacing)) == [Rank.BINDING]


def test_a_postponed_condition_gives_its_place_away_and_is_over_once_its_pod_is_bound() -> None:
    pacing = Pacing[Write](PLACES)
    pacing.offer(Write(Rank.CONDITION, "pod"), 0.0)
    (condition,) = taken(pacing)
    pacing.postponed(condition)
    assert not taken(pacing)
    assert pacing.under_way(Rank.CONDITION) == 0
    pacing.offer(Write(Rank.BINDING, "pod"), 0.0)
    assert ranks(taken(pacing)) == [Rank.BINDING]
    pacing.resume(condition)
    assert not taken(pacing)
    assert pacing.open(*Rank) == 1


def test_a_bind_that_came_while_the_condition_was_under_way_does_not_wait_for_its_retries() -> None:
    pacing = Pacing[Write](PLACES)
    pacing.offer(Write(Rank.CONDITION, "pod"), 0.0)
    (condition,) = taken(pacing)
    pacing.offer(Write(Rank.BINDING, "pod"), 0.0)
    pacing.postponed(condition)
    assert ranks(taken(pacing)) == [Rank.BINDING]
    pacing.resume(condition)
    assert not taken(pacing)
    assert (pacing.open(Rank.BINDING), pacing.open(*Rank), pacing.folded) == (1, 1, 1)


def test_a_condition_that_came_while_the_one_before_was_under_way_is_what_is_sent_again() -> None:
    pacing = Pacing[Write](PLACES)
    pacing.offer(Write(Rank.CONDITION, "pod"), 0.0)
    (condition,) = taken(pacing)
    newer = Write(Rank.CONDITION, "pod")
    pacing.offer(newer, 0.0)
    pacing.postponed(condition)
    assert not taken(pacing)
    pacing.resume(condition)
    (again,) = taken(pacing)
    assert newer in again.write.originals
    assert pacing.open(*Rank) == 1


def test_a_postponed_write_that_is_resumed_leaves_before_the_others_of_its_class() -> None:
    pacing = Pacing[Write](PLACES)
    first = Write(Rank.CONDITION, "pod")
    pacing.offer(first, 0.0)
    (slot,) = taken(pacing)
    pacing.postponed(slot)
    pacing.offer(Write(Rank.CONDITION), 0.0)
    pacing.resume(slot)
    again = pacing.take(0.0)
    assert again is not None
    assert again.write is first


class AnySequence(RuleBasedStateMachine):
    """Offers, departures, ends and retries in any order: what must hold at every moment."""

    def __init__(self) -> None:
        super().__init__()
        self.pacing = Pacing[Write](PLACES)
        self.now = 0.0
        self.offers: list[Write] = []
        self.out: list[Slot[Write]] = []
        self.postponed: list[Slot[Write]] = []
        self.left: list[Write] = []
        """Every write in the order in which it left for the last time, and those that it stands for before it."""

    slots = Bundle("slots")
    resting = Bundle("resting")

    @rule(rank=st.sampled_from(Rank), pod=st.sampled_from(["", "a", "b", "c"]), count=st.integers(1, 6))
    def offer(self, rank: Rank, pod: str, count: int) -> None:
        for _ in range(count):
            write = Write(rank, pod)
            self.offers.append(write)
            self.pacing.offer(write, self.now)

    @rule(seconds=st.sampled_from([0.1, 1.0, MAX_WAIT_SECONDS]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule(target=slots)
    def take(self) -> Slot[Write] | None:
        slot = self.pacing.take(self.now)
        if slot is not None:
            self.out.append(slot)
        return slot

    @rule(slot=consumes(slots), is_answered=st.booleans())
    def finish(self, slot: Slot[Write] | None, is_answered: bool) -> None:
        if slot is not None:
            self.out.remove(slot)
            self.left += slot.write.originals
            self.pacing.finished(slot, is_answered=is_answered)

    @rule(target=resting, slot=consumes(slots))
    def postpone(self, slot: Slot[Write] | None) -> Slot[Write] | None:
        if slot is not None:
            self.out.remove(slot)
            self.pacing.postponed(slot)
            self.postponed.append(slot)
        return slot

    @rule(slot=consumes(resting))
    def resume(self, slot: Slot[Write] | None) -> None:
        if slot is not None:
            self.pacing.resume(slot)

    @invariant()
    def no_more_than_the_places_are_under_way(self) -> None:
        assert len(self.out) == sum(self.pacing.under_way(rank) for rank in Rank) <= PLACES

    @invariant()
    def one_write_of_a_pod_at_a_time(self) -> None:
        keys = [slot.write.key for slot in self.out if slot.write.key]
        assert len(keys) == len(set(keys))

    @invariant()
    def every_class_gets_its_share(self) -> None:
        for rank in Rank:
            if self.pacing._ready[rank] and self.pacing.under_way(rank) < SHARE:
                assert self.pacing._next(self.now) is not None

    @invariant()
    def what_reports_takes_a_common_place_only_when_it_is_overdue(self) -> None:
        rank = self.pacing._next(self.now)
        if rank is not None and rank not in ACTING and self.pacing.under_way(rank) >= SHARE:
            assert self.pacing._is_overdue(rank, self.now)

    @invariant()
    def the_common_places_are_counted_right(self) -> None:
        used = sum(max(0, self.pacing.under_way(rank) - SHARE) for rank in Rank)
        assert self.pacing._common_free == COMMON - used >= 0
        assert self.pacing._ready == [len(lane._continuing) + len(lane._beginning) for lane in self.pacing._lanes]
        assert self.pacing.ready == sum(self.pacing._ready)

    @invariant()
    def no_timely_write_in_a_lane_is_older_than_the_oldest_is_said_to_be(self) -> None:
        lanes = [self.pacing._lanes[rank] for rank in TIMELY]
        slots = [slot for lane in lanes for slot in (*lane._continuing.values(), *lane._beginning.values())]
        assert all(self.pacing._oldest <= slot.since for slot in slots)

    def teardown(self) -> None:
        """When everything is let go, each write has left once or been stood for once, those of a pod in order."""
        for slot in self.out:
            self.left += slot.write.originals
            self.pacing.finished(slot)
        for slot in self.postponed:
            self.pacing.resume(slot)
        while (one := self.pacing.take(self.now)) is not None:
            self.left += one.write.originals
            self.pacing.finished(one)
        assert sorted(map(id, self.left)) == sorted(map(id, self.offers))
        assert self.pacing.open(*Rank) == 0
        assert not self.pacing._lines
        for pod in "abc":
            assert [write for write in self.left if write.key == pod] == [w for w in self.offers if w.key == pod]


TestAnySequence = AnySequence.TestCase
TestAnySequence.settings = settings(max_examples=60, stateful_step_count=50)


@pytest.mark.parametrize(("rate", "latency"), [(100, 0.05), (400, 0.05), (1000, 0.01)])
def test_a_storm_of_bindings_keeps_no_scheduled_event_waiting_much_longer_than_its_limit(
    rate: int, latency: float
) -> None:
    """Pods are bound as fast as places allow, each binding followed by its event; the API server answers in time."""
    pacing = Pacing[Write](PLACES)
    step, waited, seconds = latency / 2, 0.0, 9.0
    ends: list[tuple[float, Slot[Write]]] = []
    now = 0.0
    while now < seconds or ends:
        if now < seconds:
            offered(pacing, int(rate * step) + 1, Rank.BINDING, now)
        for end, slot in [one for one in ends if one[0] <= now]:
            ends.remove((end, slot))
            pacing.finished(slot)
            if slot.write.rank is Rank.BINDING:
                pacing.offer(Write(Rank.SCHEDULED), now)
        for slot in taken(pacing, now):
            if slot.write.rank is Rank.SCHEDULED:
                waited = max(waited, now - slot.since)
            ends.append((now + latency, slot))
        now += step
    assert 1.0 < waited <= MAX_WAIT_SECONDS + 0.5
