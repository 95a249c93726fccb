"""Forks of a dict against copies of it."""

from __future__ import annotations

import gc
import weakref

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from scheduler.cluster.forkable import ForkableDict

KEYS = st.integers(0, 5)


class ForksAgainstCopies(RuleBasedStateMachine):
    """Every fork, and fork of a fork, holds what a copy made in its place holds, whichever side changes."""

    sides = Bundle("sides")

    @initialize(target=sides)
    def an_empty_dict(self) -> tuple[ForkableDict[int, list[int]], dict[int, list[int]]]:
        self.pairs: list[tuple[ForkableDict[int, list[int]], dict[int, list[int]]]] = [(ForkableDict(), {})]
        return self.pairs[0]

    @rule(target=sides, side=sides)
    def fork(self, side: tuple[ForkableDict[int, list[int]], dict[int, list[int]]]) -> object:
        if len(self.pairs) > 8:
            return multiple()
        self.pairs.append((side[0].fork(), {key: list(value) for key, value in side[1].items()}))
        return self.pairs[-1]

    @rule(side=sides, key=KEYS, number=st.integers())
    def put(self, side: tuple[ForkableDict[int, list[int]], dict[int, list[int]]], key: int, number: int) -> None:
        side[0][key] = [number]
        side[1][key] = [number]

    @rule(side=sides, key=KEYS)
    def drop(self, side: tuple[ForkableDict[int, list[int]], dict[int, list[int]]], key: int) -> None:
        assert side[0].pop(key, None) == side[1].pop(key, None)

    @rule(side=sides, key=KEYS, number=st.integers())
    def change_a_value(
        self, side: tuple[ForkableDict[int, list[int]], dict[int, list[int]]], key: int, number: int
    ) -> None:
        if key in side[0]:
            side[0].writable(key, list).append(number)
            side[1][key].append(number)

    @invariant()
    def all_sides_are_as_their_copies(self) -> None:
        for fork, copy in getattr(self, "pairs", ()):
            assert dict(fork.items()) == copy
            assert sorted(fork) == sorted(copy)
            assert len(fork) == len(copy)
            assert bool(fork) == bool(copy)
            for key in range(6):
                assert (key in fork) == (key in copy)
                assert fork.get(key) == copy.get(key)


TestForksAgainstCopies = ForksAgainstCopies.TestCase
TestForksAgainstCopies.settings = settings(max_examples=150, stateful_step_count=30)


def test_a_fork_that_is_dropped_costs_its_parent_nothing_more() -> None:
    parent: ForkableDict[str, list[int]] = ForkableDict()
    parent["a"] = [1]
    value = parent["a"]
    gc.disable()
    try:
        fork = parent.fork()
        inner = fork.fork()
        watched = weakref.ref(inner)
        assert parent.writable("a", list) is not value
        del fork, inner
        assert watched() is None
        value = parent["a"]
        assert parent.writable("a", list) is value
    finally:
        gc.enable()


class CollectingKey(str):
    """The garbage collector runs whenever it likes: here whenever the key is looked up."""

    __slots__ = ()

    def __hash__(self) -> int:
        gc.collect()
        return str.__hash__(self)

    __eq__ = str.__eq__


def test_a_fork_may_be_collected_in_the_middle_of_a_change() -> None:
    parent: ForkableDict[str, list[object]] = ForkableDict()
    parent["a"] = []
    lost, kept = parent.fork(), parent.fork()
    lost["cycle"] = [lost]
    del lost
    parent[CollectingKey("b")] = [1]
    assert "b" not in kept
    lonely: ForkableDict[str, list[object]] = ForkableDict()
    lost = lonely.fork()
    lost["cycle"] = [lost]
    del lost
    lonely[CollectingKey("b")] = [1]
    lonely.pop(CollectingKey("b"))
    assert list(lonely) == []


def test_the_order_of_a_fork_is_that_of_its_parent() -> None:
    parent: ForkableDict[str, int] = ForkableDict()
    for number, key in enumerate("dbca"):
        parent[key] = number
    fork = parent.fork()
    fork["b"] = 9
    fork["e"] = 10
    parent["f"] = 11
    assert list(fork) == ["d", "b", "c", "a", "e"]
