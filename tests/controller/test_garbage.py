"""The garbage collector's settings, in this process, which gets its own back."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from scheduler.controller import garbage


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


def walks_of_the_old(count: int) -> None:
    """As many walks over the second generation."""
    for _ in range(count):
        gc.collect(1)


@pytest.mark.usefixtures("collector")
def test_once_the_first_lists_are_there_pauses_are_short_and_old_objects_wait() -> None:
    garbage.collect_seldom()
    assert gc.get_threshold()[0] == garbage.STARTING_OBJECTS
    garbage.keep_what_is_there()
    young, walks, old = gc.get_threshold()
    assert young * (walks + 2) <= 10_000, "objects in one walk of the second generation"
    assert old == garbage.MAX_MIDDLE_WALKS


@pytest.mark.usefixtures("collector")
def test_old_circles_are_collected_when_there_is_nothing_else_to_do_and_enough_has_come() -> None:
    gc.collect()
    garbage.keep_what_is_there()
    old = garbage.OldObjects()
    circle = Circle()
    left = weakref.ref(circle)
    # In the oldest generation.
    walks_of_the_old(2)
    del circle
    old.collect()
    assert left() is not None, "two walks are not enough"
    walks_of_the_old(garbage.MIDDLE_WALKS)
    old.collect()
    assert left() is None
    assert gc.get_count()[2] == 0


@pytest.mark.usefixtures("collector")
def test_the_more_there_is_the_more_must_come_before_all_of_it_is_walked_over_again() -> None:
    garbage.keep_what_is_there()
    old = garbage.OldObjects()
    walks_of_the_old(100)
    old.collect()
    assert gc.get_count()[2] == 0
    walks_of_the_old(24)
    old.collect()
    assert gc.get_count()[2] == 24
    walks_of_the_old(1)
    old.collect()
    assert gc.get_count()[2] == 0


@pytest.mark.usefixtures("collector")
def test_before_the_first_lists_nothing_is_collected_by_hand() -> None:
    garbage.collect_seldom()
    circle = Circle()
    left = weakref.ref(circle)
    walks_of_the_old(garbage.MIDDLE_WALKS + 2)
    del circle
    garbage.OldObjects().collect()
    assert left() is not None
    gc.collect()
