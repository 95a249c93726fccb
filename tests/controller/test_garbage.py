"""The garbage collector's settings, in this process, which gets its own back."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from scheduler.controller import garbage
from scheduler.controller.memory import InUse


class Circle:
    """Refers to itself: only the collector frees it."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def collector() -> Iterator[None]:
    before = gc.get_threshold()
    # A shell that another test started in this process may have left production's.
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


class Memory:
    """What is said to be in use."""

    def __init__(self, blocks: int, resident_bytes: int = 0) -> None:
        self.blocks = blocks
        self.resident_bytes = resident_bytes

    def __call__(self) -> InUse:
        return InUse(self.blocks, self.resident_bytes)


def a_circle() -> tuple[Circle, weakref.ref[Circle]]:
    circle = Circle()
    return circle, weakref.ref(circle)


def slices(collector: garbage.Collector, count: int) -> None:
    for _ in range(count):
        collector.after_slice()


def walks(collector: garbage.Collector, count: int) -> None:
    """As many walks over both young generations."""
    slices(collector, 2 * garbage.SLICES_A_WALK * count)


@pytest.mark.usefixtures("collector")
def test_once_the_first_lists_are_there_walks_are_short() -> None:
    garbage.collect_seldom()
    assert gc.get_threshold()[0] == garbage.STARTING_OBJECTS
    garbage.keep_what_is_there()
    young, before_a_middle_one, old = gc.get_threshold()
    assert young * (before_a_middle_one + 2) <= 6_000, "objects in one walk of the second generation"
    assert old == garbage.MAX_WALKS_BEFORE_A_LOOK


@pytest.mark.usefixtures("collector")
def test_what_has_outlived_two_walks_is_walked_over_no_more() -> None:
    gc.collect()
    garbage.keep_what_is_there()
    collector = garbage.Collector(Memory(1_000))
    circle, left = a_circle()
    slices(collector, 2 * garbage.SLICES_A_WALK - 1)
    assert any(each is circle for each in gc.get_objects())
    slices(collector, 1)
    assert not any(each is circle for each in gc.get_objects()), "those that are exempt are not among them"
    del circle
    gc.collect()
    assert left() is not None


@pytest.mark.usefixtures("collector")
def test_young_circles_are_collected_though_as_many_old_objects_go_as_new_ones_come() -> None:
    old: list[list[object]] = [[] for _ in range(20_000)]
    gc.collect()
    garbage.keep_what_is_there()
    collector = garbage.Collector(Memory(1_000))
    left = a_circle()[1]
    new: list[list[object]] = []
    while old:
        old.pop()
        new.append([])
    assert left() is not None, "the collector has not noticed that anything came"
    slices(collector, garbage.SLICES_A_WALK)
    assert left() is None


@pytest.mark.usefixtures("collector")
def test_old_circles_are_collected_at_an_idle_moment_once_memory_has_doubled() -> None:
    gc.collect()
    garbage.keep_what_is_there()
    memory = Memory(1_000)
    collector = garbage.Collector(memory)
    collector.when_idle()
    circle, left = a_circle()
    walks(collector, garbage.WALKS_BEFORE_A_LOOK)
    del circle
    memory.blocks = 1_999
    collector.when_idle()
    assert left() is not None, "less than twice as much"
    memory.blocks = 2_000
    collector.when_idle()
    assert left() is not None, "memory was measured a moment ago"
    walks(collector, garbage.WALKS_BEFORE_A_LOOK)
    collector.when_idle()
    assert left() is None


@pytest.mark.usefixtures("collector")
def test_old_circles_are_collected_though_it_is_no_object_s_memory_that_has_doubled() -> None:
    """A closed connection is few objects, and holds 300 KB for TLS."""
    garbage.keep_what_is_there()
    memory = Memory(1_000, resident_bytes=1_000_000)
    collector = garbage.Collector(memory)
    collector.when_idle()
    circle, left = a_circle()
    walks(collector, garbage.WALKS_BEFORE_A_LOOK)
    del circle
    memory.resident_bytes = 2_000_000
    collector.when_idle()
    assert left() is None


@pytest.mark.usefixtures("collector")
def test_free_memory_is_given_back_now_and_then() -> None:
    garbage.keep_what_is_there()
    given_back: list[int] = []
    collector = garbage.Collector(Memory(1_000), lambda: given_back.append(1))
    walks(collector, garbage.WALKS_BEFORE_A_LOOK - 1)
    assert len(given_back) == 0
    walks(collector, 1)
    assert len(given_back) == 1
    walks(collector, 2 * garbage.WALKS_BEFORE_A_LOOK)
    assert len(given_back) == 3


@pytest.mark.usefixtures("collector")
def test_growth_is_measured_from_what_stays_after_the_last_walk_over_all() -> None:
    garbage.keep_what_is_there()
    memory = Memory(1_000)
    collector = garbage.Collector(memory)
    collector.when_idle()
    memory.blocks = 3_000
    walks(collector, garbage.WALKS_BEFORE_A_LOOK)
    collector.when_idle()
    circle, left = a_circle()
    memory.blocks = 5_999
    walks(collector, garbage.WALKS_BEFORE_A_LOOK)
    del circle
    collector.when_idle()
    assert left() is not None
    memory.blocks = 6_000
    walks(collector, garbage.WALKS_BEFORE_A_LOOK)
    collector.when_idle()
    assert left() is None


@pytest.mark.usefixtures("collector")
def test_without_an_idle_moment_old_circles_are_collected_in_the_end() -> None:
    garbage.keep_what_is_there()
    memory = Memory(1_000)
    collector = garbage.Collector(memory)
    collector.when_idle()
    circle, left = a_circle()
    memory.blocks = 2_000
    walks(collector, garbage.MAX_WALKS_BEFORE_A_LOOK - 1)
    del circle
    assert left() is not None
    walks(collector, 1)
    assert left() is None


@pytest.mark.usefixtures("collector")
def test_before_the_first_lists_nothing_is_exempt_or_measured() -> None:
    garbage.collect_seldom()
    memory = Memory(1_000)
    collector = garbage.Collector(memory)
    circle, left = a_circle()
    collector.when_idle()
    walks(collector, 2)
    del circle
    gc.collect()
    assert left() is None
    garbage.keep_what_is_there()
    memory.blocks = 10_000
    circle, left = a_circle()
    collector.when_idle()
    walks(collector, garbage.WALKS_BEFORE_A_LOOK)
    del circle
    collector.when_idle()
    assert left() is not None, "the first lists are no growth"
